"""Reads that must not wait for the device: what the page cache holds comes at once, the rest is for a thread."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.store import commitlog, index_search
from cometmq.store.message_store import MessageStore
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    HOST_V4,
    HOST_V6,
    SMALL,
    make_put,
    open_store,
    run_jobs,
    settle,
)

KEYED = encode_properties({"KEYS": "a"})
COUNT = 40


def orders(store: MessageStore) -> Any:
    return store.queue("orders", 0)


READS: dict[str, Callable[[MessageStore, int, bool], Any]] = {
    "a record": lambda store, _, wait: store.read_record(0, may_wait=wait),
    "the oldest time": lambda store, _, wait: store.earliest_store_time(
        orders(store), may_wait=wait
    ),
    "the first offset of a time": lambda store, ms, wait: store.offset_by_time(
        orders(store), ms, may_wait=wait
    ),
    "the last offset of a time": lambda store, ms, wait: store.offset_by_time(
        orders(store), ms, upper=True, may_wait=wait
    ),
    "messages of a key": lambda store, _, wait: store.search("orders", "a", max_count=9).run(
        wait
    ),
}


@pytest.fixture
def shelf() -> tuple[MessageStore, FakeDisk, int]:
    """A store that was opened again, its disk, and the time of its message 20."""
    disk, clock = FakeDisk(), HandClock()
    store, middle_ms = open_store(disk=disk, clock=clock), 0
    for number in range(COUNT):
        if number == COUNT // 2:
            middle_ms = clock.now_ms()
        store.put_many([make_put(store, property_block=KEYED)])
        store.dispatch_pending()
        clock.turn(1)
    run_jobs(store)
    store.close()
    return open_store(disk=disk, clock=clock), disk, middle_ms


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_what_is_cached_is_read_at_once_and_what_is_not_is_refused(shelf, read):
    store, disk, middle_ms = shelf
    found = read(store, middle_ms, True)
    disk.calls.clear()
    assert read(store, middle_ms, False) == found
    assert not disk.calls["pread"]
    disk.is_cold = True
    store.close()
    cold = open_store(disk=disk)
    with pytest.raises(BlockingIOError):
        read(cold, middle_ms, False)
    assert read(cold, middle_ms, True) == found


def test_the_offset_of_a_time_is_the_messages(shelf):
    store, _, middle_ms = shelf
    found = [store.offset_by_time(orders(store), middle_ms + ms) for ms in (-1, 0, 1)]
    assert found == [COUNT // 2, COUNT // 2, COUNT // 2 + 1]


@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_time_is_found_alike_in_files_tail_and_map(is_mapped):
    """Messages of a store that is being written: several log and queue files, a tail, and hosts of both sizes."""
    clock = HandClock()
    store = open_store(disk=FakeDisk(), clock=clock, settings=SMALL)
    times = []
    for number in range(150):
        if number == 120:
            settle(store, clock)
        host = HOST_V6 if number % 3 else HOST_V4
        store.put_many([make_put(store, body=b"x" * 300, born_host=host)])
        store.dispatch_pending()
        times.append(clock.now_ms())
        clock.turn(number % 4 * 0.002)
    queue = orders(store)
    assert 0 < queue.tail_start < queue.max_offset
    assert len(store._log.chain.files) > 2
    if is_mapped:
        assert all(file.view for file in store._log.chain.files)
    for ms in range(times[0] - 2, times[-1] + 3):
        for upper in (False, True):
            slow = store.offset_by_time(queue, ms, upper=upper)
            assert store.offset_by_time(queue, ms, upper=upper, may_wait=False) == slow
            assert slow == (
                max(bisect_right(times, ms) - 1, 0) if upper else bisect_left(times, ms)
            )


def test_a_key_that_is_not_there_is_looked_for_in_no_file():
    disk = FakeDisk()
    store = open_store(disk=disk)
    store.put_many([make_put(store, property_block=KEYED)])
    store.dispatch_pending()
    assert len(store.search("orders", "a", max_count=9).run(False).records) == 1
    disk.calls.clear()
    found = store.search("orders", "b", max_count=9).run(False)
    assert not found.records
    assert found.last_ms > 0
    assert not disk.calls["open"]
    assert not disk.calls["pread_nowait"]


def test_what_would_take_long_is_for_a_thread(shelf, monkeypatch):
    store, _, middle_ms = shelf
    monkeypatch.setattr(commitlog, "AT_ONCE_SIZE_MAX", 60)
    monkeypatch.setattr(index_search, "AT_ONCE_READS", 3)
    for name in ("a record", "messages of a key"):
        with pytest.raises(BlockingIOError):
            READS[name](store, middle_ms, False)
