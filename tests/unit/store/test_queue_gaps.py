"""What a reader finds where a queue lacks messages: everything that is behind, and each once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cometmq.codec.queue_entry import BLANK_SIZE, DOUBLED_MAX, GAP_CODE
from cometmq.codec.record import Record, decode_records, encode_record
from cometmq.model.java_hash import java_hash
from cometmq.model.names import HALF_TOPIC, WHEEL_TIMER_TOPIC
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetStatus
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    HOST_V4,
    SMALL,
    make_put,
    open_store,
    put,
    queue_of,
    read_all,
    settle,
    store_with,
)

ROOMY = replace(SMALL, commitlog_file_size=1 << 20, queue_file_size=20 * 300)
COUNT = 100


def store_without(*lost: int, topic: str = "orders", count: int = COUNT) -> MessageStore:
    """A store whose queue was built again from a log that lacks some of its messages."""
    store, disk, clock = store_with(settings=ROOMY)
    for number in range(count):
        if number in lost:
            store.queue_for_append(topic, 0).next_offset += 1
        else:
            store.put_many([make_put(store, topic, body=b"%d" % number, tag=f"t{number % 2}")])
    settle(store, clock)
    store.close()
    for name in disk.list_names("/store/consumequeue/" + topic + "/0"):
        disk.unlink(f"/store/consumequeue/{topic}/0/{name}")
    disk.unlink("/store/checkpoint.cometmq")
    disk.unlink("/store/checkpoint")
    return open_store(settings=ROOMY, disk=disk.kill(), clock=clock)


def entries_of(store: MessageStore, topic: str = "orders") -> list[tuple[int, int, int]]:
    queue = queue_of(store, topic)
    return [(at, size, code) for at, size, code in store.entries(queue, 0, queue.max_offset)]


@pytest.mark.parametrize("lost", [{7}, {0, 1, 7, 8, 9, 98}, set(range(20, 20 + DOUBLED_MAX))])
def test_every_message_behind_a_gap_is_read_once_wherever_the_read_begins(lost: set[int]):
    store = store_without(*lost)
    wanted = [number for number in range(COUNT) if number not in lost]
    first = queue_of(store)
    for start in range(first.min_offset, COUNT):
        found = [record.queue_offset for record in read_all(store, offset=start)]
        assert found == [number for number in wanted if number >= start]
    for start in range(first.min_offset, COUNT):
        result = store.get("orders", 0, start, max_count=1)
        if result.message_count:
            record = decode_records(b"".join(result.records))[0]
            assert record.queue_offset >= start
            assert result.next_offset == record.queue_offset + 1


def test_a_lost_message_has_the_entry_of_the_next_one_so_that_java_passes_over_nothing():
    entries = entries_of(store_without(7, 8))
    following, size, _ = entries[9]
    assert entries[7] == entries[8] == (following, size, GAP_CODE)
    # Java looks for the low half among the hashes of wanted tags: "" has this one.
    assert GAP_CODE & 0xFFFF_FFFF == 0
    places = [place for place, _, _ in entries]
    assert places == sorted(places)


def test_many_in_a_row_and_those_of_messages_that_wait_for_a_time_are_blank():
    many = entries_of(store_without(*range(5, 6 + DOUBLED_MAX)))
    assert {entry[:2] for entry in many[5 : 6 + DOUBLED_MAX]} == {(0, BLANK_SIZE)}
    timed = entries_of(store_without(7, topic=WHEEL_TIMER_TOPIC), WHEEL_TIMER_TOPIC)
    assert timed[7][:2] == (0, BLANK_SIZE)
    halves = entries_of(store_without(7, topic=HALF_TOPIC), HALF_TOPIC)
    assert halves[7][:2] == halves[8][:2]


def test_a_wrong_offset_is_not_confirmed_by_a_record_far_behind_it():
    store = open_store(disk=FakeDisk(), clock=HandClock())
    record = Record(topic="orders", born_host=HOST_V4, store_host=HOST_V4)
    for offset in (*range(10), 3, *range(10, 15), 4, *range(15, 20)):
        record = record._replace(queue_offset=offset, physical_offset=store.max_offset)
        store.append_raw(store.max_offset, encode_record(record))
        store.dispatch_pending()
    assert [record.queue_offset for record in read_all(store)] == [*range(20)]


def test_a_tag_that_matches_behind_a_gap_is_found_and_nothing_of_the_gap_is():
    store = store_without(7, 8)
    result = store.get("orders", 0, 6, match=frozenset([java_hash("t1"), GAP_CODE, 0]))
    offsets = [each.queue_offset for each in decode_records(b"".join(result.records))]
    assert offsets[:2] == [9, 11]


def test_zeros_in_a_queue_file_are_built_again_where_a_reader_meets_them():
    store, disk, clock = store_with(settings=ROOMY)
    put(store, *[b"%d" % number for number in range(COUNT)])
    settle(store, clock)
    name = disk.list_names("/store/consumequeue/orders/0")[0]
    content = disk.names[f"/store/consumequeue/orders/0/{name}"].content
    content[20 * 10 : 20 * 60] = bytes(20 * 50)
    waiting = store.get("orders", 0, 10).cold
    assert waiting is not None
    result = waiting()
    assert (result.status, result.next_offset) == (GetStatus.FOUND, 42)
    assert any(content[20 * 59 : 20 * 60])
    assert [record.queue_offset for record in read_all(store)] == [*range(COUNT)]
