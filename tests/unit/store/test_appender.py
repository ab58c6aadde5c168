"""Records as the appender packs them: the codec reads them, RocketMQ's rules hold."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cometmq.codec.properties import find_property
from cometmq.codec.record import (
    BLANK_TAIL_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    Record,
    decode_record,
    encode_record,
)
from cometmq.codec.record_check import check_record
from cometmq.kernel import MAGIC_BLANK, WalkEnd, check_records, show_records
from cometmq.kernel.records import HEAD
from cometmq.model.errors import RecordIllegal
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_COMMIT
from cometmq.model.java_hash import java_hash
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.record_walk import valid_records
from cometmq.store.stored_record import UNUSUAL, tag_hash, valid_record
from cometmq.store.zeros import is_zeros
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    HOST_V4,
    HOST_V6,
    SMALL,
    bodies_of,
    make_put,
    open_store,
    put,
    read_all,
)


def records(store):
    """Every record of the log's first file, in order."""
    found, offset = [], 0
    while (piece := store.read_record(offset)) is not None:
        check_record(piece, 0)
        found.append(decode_record(piece))
        offset += len(piece)
    return found


@pytest.mark.parametrize("born_host", [HOST_V4, HOST_V6])
@pytest.mark.parametrize("store_host", [HOST_V4, HOST_V6])
@pytest.mark.parametrize("topic", ["t", "t" * 127, "t" * 128, "t" * 255])
def test_every_layout_is_what_the_codec_reads(born_host, store_host, topic, clock):
    store = open_store(disk=FakeDisk(), clock=clock)
    store.store_host = store_host
    clock.turn(5)
    put_one = make_put(store, topic, 3, b"body", tag="paid", born_host=born_host)
    [(queue_offset, physical_offset, size)] = store.put_many([put_one])
    [record] = records(store)
    assert (queue_offset, physical_offset, size) == (0, 0, record.store_size)
    assert record.magic == (MAGIC_V1 if len(topic) <= 127 else MAGIC_V2)
    assert (record.topic, record.queue_id, record.body) == (topic, 3, b"body")
    assert (record.born_host, record.store_host) == (born_host, store_host)
    bits = (BORN_HOST_V6 if born_host is HOST_V6 else 0) | (
        STORE_HOST_V6 if store_host is HOST_V6 else 0
    )
    assert record.sys_flag == bits
    assert record.store_timestamp == clock.now_ms()
    assert (record.flag, record.born_timestamp) == (7, 1_600_000_000_000)
    assert record.properties() == {"TAGS": "paid"}


def test_offsets_go_up_by_one_in_each_queue(store):
    store.put_many([make_put(store, queue_id=n % 3) for n in range(6)])
    results = store.put_many([make_put(store, queue_id=n % 3) for n in range(6)])
    assert [offset for offset, _, _ in results] == [2, 2, 2, 3, 3, 3]
    found = records(store)
    assert [record.physical_offset for record in found] == [
        n * found[0].store_size for n in range(12)
    ]


def test_bodies_may_be_any_bytes_and_empty(store):
    start = make_put(store)
    bodies = (b"", bytearray(b"array"), memoryview(b"view"))
    store.put_many([(*start[:2], body, *start[3:]) for body in bodies])
    store.dispatch_pending()
    assert bodies_of(store) == [b"", b"array", b"view"]


def test_half_and_rolled_back_messages_take_no_place_in_the_queue(store):
    results = store.put_many(
        [make_put(store, body=bytes([kind]), transaction=kind) for kind in (0, 4, 8, 12, 0)]
    )
    store.dispatch_pending()
    assert [offset for offset, _, _ in results] == [0, 0, 1, 0, 2]
    assert bodies_of(store) == [bytes([0]), bytes([8]), bytes([0])]
    assert [record.sys_flag for record in records(store)] == [0, 4, 8, 12, 0]


def test_a_file_ends_with_a_blank_mark_and_the_record_goes_to_the_next(disk):
    store = open_store(disk=disk)
    size = SMALL.commitlog_file_size
    put(store, b"x" * 8000)
    end = store.max_offset
    put(store, b"y" * 8200)
    assert store.queue("orders", 0) is not None
    content = disk.content("/store/commitlog/00000000000000000000")
    assert int.from_bytes(content[end : end + 4]) == size - end
    assert int.from_bytes(content[end + 4 : end + 8]) == MAGIC_BLANK
    assert content[end + 8 :] == bytes(size - end - 8)
    assert [record.physical_offset for record in read_all(store)] == [0, size]


@pytest.mark.parametrize("left", [0, 1, 7])
def test_a_record_leaves_room_for_the_blank_mark(store, left):
    """It fits only if 8 bytes are left behind it (CommitLog.DefaultAppendMessageCallback)."""
    overhead = put(store, b"")
    room = SMALL.commitlog_file_size - overhead - overhead - BLANK_TAIL_SIZE
    put(store, b"x" * (room + left))
    starts = [record.physical_offset for record in read_all(store)]
    assert starts == [0, overhead if left == 0 else SMALL.commitlog_file_size]


def test_a_record_longer_than_a_file_is_refused_and_nothing_of_its_batch_stored(store):
    longest = SMALL.commitlog_file_size - BLANK_TAIL_SIZE - put(store, b"")
    with pytest.raises(RecordIllegal, match="mappedFileSizeCommitLog"):
        store.put_many([make_put(store), make_put(store, body=b"x" * (longest + 1))])
    assert store.refusal is None
    put(store, b"x" * longest)
    assert [len(body) for body in bodies_of(store)] == [0, longest]


@pytest.mark.parametrize("field", [5, 7, 9, 10])
def test_a_number_out_of_its_range_is_refused_and_nothing_of_its_batch_stored(store, field):
    bad: Any = (*make_put(store)[:field], 1 << 70, *make_put(store)[field + 1 :])
    with pytest.raises(RecordIllegal, match="out of range"):
        store.put_many([make_put(store), bad])
    put(store, b"good")
    assert bodies_of(store) == [b"good"]


def test_a_batch_message_lies_in_one_file(store):
    put(store, b"x" * 8000)
    batch = [make_put(store, body=b"%d" % n * 1000) for n in range(9)]
    results = store.put_many(batch, is_together=True)
    store.dispatch_pending()
    assert results[0][1] == SMALL.commitlog_file_size
    assert len(bodies_of(store)) == 10
    with pytest.raises(RecordIllegal):
        store.put_many(batch * 2, is_together=True)


def test_an_empty_batch_writes_nothing(store):
    assert store.put_many([]) == []
    assert store.max_offset == 0


def test_a_clock_that_steps_back_a_little_does_not_take_store_times_with_it(clock):
    store = open_store(disk=FakeDisk(), clock=clock)
    for seconds in (10, -5, 3, -100):
        clock.turn(seconds)
        put(store, b"x")
    start = HandClock().now_ms()
    times = [record.store_timestamp - start for record in read_all(store)]
    assert times == [10_000, 10_000, 10_000, -92_000]


def test_a_delayed_message_is_due_at_its_store_time_and_its_levels_delay(clock):
    store = open_store(disk=FakeDisk(), clock=clock)
    clock.turn(1)
    level_3 = make_put(store, SCHEDULE_TOPIC, 2)
    store.put_many([(*level_3[:4], None, *level_3[5:])])
    seen = []
    queue = store.queue_for_append(SCHEDULE_TOPIC, 2)
    queue.watched = True
    store.on_arrival = lambda _, codes: seen.extend(codes)
    store.dispatch_pending()
    assert seen == [clock.now_ms() + 10_000]


OFFSET = 1 << 40


def piece(*records: Record) -> bytes:
    """Records one behind the other, the first at `OFFSET`."""
    content = b""
    for record in records:
        content += encode_record(record._replace(physical_offset=OFFSET + len(content)))
    return content


RECORDS = [
    Record(topic="a", body=b"x" * 100, property_block=b"k\x01v\x02"),
    Record(topic="a", body=b"", property_block=b""),
    Record(topic="b" * 127, body=b"y"),
    Record(topic="b" * 128, body=b"y"),
    Record(topic="b" * 128, body=b"y", born_host=bytes(20), store_host=bytes(20)),
    Record(topic="é", body=b"z", property_block=b"k\x01\0\0\x02"),
    Record(topic="é", body=b"z", sys_flag=TRANSACTION_COMMIT),
]


def test_every_kind_of_record_is_what_it_is_alone():
    content = piece(*RECORDS)
    records, end, why = valid_records(content, OFFSET)
    assert (len(records), end, why) == (len(RECORDS), len(content), WalkEnd.WHOLE)
    at = 0
    for record in records:
        assert record == valid_record(content, at, OFFSET + at)
        at += record.store_size
    assert records[4].sys_flag & BORN_HOST_V6


@pytest.mark.parametrize("cut", range(1, 120))
def test_a_piece_that_ends_in_a_record_is_short(cut):
    first = piece(RECORDS[0])
    content = piece(RECORDS[0], RECORDS[0])
    part = content[: len(first) + cut]
    assert valid_records(part, OFFSET)[1:] == (len(first), WalkEnd.SHORT)


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        (bytes(50), WalkEnd.EMPTY),
        (bytes.fromhex("00000032cbd43194") + bytes(42), WalkEnd.BLANK),
        (b"\xff" * 50, WalkEnd.UNKNOWN),
        (bytes.fromhex("0000000adaa320a7") + bytes(90), WalkEnd.UNKNOWN),
    ],
)
def test_what_is_no_record_has_its_name(behind, why):
    content = piece(RECORDS[0])
    assert valid_records(content + behind, OFFSET)[1:] == (len(content), why)


@pytest.mark.parametrize("at", range(150))
def test_a_changed_byte_is_never_taken_for_another_record(at):
    """What the CRC and the sizes do not cover may change; then the record is taken as it stands."""
    content = bytearray(piece(RECORDS[0], RECORDS[0]))
    content[at] ^= 0xFF
    records, end, why = valid_records(bytes(content), OFFSET)
    alone = valid_record(bytes(content), 0, OFFSET)
    if alone is None:
        assert (records, end) == ([], 0)
        assert why in (WalkEnd.UNKNOWN, WalkEnd.SHORT)
    else:
        assert records[0] == alone
        assert (len(records), why) == (2, WalkEnd.WHOLE)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"TAGS\x01TagA\x02",
        b"k\x01v\x02TAGS\x01TagA\x02x\x01y\x02",
        b"TAGS\x01first\x02TAGS\x01last\x02",
        b"TAGS\x01first\x02TAGS\x01\x02",
        b"XTAGS\x01no\x02",
        b"TAGS\x01yes\x02XTAGS\x01no\x02",
        b"k\x01TAGS\x02",
        b"TAGS\x01unended",
        "TAGS\x01é\x02".encode(),
    ],
)
def test_the_hash_of_a_tag_is_that_of_the_property(block):
    tag = find_property(block, b"TAGS")
    assert tag_hash(block) == (java_hash(tag) if tag else 0)


def test_a_tag_that_is_no_text_has_no_hash():
    assert tag_hash(b"TAGS\x01\xff\x02") == 0


@pytest.mark.parametrize(
    "more",
    [
        {"topic": SCHEDULE_TOPIC},
        {"sys_flag": TRANSACTION_COMMIT},
        {"property_block": b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"},
        {"queue_offset": 7},
        {"queue_id": 9},
    ],
)
def test_what_is_not_the_next_of_its_queue_with_one_entry_is_left_to_others(more):
    queue = ConsumeQueue("T", 0)
    usual = RECORDS[0]._replace(topic="T", queue_id=0, queue_offset=0, property_block=b"")
    content = piece(usual, usual._replace(**{"queue_offset": 1, **more}))
    shown = show_records(
        content, 0, OFFSET, UNUSUAL, lambda _: {0: queue}, ConsumeQueue, {}, 4096, [], {}
    )
    assert shown == (len(piece(usual)), 1)
    assert queue.max_offset == queue.next_offset == 1


def test_one_bit_of_a_body_is_missed_in_none_of_any_size():
    chance = random.Random(5)
    for size in (*range(300), 1_023, 1_024, 1_025, 5_000):
        content = bytearray(piece(Record(topic="a", body=chance.randbytes(size))))
        assert check_records(content, 0, OFFSET)[0] == len(content)
        for _ in range(min(size, 8)):
            at, bit = HEAD.size + chance.randrange(size), 1 << chance.randrange(8)
            content[at] ^= bit
            assert check_records(content, 0, OFFSET)[0] == 0
            content[at] ^= bit


MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4 * MIB, 4 * MIB + 4096, 4 * MIB + 4097, 9 * MIB])
def test_zeros_are_zeros_and_one_other_byte_is_seen(size):
    assert is_zeros(bytes(size))
    for place in {0, size // 2, size - 1} if size else ():
        piece = bytearray(size)
        piece[place] = 1
        assert not is_zeros(bytes(piece)), place
