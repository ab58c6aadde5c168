"""Bytes of another broker's log: what is taken, what is refused, what a truncation tells whom."""

import errno
from dataclasses import replace

import pytest

from cometmq.codec.record import PHYSICAL_OFFSET_AT, blank_tail
from cometmq.model.errors import RecordIllegal, StoreBusy, StoreError, StoreFull, StoreReadOnly
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.replica import append_all, log_of
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    store_with,
)

SYNC = replace(SMALL, flush_sync=True)


def source_of(*bodies: bytes) -> tuple[MessageStore, bytes]:
    store, _, _ = store_with(*bodies)
    content = store.read_log(0, 1 << 20)
    assert content is not None
    return store, bytes(content)


def test_whole_records_are_taken_and_half_a_one_is_left():
    source, content = source_of(b"first", b"second", b"third")
    third = len(content) - len(content) // 3 - 1
    copy = open_store(disk=FakeDisk())
    taken = copy.append_raw(0, content[:third])
    assert 0 < taken < third
    assert copy.append_raw(taken, content[taken : taken + 3]) == taken
    assert copy.append_raw(taken, content[taken:]) == len(content) == source.max_offset
    assert bodies_of(copy) == []
    copy.dispatch_pending()
    assert bodies_of(copy) == [b"first", b"second", b"third"]
    assert copy.read_log(0, 1 << 20) == content
    assert copy.read_log(len(content), 1) is None


def test_a_blank_end_counts_for_nothing_until_a_record_follows():
    source, content = source_of(*[b"x" * 3_000] * 7)
    log = log_of(source)
    copy, disk, _ = store_with()
    before_blank = copy.append_raw(0, log)
    assert before_blank < len(content) == 16_384
    assert copy.append_raw(before_blank, log[before_blank:]) == 16_384
    assert (copy.max_offset, copy.read_log(before_blank, 1)) == (before_blank, None)
    assert open_store(disk=disk.kill()).max_offset == before_blank
    # Who comes again begins where the log ends.
    assert append_all(copy, before_blank, log[before_blank:]) == source.max_offset
    assert log_of(copy) == log
    copy.dispatch_pending()
    assert len(bodies_of(copy)) == 7


def log_of_blank_ends() -> tuple[bytes, int]:
    """A file with a record and a filled blank end, one that is blank alone, and a third with a record; where the first ends."""
    source, _ = source_of(b"first", b"second")
    log, size = log_of(source), SMALL.commitlog_file_size
    first = len(log) // 2  # "second" has a byte more.
    second = bytearray(log[first:])
    second[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = (2 * size).to_bytes(8)
    filling = bytes(range(1, 250)) * size
    blanks = blank_tail(size - first) + filling[: size - first - 8]
    blanks += blank_tail(size) + filling[: size - 8]
    return log[:first] + blanks + second, first


@pytest.mark.parametrize("size", [1, 5, 8, 1_000, 16_384])
def test_blank_ends_are_taken_in_pieces_of_any_size(size):
    log, first = log_of_blank_ends()
    copy, disk, _ = store_with()
    assert copy.append_raw(0, log) == first
    end, held = first, 0
    while end < len(log):
        held = min(max(held, end) + size, len(log))
        before, end = end, copy.append_raw(end, log[end:held])
        assert held - end < size + 200, "a blank end is held"
        assert copy.max_offset == (first if end <= 2 * 16_384 else len(log))
        if before // 10_000 != end // 10_000:
            killed = open_store(disk=disk.kill())
            assert killed.refusal is None
            assert killed.max_offset == copy.max_offset
    assert log_of(copy) == log
    copy.dispatch_pending()
    copy.close()
    again = open_store(disk=disk.kill())
    assert (log_of(again), bodies_of(again)) == (log, [b"first", b"second"])


@pytest.mark.parametrize("extra", [8, 100, 16_384])
def test_a_store_that_is_closed_within_a_blank_end_leaves_nothing_behind_its_log(extra):
    log, first = log_of_blank_ends()
    copy, disk, _ = store_with()
    end = append_all(copy, 0, log[: first + extra])
    assert end == first + extra
    copy.dispatch_pending()
    copy.close()
    file = disk.content(f"/store/commitlog/{0:020d}")
    assert file[first:] == bytes(len(file) - first)
    assert open_store(disk=disk.kill()).max_offset == first


def test_a_truncation_forgets_the_blank_end_behind_it():
    log, first = log_of_blank_ends()
    copy = open_store(disk=FakeDisk())
    end = append_all(copy, 0, log[: first + 5_000])
    copy.truncate(0)
    with pytest.raises(RecordIllegal, match="the log ends at 0; send them from there"):
        copy.append_raw(end, log[end:])
    assert append_all(copy, 0, log) == len(log)
    assert log_of(copy) == log


def test_a_disk_that_was_full_within_a_blank_end_goes_on_there():
    log, _ = log_of_blank_ends()
    copy, disk, clock = store_with()
    end = append_all(copy, 0, log[:16_384])
    disk.fail("allocate", code=errno.ENOSPC)
    with pytest.raises(StoreFull):
        copy.append_raw(end, log[end:])
    clock.turn(11)
    copy.tick()
    assert append_all(copy, end, log[end:]) == len(log)
    assert log_of(copy) == log


def test_who_waits_at_a_queue_is_told_of_messages_that_came_as_bytes():
    _, content = source_of(b"1", b"2")
    copy = open_store(disk=FakeDisk())
    queue = copy.queue_for_append("orders", 0)
    queue.watched = True
    told = []
    copy.on_arrival = lambda queue, codes: told.append((queue.topic, codes, queue.max_offset))
    copy.append_raw(0, content)
    copy.dispatch_pending()
    assert told == [("orders", [0, 0], 2)]


def test_an_empty_log_begins_at_the_start_of_any_file():
    source, _ = source_of(*[b"x" * 3_000] * 7)
    rest = source.read_log(16_384, 1 << 20)
    assert rest is not None
    copy, disk, _ = store_with()
    with pytest.raises(RecordIllegal, match="cannot start at physical offset 100"):
        copy.append_raw(100, bytes(rest))
    assert copy.append_raw(16_384, bytes(rest)) == source.max_offset
    copy.dispatch_pending()
    assert (copy.min_offset, copy.max_offset) == (16_384, source.max_offset)
    again = open_store(disk=disk.kill())
    assert (again.min_offset, again.max_offset) == (16_384, source.max_offset)


def test_what_is_no_part_of_this_log_is_refused_whole():
    _, content = source_of(b"first", b"other")
    copy = open_store(disk=FakeDisk())
    size = len(content) // 2
    for wrong in (
        bytes(200),
        content[:size] + b"?" * 200,
        content.replace(b"first", b"f?rst"),
        content[1:],
        (1 << 20).to_bytes(4) + content[4:],
    ):
        with pytest.raises(RecordIllegal, match="no valid record at physical offset"):
            copy.append_raw(0, wrong)
    copy.append_raw(0, content[:size])
    with pytest.raises(RecordIllegal, match=f"the log ends at {size}; send them from there"):
        copy.append_raw(0, content)
    with pytest.raises(RecordIllegal, match="no valid record"):
        copy.append_raw(size, content[:size])  # Records of another place.
    assert copy.max_offset == size


def test_files_of_another_size_are_refused_by_their_blank_ends():
    _, content = source_of(*[b"x" * 3_000] * 7)
    larger = replace(SMALL, commitlog_file_size=32_768)
    copy = open_store(disk=FakeDisk(), settings=larger)
    with pytest.raises(RecordIllegal, match="set mappedFileSizeCommitLog"):
        copy.append_raw(0, content)


def test_no_put_comes_between_bytes_and_their_queues():
    _, content = source_of(b"first")
    copy = open_store(disk=FakeDisk(), settings=SYNC)
    copy.append_raw(0, content)
    with pytest.raises(StoreBusy, match="not confirmed yet"):
        copy.put_many([make_put(copy)])
    flush(copy)
    put(copy, b"second")
    flush(copy)
    assert bodies_of(copy) == [b"first", b"second"]


def test_a_truncation_takes_messages_back_and_keeps_a_copy():
    store, disk, clock = store_with(b"kept")
    end = store.max_offset
    put(store, b"goes", b"goes, too")
    gone = store.read_log(end, 1 << 20)
    assert gone is not None
    told: list[Durability] = []
    store.wait_flushed(end, told.append)
    store.wait_flushed(store.max_offset, told.append)
    store.truncate(end)
    assert told == [Durability.DISK_LATE]
    assert bodies_of(store) == [b"kept"]
    assert store.max_offset == store.positions.dispatched == end
    [copy] = [path for path in disk.names if path.startswith("/store/cut/")]
    assert disk.content(copy) == bytes(gone).rstrip(b"\0")
    put(store, b"other")
    assert bodies_of(store) == [b"kept", b"other"]
    assert bodies_of(open_store(disk=disk.kill(), clock=clock)) == [b"kept", b"other"]


def test_what_is_not_visible_yet_stays_so_behind_a_truncation():
    store = open_store(disk=FakeDisk(), settings=SYNC)
    results = store.put_many([make_put(store, body=body) for body in (b"1", b"2", b"3")])
    store.truncate(results[2][1])
    assert bodies_of(store) == []
    flush(store)
    assert bodies_of(store) == [b"1", b"2"]
    put(store, b"4")
    flush(store)
    assert bodies_of(store) == [b"1", b"2", b"4"]


def test_a_truncation_to_where_no_record_begins_changes_nothing():
    store, _, _ = store_with(b"first", b"second")
    for end in (-1, 1, store.max_offset + 1):
        with pytest.raises(RecordIllegal, match=f"cannot be truncated to {end}"):
            store.truncate(end)
    store.truncate(store.max_offset)
    assert bodies_of(store) == [b"first", b"second"]


def test_a_truncation_waits_for_flush_and_checkpoint():
    store, _, clock = store_with(b"first", b"second")
    clock.turn(11)
    target = store.flush_target()
    assert target is not None
    with pytest.raises(StoreBusy, match="is running"):
        store.truncate(0)
    store.flush_files(target)
    store.flushed(target)
    store.truncate(0)
    assert bodies_of(store) == []
    assert store.flushed_offset == 0


def test_a_copy_that_cannot_be_kept_leaves_all_as_it_was():
    store, disk, _ = store_with(b"first", b"second")
    disk.fail("rename")
    with pytest.raises(StoreError, match="nothing was changed"):
        store.truncate(0)
    assert bodies_of(store) == [b"first", b"second"]
    store.truncate(0)
    assert bodies_of(store) == []


def test_a_disk_that_fails_in_a_truncation_ends_the_store_and_a_restart_looks():
    store, disk, clock = store_with(b"first", b"second")
    disk.fail("clear_from")
    with pytest.raises(StoreError, match="restart the broker"):
        store.truncate(0)
    again = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(again) == [b"first", b"second"]
    closed = open_store(disk=FakeDisk())
    closed.close()
    with pytest.raises(StoreError, match="closed"):
        closed.truncate(0)
    read_only = open_store(disk=disk.kill(), clock=HandClock(), read_only=True)
    with pytest.raises(StoreReadOnly):
        read_only.truncate(0)
    with pytest.raises(StoreReadOnly):
        read_only.append_raw(0, b"")
