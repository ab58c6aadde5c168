"""Steps for several askers: taken once for all who wait, and never older than the question."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cometmq.broker.statistics.requests import RuntimeHandler
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.peer import Peer
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import elsewhere
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld, Outcome
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand

RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO


class Counting:
    """Steps that look at a number in a thread."""

    def __init__(self) -> None:
        self.world, self.number, self.begun = HandWorld(), 0, 0
        self.shared = SharedSteps(self.world, self.steps)

    def steps(self):
        self.begun += 1
        seen = self.number
        yield from elsewhere(lambda: None)
        if seen < 0:
            raise ValueError(seen)
        return seen

    def ask(self) -> Outcome:
        return self.world.begin(self.shared.result())


def test_all_who_ask_while_one_waits_share_the_next_run_and_see_what_came_before_they_asked():
    counting = Counting()
    first = counting.ask()
    counting.number = 1
    later = [counting.ask() for _ in range(1000)]
    counting.number = 2
    last = counting.ask()
    counting.world.settle()
    assert first.get() == 0
    assert {each.get() for each in (*later, last)} == {2}
    assert counting.begun == 2


def test_who_fails_takes_nothing_from_those_who_ask_next():
    counting = Counting()
    counting.number = -1
    failed = counting.ask()
    counting.world.settle()
    with pytest.raises(ValueError, match="-1"):
        failed.get()
    counting.number = 3
    asked = counting.ask()
    counting.world.settle()
    assert asked.get() == 3


async def test_a_thousand_requests_for_runtime_numbers_make_two_tables(tmp_path):
    """Each made its own and kept it while it waited for a thread: one connection held 16 MB more."""
    made: list[int] = []

    def told() -> dict[str, str]:
        made.append(1)
        return {"fact": "told"}

    with parts_by_hand(tmp_path, HandClock()) as parts:
        load_tables(parts)
        world = cast("HandWorld", parts.world)
        handle = cast("Any", RuntimeHandler(parts, facts=[told]).answers[RUNTIME])
        peer = cast("Peer", None)
        answers = [world.begin(handle(Command(RUNTIME), peer)) for _ in range(1000)]
        world.settle()
        bodies = [cast("bytes", each.get().body) for each in answers]
    assert {decode_kv_table(body)["fact"] for body in bodies} == {"told"}
    assert len(made) == 2
