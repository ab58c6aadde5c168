"""Machines on asyncio's loop: threads are real, and who goes away takes nothing along."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.steps.steps import (
    at_once_or_elsewhere,
    confirmed,
    elsewhere,
    on_device,
    turn_end,
)
from cometmq.store.positions import Durability

pytestmark = pytest.mark.threads


class Confident:
    """A log that is where everybody wants it."""

    max_offset = 0

    def wait_flushed(self, end_offset, on_done) -> None:
        on_done(Durability.OK)

    wait_confirmed = wait_flushed


@pytest.fixture
async def machines():
    with ThreadPoolExecutor(1) as pool:
        made = Machines(LoopWorld(pool, Confident()), "owner")
        yield made
        await made.close()


async def test_work_is_done_in_another_thread_and_comes_back_to_the_loop(machines):
    def steps():
        there = yield from elsewhere(threading.get_ident)
        is_there = yield from on_device()
        assert (yield from confirmed(7)) is Durability.OK
        yield from turn_end()
        return there, threading.get_ident(), is_there

    there, here, is_there = await machines.run(steps())
    assert (here, is_there) == (threading.get_ident(), True)
    assert there != here


async def test_work_that_would_block_is_done_in_another_thread_and_other_work_at_once(machines):
    def work(may_block):
        if is_cold and not may_block:
            raise BlockingIOError
        return threading.get_ident()

    def steps():
        return (yield from at_once_or_elsewhere(work))

    for is_cold in (False, True):
        assert (await machines.run(steps()) != threading.get_ident()) is is_cold


async def test_an_error_of_the_work_goes_to_who_waits(machines):
    def steps():
        yield from elsewhere(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        await machines.run(steps())


async def test_who_goes_away_does_not_stop_the_steps(machines):
    gate, ends = threading.Event(), []

    def steps():
        yield from elsewhere(gate.wait)
        ends.append("done")

    waiter = asyncio.ensure_future(asyncio.wait_for(machines.run(steps()), None))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    gate.set()
    await machines.close()
    assert ends == ["done"]


async def test_a_kept_machine_is_stopped_when_its_owner_is_closed(machines):
    came, gate, steps_taken = asyncio.Event(), threading.Event(), []

    def step():
        steps_taken.append("begun")
        came.set()
        yield from elsewhere(gate.wait)
        steps_taken.append("ended")
        return 0.0

    machines.keep("machine", step)
    await came.wait()
    closing = asyncio.ensure_future(machines.close())
    await asyncio.sleep(0)
    assert not closing.done(), "its work in a thread is not over"
    gate.set()
    await closing
    assert steps_taken == ["begun"]
