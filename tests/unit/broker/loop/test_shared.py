"""Steps for several askers: taken once for all who wait, and never older than the question."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cometmq.broker.loop.on_loop import Machines
from cometmq.broker.loop.shared import SharedSteps
from cometmq.broker.loop.steps import elsewhere
from cometmq.broker.statistics.requests.runtime import RuntimeHandler
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.peer import Peer
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand

RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO


async def let_all_go_on() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Counting:
    """Steps that look at a number in a thread."""

    def __init__(self) -> None:
        self.world, self.number, self.begun = HandWorld(), 0, 0
        self.shared = SharedSteps(Machines(self.world, "owner"), self.steps)

    def steps(self):
        self.begun += 1
        seen = self.number
        yield from elsewhere(lambda: None)
        if seen < 0:
            raise ValueError(seen)
        return seen

    async def ask(self) -> asyncio.Task[int]:
        asked = asyncio.create_task(self.shared.result())
        await let_all_go_on()
        return asked

    async def go_on(self) -> None:
        self.world.settle()
        await let_all_go_on()


async def test_all_who_ask_while_one_waits_share_the_next_run_and_see_what_came_before_they_asked():
    counting = Counting()
    first = await counting.ask()
    counting.number = 1
    later = [await counting.ask() for _ in range(1000)]
    counting.number = 2
    last = await counting.ask()
    for _ in range(3):
        await counting.go_on()
    assert await first == 0
    assert {await each for each in (*later, last)} == {2}
    assert counting.begun == 2


async def test_who_goes_away_or_fails_takes_nothing_from_those_who_ask_next():
    counting = Counting()
    counting.number = -1
    gone, failed = await counting.ask(), await counting.ask()
    gone.cancel()
    await counting.go_on()
    counting.number = -2
    await counting.go_on()
    with pytest.raises(ValueError, match="-1"):
        await failed
    counting.number = 3
    asked = await counting.ask()
    await counting.go_on()
    assert (gone.cancelled(), await asked) == (True, 3)


async def test_a_thousand_requests_for_runtime_numbers_make_two_tables(tmp_path):
    """Each made its own and kept it while it waited for a thread: one connection held 16 MB more."""
    made: list[int] = []

    def told() -> dict[str, str]:
        made.append(1)
        return {"fact": "told"}

    with parts_by_hand(tmp_path, HandClock()) as parts:
        load_tables(parts)
        world = cast("HandWorld", parts.world)
        machines = Machines(world, "owner")
        handler = RuntimeHandler(parts, machines=machines, facts=[told])
        peer = cast("Peer", None)
        answers = [
            asyncio.create_task(handler.runtime(Command(RUNTIME), peer)) for _ in range(1000)
        ]
        while not all(each.done() for each in answers):
            await let_all_go_on()
            world.settle()
        bodies = [cast("bytes", each.result().body) for each in answers]
    assert {decode_kv_table(body)["fact"] for body in bodies} == {"told"}
    assert len(made) == 2
