"""Any call to the disk may fail, at any time, between any stops: still nothing acknowledged is lost."""

import errno
import random
from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.model.errors import StoreError
from cometmq.store.positions import Durability
from cometmq.store.settings import StoreSettings
from tests.crash.test_store_power_cut import QUEUES, SYNC
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, bodies_of, flush, make_put, open_store, run_jobs

CALLS = [
    "pwrite",
    "fdatasync",
    "allocate",
    "open",
    "resize",
    "sync_directory",
    "unlink",
    "rename",
]
CALLS += ["clear_from", "make_directory", "space", "pread", "sync_all"]


class Run:
    """A store on a disk that fails, and what its producers were told.

    Attributes:
        taken: bodies that `put_many` took since the last start, and those found at it.
        refused: bodies of batches that it refused since then.
        acknowledged: how many of `taken` were acknowledged as on disk.
    """

    def __init__(self, store_settings: StoreSettings) -> None:
        self.settings = store_settings
        self.disk = FakeDisk()
        self.clock = HandClock()
        self.taken: dict = {queue: [] for queue in QUEUES}
        self.refused: dict = {queue: [] for queue in QUEUES}
        self.acknowledged: dict = dict.fromkeys(QUEUES, 0)
        self.number = 0
        self.store = open_store(settings=store_settings, disk=self.disk, clock=self.clock)

    def put_some(self, count: int, size: int) -> None:
        bodies: dict = {queue: [] for queue in QUEUES}
        puts = []
        for _ in range(count):
            queue = QUEUES[self.number % len(QUEUES)]
            body = b"%d " % self.number + b"x" * size
            self.number += 1
            puts.append(make_put(self.store, *queue, body))
            bodies[queue].append(body)
        try:
            self.store.put_many(puts)
        except StoreError:
            for queue, refused in bodies.items():
                self.refused[queue] += refused
            return
        for queue, taken in bodies.items():
            self.taken[queue] += taken
        counts = {queue: len(taken) for queue, taken in self.taken.items()}
        self.store.wait_flushed(
            self.store.max_offset, lambda outcome: self.note(outcome is Durability.OK, counts)
        )
        self.store.dispatch_pending()

    def note(self, is_on_disk: bool, counts: dict) -> None:
        if is_on_disk:
            self.acknowledged = counts

    def start_again(self, disk: FakeDisk) -> None:
        """Open what a stop left, on a disk that is well; compare."""
        disk.heal()
        self.disk = disk
        self.store = open_store(settings=self.settings, disk=disk, clock=self.clock)
        assert self.store.refusal is None
        for queue in QUEUES:
            there, taken = bodies_of(self.store, *queue), self.taken[queue]
            known = min(len(there), len(taken))
            assert there[:known] == taken[:known], queue
            # Behind all that was taken only what a last, refused batch had written in part.
            assert set(there[known:]) <= set(self.refused[queue]), queue
            if self.settings.flush_sync:
                assert known >= self.acknowledged[queue], queue
            self.taken[queue] = there
            self.refused[queue] = []
            self.acknowledged[queue] = min(self.acknowledged[queue], len(there))

    def take(self, kind: str, first: int, second: int) -> None:
        if kind == "put":
            self.put_some(first % 12 + 1, (1, 90, 900)[second % 3])
        elif kind == "jobs":
            self.clock.turn(2)
            run_jobs(self.store, ticks=first % 3 + 1)
        elif kind == "flush":
            flush(self.store)
        elif kind == "fault":
            code = (errno.EIO, errno.ENOSPC)[second % 2]
            call = CALLS[first % len(CALLS)]
            self.disk.fail(call, nth=first % 5 + 1, code=code, forever=second % 5 == 0)
        elif kind == "heal":
            self.disk.heal()
        elif kind == "close":
            self.store.close()
            self.start_again(self.disk.kill())
        elif kind == "kill":
            self.start_again(self.disk.kill())
        elif kind == "failed start":
            self.failed_start(first)
        else:
            chance = random.Random(first) if first % 3 else None
            self.start_again(self.disk.power_cut(chance))

    def failed_start(self, first: int) -> None:
        """A start on a disk that fails somewhere; then one that does not."""
        disk = self.disk.kill()
        disk.fail(CALLS[first % len(CALLS)], nth=first % 7 + 1)
        with suppress(OSError, StoreError):
            open_store(settings=self.settings, disk=disk, clock=self.clock)
        self.start_again(disk.kill())


KINDS = [
    "put",
    "put",
    "put",
    "jobs",
    "flush",
    "fault",
    "heal",
    "close",
    "kill",
    "cut",
    "failed start",
]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 1 << 20), st.integers(0, 29)), max_size=30
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_with_synchronous_flush_no_fault_loses_what_was_acknowledged(steps):
    run = Run(SYNC)
    for step in steps:
        run.take(*step)
    run.start_again(run.disk.power_cut())


# The first log file of all is not made, and the store is closed in order.
FIRST_FILE_FAILS = [("fault", CALLS.index("sync_directory"), 1), ("put", 0, 0), ("close", 0, 0)]


@settings(max_examples=400, deadline=None)
@given(STEPS)
@example(FIRST_FILE_FAILS)
def test_with_asynchronous_flush_no_fault_makes_a_gap(steps):
    run = Run(SMALL)
    for step in steps:
        run.take(*step)
    run.start_again(run.disk.kill())


def test_a_spare_file_that_cannot_be_removed_does_not_keep_the_directory_locked():
    run = Run(SMALL)
    run.put_some(7, 900)
    run.put_some(7, 900)
    run_jobs(run.store)
    run.disk.fail("unlink", forever=True)
    run.store.close()
    run.disk.heal()
    again = open_store(disk=run.disk, clock=run.clock)
    assert again.refusal is None
    again.close()
