"""Damaged queue entries, kind by kind: each message is read, the file is right again, it is said once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.queue_entry import BLANK_SIZE, DOUBLED_MAX, GAP_CODE, QUEUE_ENTRY
from cometmq.codec.record import Record, decode_records, encode_record
from cometmq.kernel import count_records, reference
from cometmq.model.flags import INNER_BATCH
from cometmq.model.java_hash import java_hash
from cometmq.model.names import HALF_TOPIC, WHEEL_TIMER_TOPIC
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetStatus
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    HOST_V4,
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    queue_of,
    read_all,
    settle,
    store_with,
)

COUNT = 100
ROOMY = replace(SMALL, queue_file_size=60 * 20)
PATH = "/store/consumequeue/orders/0/{:020d}"


def store_of_two_queues():
    """A store with messages of two queues by turns, and where the first's entries lie."""
    store, disk, clock = store_with(settings=ROOMY)
    for number in range(COUNT):
        body = b"%d" % number * random.Random(number).randrange(1, 40)
        store.put_many([make_put(store, body=body, tag=f"t{number % 3}")])
        store.put_many([make_put(store, queue_id=1, body=body)])
    settle(store, clock)
    return store, disk


def file_of(disk, offset):
    per_file = ROOMY.queue_entries_per_file
    return disk.names[
        PATH.format(offset // per_file * per_file * 20)
    ].content, offset % per_file * 20


def entry_at(disk, offset):
    content, at = file_of(disk, offset)
    return QUEUE_ENTRY.unpack_from(content, at)


def damage(disk, offset, entry):
    content, at = file_of(disk, offset)
    content[at : at + 20] = entry


def offsets_read(store, match=None):
    return [record.queue_offset for record in read_all(store, match=match)]


def wrong_entries(entry):
    """What a flipped bit, a lost sector or a wild write may make of an entry."""
    place, size, code = entry
    pack = QUEUE_ENTRY.pack
    return {
        "beyond the log": pack(place + (1 << 40), size, code),
        "just beyond": pack(place + (1 << 20), size, code),
        "64 MiB": pack(place, 64 << 20, code),
        "too long": pack(place, size + 1, code),
        "too short": pack(place, size - 1, code),
        "3 bytes": pack(place, 3, code),
        "no bytes": pack(place, 0, code),
        "a negative size": pack(place, -size, code),
        "a negative place": pack(-place - 1, size, code),
        "inside a record": pack(place + 4, size, code),
        "zeros": bytes(20),
        "ones": b"\xff" * 20,
    }


@pytest.mark.parametrize("kind", wrong_entries((0, 100, 0)))
@pytest.mark.parametrize("count", [1, 7])
def test_each_message_is_read_and_the_file_is_right_again(caplog, kind, count):
    store, disk = store_of_two_queues()
    places = range(55, 55 + count)  # Over the border of two files.
    before = {offset: entry_at(disk, offset) for offset in places}
    for offset in places:
        damage(disk, offset, wrong_entries(before[offset])[kind])
    assert offsets_read(store) == [*range(COUNT)]
    assert {offset: entry_at(disk, offset) for offset in places} == before
    said = [record for record in caplog.records if "pointed to no record" in record.message]
    assert 1 <= len(said) <= 2
    caplog.clear()
    assert offsets_read(store, frozenset([java_hash("t1")])) == [*range(1, COUNT, 3)]
    assert not caplog.records


def test_random_flips_hide_no_message():
    store, disk = store_of_two_queues()
    chance = random.Random(7)
    for _ in range(40):
        content, at = file_of(disk, chance.randrange(COUNT))
        content[at + chance.randrange(12)] ^= 1 << chance.randrange(8)
    assert offsets_read(store) == [*range(COUNT)]


def test_a_message_that_the_log_has_not_leaves_a_gap_that_is_said_once(caplog):
    store, disk = store_of_two_queues()
    place, size, _ = entry_at(disk, 20)
    log = disk.names["/store/commitlog/" + f"{place // 16384 * 16384:020d}"].content
    log[place % 16384 : place % 16384 + size] = bytes(size)
    assert offsets_read(store) == [*range(20), *range(21, COUNT)]
    assert entry_at(disk, 20)[1] == BLANK_SIZE
    assert caplog.text.count("which readers skip: 1 between") == 1
    assert offsets_read(store) == [*range(20), *range(21, COUNT)]
    assert caplog.text.count("which readers skip: 1 between") == 1


def test_a_read_only_store_gives_the_messages_and_touches_nothing():
    store, disk = store_of_two_queues()
    store.close()
    right = entry_at(disk, 20)
    damage(disk, 20, bytes(20))
    other = open_store(settings=ROOMY, disk=disk, read_only=True)
    assert offsets_read(other) == [*range(COUNT)]
    assert entry_at(disk, 20) == (0, 0, 0)
    assert right != (0, 0, 0)


def test_an_entry_is_mended_for_readers_of_single_entries():
    store, disk = store_of_two_queues()
    queue = store.queue("orders", 0)
    right = entry_at(disk, 20)
    damage(disk, 20, b"\xff" * 20)
    assert store.mended_entry(queue, 20) == right
    assert store.entries(queue, 20, 1) == [right]


def test_records_are_counted_alike_by_both_kernels():
    store, _ = store_of_two_queues()
    result = store.get("orders", 0, 0, max_count=COUNT)
    assert result.status is GetStatus.FOUND
    whole = b"".join(result.records)
    pieces = [whole, b"", whole[:-1], whole[1:], whole + whole, whole[:50], bytes(200)]
    for piece in pieces:
        expected = result.message_count if piece is whole else 0 if not piece else -1
        assert reference.count_records(piece) == count_records(piece) == expected


GAPPED = replace(SMALL, commitlog_file_size=1 << 20, queue_file_size=20 * 300)


def store_without(*lost: int, topic: str = "orders", count: int = COUNT) -> MessageStore:
    """A store whose queue was built again from a log that lacks some of its messages."""
    store, disk, clock = store_with(settings=GAPPED)
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
    return open_store(settings=GAPPED, disk=disk.kill(), clock=clock)


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
    store, disk, clock = store_with(settings=GAPPED)
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


@pytest.mark.parametrize("offset", ["0", "-7", "99999999999999999999", "4611686018427387904"])
@pytest.mark.parametrize("name", ["orders", "%LMQ%light"])
def test_a_message_that_names_another_queue_takes_nothing_from_it(name, offset):
    store, disk, clock = store_with(b"1", b"2", b"3")
    settle(store, clock)
    block = encode_properties(
        {"INNER_MULTI_DISPATCH": name, "INNER_MULTI_QUEUE_OFFSET": offset}
    )
    for topic in ("mine", "orders"):
        store.put_many([make_put(store, topic, body=topic.encode(), property_block=block)])
    flush(store)
    again = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(again) == [b"1", b"2", b"3", b"orders"]
    assert bodies_of(again, "mine") == [b"mine"]
    settle(again, clock)
    again.close()


@pytest.mark.parametrize(
    ("queue_id", "offset"), [(-3, 0), (0, -5), (0, (1 << 63) - 1), (0, 1 << 60)]
)
def test_a_record_whose_place_in_a_queue_cannot_be_is_in_the_log_alone(queue_id, offset):
    store, disk, clock = store_with()
    damaged = Record(
        queue_id=queue_id, queue_offset=offset, born_host=HOST_V4, store_host=HOST_V4, topic="orders"
    )  # fmt: skip
    store.append_raw(0, encode_record(damaged))
    store.dispatch_pending()
    put(store, b"1")
    settle(store, clock)
    assert [queue.queue_id for queue in store.queues_of("orders")] == [0]
    assert bodies_of(store) == [b"1"]
    store.close()
    again = open_store(disk=disk, clock=clock)
    assert bodies_of(again) == [b"1"]


RECORD = Record(sys_flag=INNER_BATCH, born_host=HOST_V4, store_host=HOST_V4, topic="batches")


@pytest.mark.parametrize(
    ("first", "count"),
    [
        ((1 << 48) - 1, 2),
        (2, (1 << 15) - 1),
        (1 << 48, 1),
        ((1 << 63) - 1, 1),
        (1 << 70, 1),
        (-1, 1),
        (2, 0),
        (2, -1),
        (2, 1 << 15),
    ],
)
def test_a_record_has_an_entry_where_its_numbers_may_be(first, count):
    store, disk, clock = store_with()
    ends = [2]
    for numbers in ((0, 2), (first, count)):
        base, number = map(str, numbers)
        block = encode_properties({"INNER_BASE": base, "INNER_NUM": number})
        record = RECORD._replace(physical_offset=store.max_offset, property_block=block)
        store.append_raw(store.max_offset, encode_record(record))
        store.dispatch_pending()
    if 0 <= first < 1 << 48 and 0 < count < 1 << 15:
        ends.append(first + count)
    for _ in range(2):
        queue = store.queue("batches", 0)
        assert isinstance(queue, BatchQueue)
        assert (queue.max_offset, queue.end_entry) == (ends[-1], len(ends))
        store = open_store(disk=disk.kill(), clock=clock)
