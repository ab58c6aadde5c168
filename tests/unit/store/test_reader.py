"""Reading a queue: RocketMQ's statuses, next offsets and limits."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_records
from cometmq.model.java_hash import java_hash
from cometmq.store import commitlog, index_search
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetStatus
from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    BODY,
    HOST_V4,
    HOST_V6,
    SMALL,
    bodies_of,
    make_put,
    open_store,
    put,
    queue_of,
    reopened,
    run_jobs,
    settle,
    store_with,
)

ROOMY = replace(SMALL, commitlog_file_size=1 << 20)


def status(store, offset, queue_id=0, **limits):
    result = store.get("orders", queue_id, offset, **limits)
    return result.status, result.next_offset, result.min_offset, result.max_offset


def test_statuses_and_next_offsets_are_those_of_rocketmq(store):
    assert status(store, 5) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    queue = store.queue_for_append("orders", 0)
    assert status(store, 5) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    put(store, b"0", b"1", b"2")
    assert status(store, 0) == (GetStatus.FOUND, 3, 0, 3)
    assert status(store, 3) == (GetStatus.OFFSET_OVERFLOW_ONE, 3, 0, 3)
    assert status(store, 4) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3, 0, 3)
    queue.min_offset = 2
    assert status(store, 1) == (GetStatus.OFFSET_TOO_SMALL, 2, 2, 3)
    assert status(store, -1) == (GetStatus.OFFSET_TOO_SMALL, 2, 2, 3)
    assert status(store, 0, match=frozenset([9]))[0] == GetStatus.OFFSET_TOO_SMALL
    assert status(store, 2, match=frozenset([9])) == (GetStatus.NO_MATCHED_MESSAGE, 3, 2, 3)


def test_a_status_is_the_remark_of_an_answer():
    assert f"{GetStatus.FOUND}" == "FOUND"


def test_at_most_32_messages_and_256_kib_are_given_but_always_one():
    store = open_store(settings=replace(ROOMY, commitlog_file_size=4 << 20), disk=FakeDisk())
    put(store, *[b"x"] * 40)
    assert store.get("orders", 0, 0, max_count=100).message_count == 32
    assert store.get("orders", 0, 0, max_count=5).message_count == 5
    result = store.get("orders", 0, 0, max_bytes=250)
    assert (result.message_count, result.next_offset) == (2, 2)
    assert store.get("orders", 0, 0, max_bytes=1).message_count == 1
    put(store, *[b"y" * 100_000] * 4, queue_id=1)
    assert store.get("orders", 1, 0).message_count == 2
    put(store, b"z" * 1_000_000, queue_id=2)
    assert store.get("orders", 2, 0).message_count == 1


def test_old_messages_have_the_smaller_limits_and_a_slave_is_suggested():
    settings = replace(ROOMY, memory_bytes=10_000)  # 40 % of it: the last 4000 bytes.
    store = open_store(settings=settings, disk=FakeDisk())
    put(store, *[b"x"] * 100)
    old = store.get("orders", 0, 0)
    assert (old.message_count, old.suggest_slave) == (8, True)
    new = store.get("orders", 0, 65)
    assert (new.message_count, new.suggest_slave) == (32, False)


def test_the_records_of_a_read_are_one_piece_wherever_they_lie_in_a_file(store):
    put(store, b"0", b"1", b"2")
    put(store, b"elsewhere", queue_id=1)
    put(store, b"3")
    result = store.get("orders", 0, 0)
    assert [record.body for record in decode_records(bytes(result.records[0]))] == [
        b"0", b"1", b"2", b"3",
    ]  # fmt: skip
    assert [result.size] == [len(piece) for piece in result.records]


def test_a_read_goes_over_the_ends_of_log_files_and_from_file_to_tail():
    store, _, clock = store_with()
    bodies = [b"%d" % n + b"x" * 1500 for n in range(15)]
    put(store, *bodies[:7])
    clock.turn(2)
    run_jobs(store)
    put(store, *bodies[7:])
    result = store.get("orders", 0, 0)
    assert [record.body for record in decode_records(b"".join(result.records))] == bodies


@pytest.mark.parametrize("as_function", [False, True])
def test_tags_are_matched_by_their_code_and_what_was_looked_at_is_behind(as_function):
    store = open_store(settings=ROOMY, disk=FakeDisk())
    store.put_many([make_put(store, body=b"%d" % n, tag="ab"[n % 2]) for n in range(100)])
    store.dispatch_pending()
    codes = frozenset([java_hash("b")])
    match = codes.__contains__ if as_function else codes
    first = store.get("orders", 0, 0, match=match)
    assert (first.message_count, first.next_offset) == (32, 64)
    second = store.get("orders", 0, 64, match=match)
    found = decode_records(b"".join([*first.records, *second.records]))
    assert [record.body for record in found] == [b"%d" % n for n in range(1, 100, 2)]
    assert second.next_offset == 100


def test_a_filter_looks_at_800_entries_at_most():
    store = open_store(settings=replace(ROOMY, queue_file_size=40_000), disk=FakeDisk())
    put(store, *[b""] * 1000)
    result = store.get("orders", 0, 0, match=frozenset([1]))
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)


def test_messages_whose_log_file_is_gone_are_passed_over():
    store, _, _ = store_with()
    put(store, *[b"x" * 1500] * 20)
    first = store._log.chain.files.pop(0)
    result = store.get("orders", 0, 0)
    assert result.status == GetStatus.FOUND
    assert decode_records(b"".join(result.records))[0].physical_offset == first.end
    result = store.get("orders", 0, 0, match=frozenset([1]))
    assert result.status == GetStatus.MESSAGE_WAS_REMOVING
    assert store.read_record(0) is None


def test_where_the_device_must_be_waited_for_the_result_is_cold():
    store, disk, clock = store_with()
    bodies = [b"%d" % n * 300 for n in range(30)]
    put(store, *bodies)
    store, disk = reopened(store, disk, clock)
    disk.is_cold = True
    result = store.get("orders", 0, 0)
    assert result.cold is not None
    assert result.records == []
    answer = result.cold()
    assert answer.cold is None
    assert answer.status == GetStatus.FOUND
    assert decode_records(b"".join(answer.records))[0].body == bodies[0]
    assert disk.calls["will_need"] > 0
    assert bodies_of(store) == bodies
    put(store, b"warm")
    assert store.get("orders", 0, 30).cold is None


def test_what_is_waited_for_is_found_by_entries_that_are_in_no_file_yet(disk):
    store = open_store(settings=replace(ROOMY, warm_tail_bytes=1000), disk=disk)
    put(store, b"first", b"x" * 1000)
    disk.is_cold = True
    queue = queue_of(store)
    assert (queue.tail_start, queue.max_offset) == (0, 2)
    waiting = store.get("orders", 0, 0).cold
    assert waiting is not None
    answer = waiting()
    assert (answer.status, answer.next_offset) == (GetStatus.FOUND, 2)
    assert decode_records(b"".join(answer.records))[0].body == b"first"


def test_after_a_restart_neighbours_in_the_log_are_read_at_once(tmp_path: Path):
    store = open_store(tmp_path, ROOMY)
    for n in range(32):
        put(store, b"%d" % n)
        put(store, b"between" * 20, queue_id=1)
    store.close()
    store = open_store(tmp_path, ROOMY)
    assert bodies_of(store) == [b"%d" % n for n in range(32)]
    runs = [(n * 300, n * 300 + 100) for n in range(32)]
    [(_, start, span)] = store._reading._reader._spans(runs)
    assert (start, span) == (0, runs)
    store.close()


def test_a_queue_file_that_is_gone_is_jumped_over_as_rocketmq_does():
    store, disk, clock = store_with()
    put(store, *[b"x"] * 50)
    clock.turn(2)
    run_jobs(store)
    store, disk = reopened(store, disk, clock)
    disk.unlink("/store/consumequeue/orders/0/00000000000000000400")
    assert status(store, 25) == (GetStatus.OFFSET_FOUND_NULL, 40, 0, 50)
    assert status(store, 45)[0] == GetStatus.FOUND
    queue = queue_of(store)
    assert store.store_time_at(queue, 25) == -1
    assert store.store_time_at(queue, 45) > 0


def test_times_are_found_in_tails_and_files():
    store, _, clock = store_with()
    start = clock.now_ms()
    for n in range(60):
        clock.turn(1)
        put(store, b"x" * (500 if n % 3 else 2000))
        if n == 40:
            run_jobs(store)
    queue = queue_of(store)
    assert queue.tail_start > 0
    for n in range(60):
        at = start + (n + 1) * 1000
        assert store.store_time_at(queue, n) == at
        assert store.offset_by_time(queue, at) == n
        assert store.offset_by_time(queue, at - 1) == n
        assert store.offset_by_time(queue, at, upper=True) == n
        assert store.offset_by_time(queue, at + 1, upper=True) == n
    assert store.offset_by_time(queue, start + 10**9) == 60
    assert store.offset_by_time(queue, 0) == 0
    assert store.offset_by_time(queue, 0, upper=True) == 0
    assert store.earliest_store_time(queue) == start + 1000
    assert store.earliest_store_time(store.queue_for_append("orders", 9)) == -1
    assert store.offset_by_time(store.queue_for_append("orders", 9), 5) == 0


def test_times_are_found_by_another_thread_while_tails_are_written(tmp_path: Path, clock):
    """The broker asks for times in its reader threads."""
    store = open_store(tmp_path, replace(ROOMY, queue_file_size=1_000_000), clock=clock)
    queue = store.queue_for_append("orders", 0)
    put(store, b"first")
    start = clock.now_ms()
    wrong: list[tuple[int, int]] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            offset = queue.max_offset - 1
            found = store.store_time_at(queue, offset)
            if found != start + offset * 1000:
                wrong.append((offset, found))

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(1500):
        clock.turn(1)
        put(store, b"x")
        store.tick()
    is_over.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert queue.tail_start > 0
    store.close()


def test_a_cold_read_of_what_is_gone_meanwhile_says_so():
    store, disk, clock = store_with()
    put(store, *[b"x"] * 50)
    store, disk = reopened(store, disk, clock)
    disk.is_cold = True
    result = store.get("orders", 0, 5)
    assert result.cold is not None
    disk.unlink("/store/consumequeue/orders/0/00000000000000000000")
    assert result.cold().status == GetStatus.OFFSET_FOUND_NULL


def test_entries_that_are_zero_are_built_again_and_no_message_is_passed_over():
    store, disk, clock = store_with()
    put(store, *[b"x"] * 30)
    clock.turn(2)
    run_jobs(store)
    content = disk.names["/store/consumequeue/orders/0/00000000000000000000"].content
    content[100:200] = bytes(100)
    assert status(store, 0) == (GetStatus.FOUND, 5, 0, 30)
    waiting = store.get("orders", 0, 5).cold
    assert waiting is not None
    queue = queue_of(store)
    assert store.store_time_at(queue, 5) == -1
    assert waiting()[:2] == (GetStatus.FOUND, 20)
    assert store.store_time_at(queue, 5) > 0


@pytest.mark.parametrize("offset", [-5, 1, 50, 10**9])
def test_no_record_is_read_where_none_begins(offset, store):
    put(store, b"x" * 200)
    assert store.read_record(offset) is None


def test_records_of_places_in_any_order_are_those_of_their_places(tmp_path: Path):
    store = open_store(tmp_path)
    put(store, *[b"%d" % n + b"x" * 1500 for n in range(30)])
    places = [
        (each.physical_offset, each.size) for each in store.entries(queue_of(store), 0, 30)
    ]
    assert places[-1][0] > SMALL.commitlog_file_size
    Random(1).shuffle(places)
    for asked in (places, places[::-1], [*places, places[3]], [*places, (places[3][0], 999)]):
        expected = [store.read_record(*place) for place in asked]
        assert [
            None if each is None else bytes(each) for each in store.read_records(asked)
        ] == expected
    store.close()


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
def test_a_time_is_found_alike_in_files_tail_and_map(is_mapped, clock):
    """Messages of a store that is being written: several log and queue files, a tail, and hosts of both sizes."""
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


def test_a_key_that_is_not_there_is_looked_for_in_no_file(disk):
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


@pytest.mark.parametrize("read_ahead", [True, False])
def test_each_log_file_is_read_as_the_setting_says_new_ones_and_old_ones(read_ahead):
    settings = replace(SMALL, is_read_ahead=read_ahead)
    store, disk, clock = store_with(settings=settings)
    for _ in range(12):
        put(store, BODY)
    files = len(disk.list_names("/store/commitlog"))
    assert files >= 3
    assert disk.calls["read_randomly"] == (0 if read_ahead else files)
    settle(store, clock)
    store, disk = reopened(store, disk, clock, settings=settings)
    files = len(disk.list_names("/store/commitlog"))
    assert disk.calls["read_randomly"] == (0 if read_ahead else files)
    disk.is_cold = True
    waiting = store.get("orders", 0, 0).cold
    assert waiting is not None
    assert waiting().message_count
    assert (disk.calls["will_need"] > 0) is read_ahead


def test_reading_ahead_is_switched_for_files_that_are_open_and_for_those_that_come(disk):
    store = open_store(disk=disk, clock=HandClock(), settings=SMALL)
    for _ in range(12):
        put(store, BODY)
    files = len(disk.list_names("/store/commitlog"))
    store.change_read_ahead(is_wanted=False)
    assert 3 <= disk.calls["read_randomly"] == files
    for _ in range(12):
        put(store, BODY)
    more = len(disk.list_names("/store/commitlog"))
    assert files < disk.calls["read_randomly"] == more
    store.change_read_ahead(is_wanted=True)
    assert disk.calls["read_normally"] == more
    assert store.get("orders", 0, 0).message_count


def test_a_file_is_mapped_anew_when_its_reading_changes(tmp_path: Path):
    store = open_store(disk=RealDisk(), clock=HandClock(), settings=SMALL, path=str(tmp_path))
    put(store, BODY)
    path = str(next((tmp_path / "commitlog").iterdir()))
    seen = []
    for is_wanted in (True, False, True):
        store.change_read_ahead(is_wanted=is_wanted)
        assert store.get("orders", 0, 0).message_count
        seen.append("rr" in flags_of_map(path))
    assert seen == [False, True, False]
    store.close()


def flags_of_map(path: str) -> list[str]:
    """What the kernel says of this process's newest map of a file; "rr" is random reading."""
    of_map = Path("/proc/self/smaps").read_text().partition(path)[2]
    return of_map.partition("VmFlags:")[2].partition("\n")[0].split()


@pytest.mark.parametrize("is_random", [True, False])
def test_a_map_tells_the_system_how_it_is_read(tmp_path: Path, is_random):
    path, disk = tmp_path / "file", RealDisk()
    path.write_bytes(b"x" * 8192)
    fd = disk.open(str(path))
    disk.read_randomly(fd)
    view = disk.map_readonly(fd, 8192, is_random=is_random)
    assert view[4096] == ord("x")
    assert ("rr" in flags_of_map(str(path))) is is_random
    del view
    disk.close(fd)
