"""A piece of the log is walked as record by record, and tags are hashed as they are found."""

from __future__ import annotations

import random

import pytest

from cometmq.codec.properties import find_property
from cometmq.codec.record import Record, encode_record
from cometmq.kernel import WalkEnd, check_records, show_records
from cometmq.kernel.records import HEAD
from cometmq.model.flags import BORN_HOST_V6, TRANSACTION_COMMIT
from cometmq.model.java_hash import java_hash
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.record_walk import valid_records
from cometmq.store.stored_record import UNUSUAL, tag_hash, valid_record

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
