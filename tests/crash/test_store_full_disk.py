"""A full disk: senders are refused with a reason, readers go on, and it recovers by itself."""

import errno

import pytest

from cometmq.model.errors import StoreFull
from tests.support.fake_disk import PAGE, FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    bodies_of,
    later,
    make_put,
    open_store,
    put,
    queue_of,
    run_jobs,
    store_with,
)

BODY = b"x" * 900


def fill(store, clock, *, most: int = 2000) -> list[bytes]:
    """Put one by one until it is refused; gives what was taken."""
    taken: list[bytes] = []
    for number in range(most):
        body = b"%d " % number + BODY
        try:
            put(store, body)
        except StoreFull:
            return taken
        taken.append(body)
        if number % 5 == 0:
            clock.turn(1)
            run_jobs(store, ticks=1)
    pytest.fail("the disk was never full")


@pytest.mark.parametrize("pages", [4, 9, 13, 17, 18, 19, 20, 33])
def test_senders_are_refused_readers_go_on_and_it_recovers_by_itself(pages):
    disk, clock = FakeDisk(room=pages * PAGE), HandClock()
    store = open_store(disk=disk, clock=clock)
    taken = fill(store, clock)
    assert "disk full" in str(store.refusal)
    assert bodies_of(store) == taken
    for _ in range(3):
        later(store, clock)
        with pytest.raises(StoreFull):
            put(store, BODY)
    assert bodies_of(store) == taken
    disk.room = 1 << 20
    later(store, clock)
    assert store.refusal is None
    put(store, b"after")
    assert bodies_of(store) == [*taken, b"after"]
    store.close()
    assert not disk.exists("/store/abort")
    assert bodies_of(open_store(disk=disk.kill())) == [*taken, b"after"]


def test_what_was_taken_before_a_full_disk_survives_a_kill_on_it():
    disk, clock = FakeDisk(room=20 * PAGE), HandClock()
    store = open_store(disk=disk, clock=clock)
    taken = fill(store, clock)
    after = open_store(disk=disk.kill(), clock=clock, read_only=True)
    assert bodies_of(after) == taken


def test_a_refused_file_leaves_nothing_behind():
    """As with a quota, which the room of the file system does not show."""
    store, disk, clock = store_with()
    disk.fail("allocate", code=errno.EDQUOT)
    with pytest.raises(StoreFull, match="no room for a log file"):
        put(store, b"x")
    assert disk.list_names("/store/commitlog") == []
    later(store, clock)
    put(store, b"y")
    assert bodies_of(store) == [b"y"]


@pytest.mark.parametrize("short", [None, 1, 50])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_no_room_in_the_middle_of_a_batch_stores_nothing_of_it(nth, short):
    """File systems that copy on write can be full inside an allocated file."""
    store, disk, clock = store_with(b"before")
    end = store.max_offset
    disk.write_max = short
    disk.fail("pwrite", nth=nth, code=errno.ENOSPC)
    batch = [make_put(store, body=b"%d" % number + BODY) for number in range(40)]
    try:
        store.put_many(batch)
    except StoreFull:
        assert store.max_offset == end
        queue = queue_of(store)
        assert (queue.next_offset, queue.max_offset) == (1, 1)
    disk.heal()
    disk.write_max = None
    later(store, clock)
    put(store, b"after")
    expected = bodies_of(store)
    assert expected[0] == b"before"
    assert expected[-1] == b"after"
    assert len(expected) in (2, 42)  # All of the batch or nothing.
    assert bodies_of(open_store(disk=disk.kill(), clock=clock)) == expected


def test_a_batch_that_was_refused_half_way_is_not_found_after_a_restart():
    store, disk, clock = store_with(b"before")
    disk.write_max = 300
    disk.fail("pwrite", nth=3, code=errno.ENOSPC)
    with pytest.raises(StoreFull):
        store.put_many([make_put(store, body=b"refused%d" % number) for number in range(9)])
    disk.write_max = None
    later(store, clock)
    put(store, b"taken00")  # As long as the first that was refused.
    after = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(after) == [b"before", b"taken00"]


@pytest.mark.parametrize("call", ["open", "pwrite", "resize", "make_directory"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_queue_entries_that_cannot_be_written_are_kept(call, nth):
    store, disk, clock = store_with()
    put(store, *[b"%d" % number for number in range(30)])
    disk.fail(call, nth=nth, code=errno.ENOSPC, forever=True)
    clock.turn(2)
    store.tick()
    if disk.calls[call] and store.refusal is not None:
        assert "disk full: queue entries" in store.refusal
        with pytest.raises(StoreFull):
            put(store, b"refused")
    assert len(bodies_of(store)) == 30
    disk.heal()
    later(store, clock)
    assert store.refusal is None
    put(store, b"after")
    store.close()
    assert len(bodies_of(open_store(disk=disk.kill()))) == 31


def test_a_checkpoint_that_cannot_be_written_stops_nobody():
    store, disk, clock = store_with(b"1")
    clock.turn(2)
    store.tick()
    job = store.checkpoint_due()
    assert job is not None
    disk.fail("pwrite", code=errno.ENOSPC)
    job.run()
    store.checkpointed(job)
    assert job.error is not None
    put(store, b"2")
    later(store, clock, 20)
    assert disk.exists("/store/checkpoint.cometmq")
    assert bodies_of(open_store(disk=disk.kill())) == [b"1", b"2"]


def test_the_warning_level_refuses_with_a_reason_and_clears_a_little_below():
    store, disk, clock = store_with()
    disk.used = 900_000
    for room, is_refused in (
        (100_000, False),  # 90 %, as the setting allows.
        (99_000, True),
        (110_000, True),
        (122_000, True),
        (123_000, False),
        (110_000, False),
    ):
        disk.room = room
        clock.turn(1.1)
        store.tick()
        assert (store.refusal is not None) is is_refused, room
        if is_refused:
            assert "diskSpaceWarningLevelRatio" in str(store.refusal)


def test_a_file_made_ahead_that_fails_is_no_refusal_until_it_is_needed():
    store, disk, clock = store_with()
    disk.room = 5 * PAGE
    for _ in range(10):
        put(store, BODY)
    plan = store.file_ahead_needed()
    assert plan is not None
    error = store.make_file(plan)
    assert isinstance(error, StoreFull)
    store.adopt(plan, error)
    assert store.file_ahead_needed() is None  # Not at once again.
    assert store.refusal is None
    disk.room = 1 << 20
    clock.turn(2)
    store.tick()
    assert store.file_ahead_needed() is not None
