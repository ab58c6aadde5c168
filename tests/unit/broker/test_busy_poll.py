"""The loop stays awake where somebody is expected, as long as that is worth it."""

from __future__ import annotations

import asyncio
import os

import pytest

from cometmq.broker.loop.busy_poll import (
    SLEEPS_AFTER_VAIN,
    SLEEPS_AFTER_VAIN_MAX,
    STAY_SECONDS,
    BusyPoll,
)
from tests.support.hand_clock import HandClock

TURNS = 5


class Bench:
    """A busy poll in the running loop, and how often that looked without sleeping."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.looks = 0
        self.busy_poll = BusyPoll(asyncio.get_running_loop(), self.clock)

    def count(self) -> None:
        self.looks += 1

    async def turns(self) -> int:
        """Some turns of the loop; the looks in them."""
        before = self.looks
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return self.looks - before

    async def expect_in_vain(self) -> int:
        """Expect somebody who does not come; the looks until then."""
        self.busy_poll.begin()
        looks = await self.turns()
        self.clock.turn(STAY_SECONDS)
        assert await self.turns() == 0
        return looks

    async def sleeps(self) -> int:
        """How often nobody is looked for, until somebody is again, in vain."""
        sleeps = 0
        while await self.expect_in_vain() == 0:
            sleeps += 1
        return sleeps


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(os, "sched_yield", bench.count)
    return bench


async def test_it_looks_each_turn_until_somebody_comes(bench):
    assert await bench.turns() == 0
    bench.busy_poll.begin()
    assert await bench.turns() == TURNS
    bench.busy_poll.begin()  # Once is enough.
    assert await bench.turns() == TURNS
    bench.busy_poll.end()
    assert await bench.turns() == 0
    bench.busy_poll.begin()
    assert await bench.turns() == TURNS


async def test_who_does_not_come_is_looked_for_less_and_less(bench):
    assert await bench.expect_in_vain() == TURNS
    assert await bench.sleeps() == SLEEPS_AFTER_VAIN
    assert await bench.sleeps() == 4 * SLEEPS_AFTER_VAIN
    for _ in range(3):
        await bench.sleeps()
    assert await bench.sleeps() == SLEEPS_AFTER_VAIN_MAX


async def test_who_comes_in_time_is_looked_for_each_time_again(bench):
    for _ in range(2):
        await bench.sleeps()
    assert await bench.sleeps() > SLEEPS_AFTER_VAIN
    while not await bench.turns():
        bench.busy_poll.begin()
    bench.busy_poll.end()
    assert await bench.expect_in_vain() == TURNS
    assert await bench.sleeps() == SLEEPS_AFTER_VAIN
