"""With SYNC_FLUSH the loop flushes itself while that is quick, and the flusher's thread after it was slow."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator

import pytest

from cometmq.broker.loop import flusher
from cometmq.broker.loop.flusher import (
    FLUSHES_AFTER_SLOW_MAX,
    QUICK_SECONDS,
    Flusher,
)
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import make_put, open_store

SYNC = StoreSettings(
    commitlog_file_size=1 << 20, queue_file_size=400, disk_reserve=0, flush_sync=True
)
LOOP, THREAD = "MainThread", "flusher"

pytestmark = pytest.mark.threads


class TimedDisk(FakeDisk):
    """A disk whose syncs take a time, and which knows who asked for them."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.hand_clock = clock
        self.sync_seconds = 0.0
        self.asked_by: list[str] = []

    def fdatasync(self, fd: int) -> None:
        self.asked_by.append(threading.current_thread().name)
        self.hand_clock.turn(self.sync_seconds)
        super().fdatasync(fd)


class Bench:
    def __init__(self) -> None:
        clock = HandClock()
        self.disk = TimedDisk(clock)
        self.store: MessageStore = open_store(settings=SYNC, disk=self.disk, clock=clock)
        self.flusher = Flusher(self.store, clock)

    async def send(self, reads: int = 1) -> list[Durability]:
        """So many reads in one turn of the loop, one message each; what each was told."""
        told: list[asyncio.Future[Durability]] = []
        for _ in range(reads):
            self.store.put_many([make_put(self.store, body=b"x")])
            answered = asyncio.get_running_loop().create_future()
            told.append(answered)
            self.store.wait_flushed(self.store.max_offset, answered.set_result)
            self.flusher.written()
        return await asyncio.wait_for(asyncio.gather(*told), 10)


@pytest.fixture
async def bench(monkeypatch) -> AsyncIterator[Bench]:
    # The timer has the thread flush, too, where a busy machine lets it come before the loop.
    for name in ("TICK_SECONDS", "REST_SECONDS"):
        monkeypatch.setattr(flusher, name, 3_600.0)
    bench = Bench()
    bench.flusher.start()
    await bench.send()  # Its first file is made by now.
    bench.disk.asked_by.clear()
    yield bench
    await bench.flusher.close()


async def test_a_quick_flush_runs_in_the_loop_once_for_all_reads_of_a_turn(bench):
    assert await bench.send(reads=5) == [Durability.OK] * 5
    assert bench.disk.asked_by == [LOOP]


async def test_what_follows_a_flush_for_one_is_on_its_way_before_the_next_flush(bench):
    begun = []
    for reads in (1, 1, 5, 5, 1, 1):
        bench.disk.calls.clear()
        await bench.send(reads=reads)
        begun.append(bench.disk.calls["begin_writing"])
    # Who waited tells what to expect: one behind one, several behind several.
    assert begun == [1, 1, 5, 0, 0, 1]


async def test_the_loop_stays_awake_behind_a_flush_for_one_and_not_behind_others(
    bench, monkeypatch
):
    looks = []
    monkeypatch.setattr(os, "sched_yield", lambda: looks.append(1))

    async def looked() -> bool:
        looks.clear()
        for _ in range(5):
            await asyncio.sleep(0)
        return len(looks) > 0

    await bench.send()
    assert await looked()
    await bench.send(reads=2)
    assert not await looked()
    await bench.send()
    assert await looked()
    await bench.flusher.close()
    assert not await looked()


async def test_after_a_slow_flush_the_thread_has_the_next_ones_and_then_the_loop_again(bench):
    bench.disk.sync_seconds = QUICK_SECONDS * 2
    asked = bench.disk.asked_by
    await until_the_loop_flushes(bench, asked)
    bench.disk.sync_seconds = 0.0
    asked.clear()
    await until_the_loop_flushes(bench, asked)
    assert set(asked[:-1]) == {THREAD}


async def until_the_loop_flushes(bench: Bench, asked: list[str]) -> None:
    """Send until the loop has flushed; that is the last of those who asked."""
    for _ in range(10 * FLUSHES_AFTER_SLOW_MAX):
        assert await bench.send() == [Durability.OK]
        if LOOP in asked:
            return
    raise AssertionError(f"the loop flushes no more: {asked}")


async def test_the_longer_a_disk_is_slow_the_more_flushes_the_thread_has(bench):
    bench.disk.sync_seconds = QUICK_SECONDS * 2
    for _ in range(2 * FLUSHES_AFTER_SLOW_MAX):
        assert await bench.send() == [Durability.OK]
    asked = bench.disk.asked_by
    tries = [place for place, by in enumerate(asked) if by == LOOP]
    shares = [after - before - 1 for before, after in itertools.pairwise(tries)]
    assert shares[0] < shares[-1]
    assert asked.count(LOOP) < len(asked) / 10


async def test_a_flush_that_fails_in_the_loop_is_final(bench):
    bench.disk.fail("fdatasync")
    assert await bench.send(reads=2) == [Durability.DISK_LATE] * 2
    assert "flush of the log failed" in str(bench.store.refusal)
    assert len(bench.disk.asked_by) == 1
