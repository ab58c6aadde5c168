"""What survives a power cut or the death of the process: random ones, and chosen ones.

A model of what was put and what was acknowledged stands beside the store. After each stop the
queues must be dense, in order, and hold at least what was acknowledged as on disk.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    run_jobs,
    settle,
)

SYNC = StoreSettings(
    commitlog_file_size=16_384, queue_file_size=400, disk_reserve=0, flush_sync=True
)
QUEUES = [("orders", 0), ("orders", 1), ("payments", 0)]


@dataclass
class Run:
    """A store, its disk and clock, and what must be in it."""

    settings: StoreSettings = SYNC
    disk: FakeDisk = field(default_factory=FakeDisk)
    clock: HandClock = field(default_factory=HandClock)
    put: dict = field(default_factory=lambda: {queue: [] for queue in QUEUES})
    acknowledged: dict = field(default_factory=lambda: dict.fromkeys(QUEUES, 0))
    number: int = 0

    def __post_init__(self) -> None:
        self.store = open_store(settings=self.settings, disk=self.disk, clock=self.clock)

    def put_some(self, count: int, size: int) -> None:
        puts = []
        for _ in range(count):
            queue = QUEUES[self.number % len(QUEUES)]
            body = b"%d " % self.number + b"x" * (size * (self.number % 7 + 1) // 7)
            self.number += 1
            puts.append(make_put(self.store, *queue, body))
            self.put[queue].append(body)
        end = self.store.put_many(puts)[-1]
        counts = {queue: len(bodies) for queue, bodies in self.put.items()}
        if self.settings.flush_sync:  # Whoever waits has it flushed.
            self.store.wait_flushed(
                end[1] + end[2], lambda outcome: self.note(outcome is Durability.OK, counts)
            )
        self.store.dispatch_pending()

    def note(self, is_on_disk: bool, counts: dict) -> None:
        if is_on_disk:
            self.acknowledged = counts

    def consumed(self) -> dict:
        """What consumers can see now."""
        return {queue: bodies_of(self.store, *queue) for queue in QUEUES}

    def open_again(self, disk: FakeDisk) -> None:
        """Go on from what a stop left, and compare it with the model."""
        seen_before = self.consumed() if self.settings.flush_sync else None
        self.disk = disk
        self.store = open_store(settings=self.settings, disk=disk, clock=self.clock)
        assert self.store.refusal is None
        for queue in QUEUES:
            there = bodies_of(self.store, *queue)
            assert there == self.put[queue][: len(there)], queue
            if self.settings.flush_sync:
                assert len(there) >= self.acknowledged[queue]
                assert seen_before is not None
                assert there[: len(seen_before[queue])] == seen_before[queue]
            found = self.store.queue(*queue)
            assert (found.next_offset if found else 0) == len(there)
            self.put[queue] = there
            self.acknowledged[queue] = min(self.acknowledged[queue], len(there))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 12), st.sampled_from([1, 90, 900])),
        st.tuples(st.just("jobs"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("close"), st.just(0), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 1 << 30), st.just(0)),
    ),
    max_size=30,
)


def take(run: Run, step: tuple[str, int, int]) -> None:
    kind, first, second = step
    if kind == "put":
        run.put_some(first, second)
    elif kind == "jobs":
        run.clock.turn(2)
        run_jobs(run.store, ticks=first)
    elif kind == "flush":
        flush(run.store)
    elif kind == "close":
        run.store.close()
        run.open_again(run.disk.kill())
    elif kind == "kill":
        run.open_again(run.disk.kill())
    else:
        run.open_again(run.disk.power_cut(random.Random(first) if first % 3 else None))


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_synchronous_flush_loses_nothing_acknowledged_whatever_happens(steps):
    run = Run()
    for step in steps:
        take(run, step)
    run.open_again(run.disk.power_cut())


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_asynchronous_flush_leaves_queues_dense_whatever_happens(steps):
    run = Run(settings=SMALL)
    for step in steps:
        take(run, step)
    run.open_again(run.disk.kill())


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_death_of_the_process_loses_nothing_at_all(steps):
    run = Run(settings=SMALL)
    for step in steps:
        if step[0] == "cut":
            continue
        take(run, step)
    put = {queue: list(bodies) for queue, bodies in run.put.items()}
    run.open_again(run.disk.kill())
    assert run.consumed() == put


@pytest.mark.parametrize(
    "call", ["pwrite", "fdatasync", "unlink", "clear_from", "sync_directory"]
)
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8])
def test_a_recovery_that_stops_half_way_can_be_begun_again(call, nth):
    run = Run()
    for _ in range(12):
        run.put_some(9, 900)
        run.clock.turn(2)
        run_jobs(run.store)
    run.put_some(9, 900)
    disk = run.disk.power_cut(random.Random(nth))
    disk.fail(call, nth=nth)
    store = None
    try:
        store = open_store(settings=SYNC, disk=disk, clock=run.clock)
    except OSError:
        disk.heal()
        run.open_again(disk.power_cut(random.Random(nth + 1)))
    else:
        disk.heal()
        run.open_again(disk.power_cut())
    assert store is None or isinstance(store, MessageStore)


def test_a_message_that_was_cut_does_not_come_back():
    """A torn record is replaced by one of its size: what stood behind it must be gone."""
    run = Run(settings=SMALL)
    run.put_some(3, 7)
    flush(run.store)
    torn_at = run.store.max_offset
    run.store.put_many([make_put(run.store, body=b"torn!"), make_put(run.store, body=b"after")])
    disk = run.disk.kill()
    path = "/store/commitlog/00000000000000000000"
    disk.names[path].content[torn_at + 90] ^= 0xFF
    store = open_store(disk=disk, clock=run.clock)
    assert store.refusal is None
    assert store.max_offset == torn_at
    store.put_many([make_put(store, body=b"fresh")])
    again = open_store(disk=disk.kill(), clock=run.clock)
    assert bodies_of(again)[-1] == b"fresh"
    assert b"after" not in bodies_of(again)


def test_synchronous_flush_shows_nothing_that_is_not_on_disk():
    run = Run()
    run.put_some(3, 10)
    assert run.consumed() == {queue: [] for queue in QUEUES}
    assert run.acknowledged == dict.fromkeys(QUEUES, 0)
    flush(run.store)
    assert run.consumed() == run.put
    assert run.acknowledged == dict.fromkeys(QUEUES, 1)


def test_queue_entries_of_a_log_that_was_lost_do_not_come_back():
    """The queue was synced, the log behind it not: its entries go with their records."""
    run = Run(settings=SMALL)
    run.put_some(6, 7)
    run.clock.turn(11)
    run_jobs(run.store)
    flushed = run.store.flushed_offset
    run.put_some(12, 7)
    run.clock.turn(2)
    run_jobs(run.store)  # A checkpoint, but too little for a flush.
    assert run.store.flushed_offset == flushed < run.store.max_offset
    run.open_again(run.disk.power_cut())
    assert run.store.max_offset == flushed
    run.put_some(3, 7)
    run.store.close()
    run.open_again(run.disk.kill())
    assert run.consumed() == run.put


def test_a_stop_syncs_what_a_checkpoint_that_was_never_made_would_have():
    """Found by the random runs: entries of a lost log came back, for nobody had synced their end."""
    run = Run(settings=SMALL)
    for step in [
        ("put", 1, 1),
        ("jobs", 1, 0),
        ("cut", 0, 0),
        ("put", 1, 1),
        ("kill", 0, 0),
        ("close", 0, 0),
        ("cut", 0, 0),
    ]:
        take(run, step)


class SetBack(HandClock):
    """A clock whose wall time was ahead, and is put right."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_end_behind_a_clock_that_was_set_back_is_no_damage(seed):
    """Its records look older than the checkpoint's time, and yet they were never flushed."""
    disk, clock = FakeDisk(), SetBack()
    store = open_store(disk=disk, clock=clock)
    clock.ahead_ms = 3_600_000
    put(store, b"flushed")
    settle(store, clock)
    clock.ahead_ms = 0
    for number in range(8):
        put(store, b"%d" % number * 2_000)
    after = open_store(disk=disk.power_cut(random.Random(seed)), clock=clock)
    assert after.refusal is None
    assert bodies_of(after)[:1] == [b"flushed"]
