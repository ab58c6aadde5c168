"""A cleaning round may stop anywhere: what is left opens, and no message is missing in between."""

import random
from dataclasses import replace

import pytest

from cometmq.store.retention import Retention
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, bodies_of, clean, open_store, put, settle

SETTINGS = replace(SMALL, retention=Retention(delete_hours=frozenset(), delete_retry_ms=1))
BODIES = [b"%d " % number + b"x" * 3900 for number in range(24)]  # Four fill a log file.
KEPT = 12  # Of the newest: these have not expired.


def settled_store() -> tuple[FakeDisk, HandClock]:
    """A disk with a store of six log files, the older three expired, and many queue files."""
    disk, clock = FakeDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=SETTINGS)
    for number, body in enumerate(BODIES):
        put(store, body)
        put(store, *[b"%d" % number] * 5, topic="small")
        if number == len(BODIES) - KEPT - 1:
            settle(store, clock)
            clock.turn(100 * 3600)
    settle(store, clock)
    return disk.kill(), clock


def check(disk: FakeDisk, clock: HandClock) -> int:
    """Open what is left; gives how many messages are there."""
    store = open_store(disk=disk, clock=clock, settings=SETTINGS)
    left = bodies_of(store)
    assert left == BODIES[len(BODIES) - len(left) :]
    assert len(left) >= KEPT
    small = bodies_of(store, "small")
    assert small == [b"%d" % (n // 5) for n in range(120)][120 - len(small) :]
    put(store, b"more")
    assert bodies_of(store)[-1] == b"more"
    clean(store)
    assert len(bodies_of(store)) <= KEPT + 4 + 1
    return len(left)


def test_a_stop_after_any_step_leaves_a_store_that_opens():
    seen = set()
    for stop in range(20):
        disk, clock = settled_store()
        store = open_store(disk=disk, clock=clock, settings=SETTINGS)
        settle(store, clock)
        store.cleaner.ask()
        for _ in range(stop):
            step = store.clean_due()
            if step is None:
                break
            step()
        seen.add(check(disk.kill(), clock))
        seen.add(check(disk.power_cut(random.Random(stop)), clock))
    assert len(seen) >= 3  # Different numbers of files had gone.


@pytest.mark.parametrize("call", ["unlink", "sync_directory", "open", "pread", "space"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_a_disk_that_fails_in_a_round_loses_nothing_and_the_round_is_made_up_for(call, nth):
    disk, clock = settled_store()
    store = open_store(disk=disk, clock=clock, settings=SETTINGS)
    settle(store, clock)
    disk.fail(call, nth=nth, forever=True)
    clean(store)
    broken = disk.power_cut(random.Random(nth))
    check(broken, clock)
    disk.heal()
    for _ in range(2):
        clock.turn(1)
        clean(store)
    assert int(disk.list_names("/store/commitlog")[0]) > 0
    check(disk.kill(), clock)


class NotingDisk(FakeDisk):
    """Notes which names went, and which folders were brought to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.noted.append(path)

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.noted.append(path)


def test_a_file_s_name_is_gone_for_good_before_the_next_one_goes():
    """Else a power cut could bring back the older of two: a hole in the log, and no start."""
    disk, clock = NotingDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=SETTINGS)
    for body in BODIES:
        put(store, body)
        put(store, *[b"small"] * 10, topic="small")
    settle(store, clock)
    clock.turn(100 * 3600)
    disk.noted.clear()
    clean(store)
    log = [name for name in disk.noted if name.startswith("/store/commitlog")]
    assert len(log) >= 6
    assert [name == "/store/commitlog" for name in log] == [False, True] * (len(log) // 2)
    assert log[::2] == sorted(log[::2])
    queue = [name for name in disk.noted if name.startswith("/store/consumequeue/small/0")]
    names = queue[::2]
    assert len(names) > 2
    assert queue[1::2] == ["/store/consumequeue/small/0"] * (len(names) - 1)
    assert names == sorted(names)
