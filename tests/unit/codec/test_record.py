"""The stored record: both versions, both kinds of address, and everything that is no record."""

from __future__ import annotations

from zlib import crc32

import pytest

from cometmq.codec.host import encode_host
from cometmq.codec.property_crc import TAIL_SIZE, fill_in, is_crc_right, with_room
from cometmq.codec.record import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_HEAD,
    RECORD_HEADS,
    Record,
    blank_tail,
    body_crc,
    decode_record,
    decode_records,
    encode_record,
    property_block,
    record_size,
    store_time_at,
    topic_block,
)
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.kernel import WalkEnd
from cometmq.model.errors import CodecError, RecordIllegal
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6

V4 = encode_host("10.1.2.3:40000")
V6 = encode_host("[fd00::2]:10911")

RECORD = Record(
    queue_id=2,
    flag=-7,
    queue_offset=5,
    physical_offset=1 << 40,
    sys_flag=2,
    born_timestamp=1795256155446,
    born_host=V4,
    store_timestamp=1795256155509,
    store_host=V4,
    reconsume_times=3,
    prepared_offset=9,
    body=b"hello",
    topic="Topic",
    property_block=b"TAGS\x01a\x02",
)


def test_the_head_has_88_bytes_and_12_more_for_each_ipv6_host():
    assert {bits: head.size for bits, head in RECORD_HEADS.items()} == {
        0: 88,
        BORN_HOST_V6: 100,
        STORE_HOST_V6: 100,
        BORN_HOST_V6 | STORE_HOST_V6: 112,
    }


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize(
    ("topic", "magic"), [("t" * 127, MAGIC_V1), ("t" * 128, MAGIC_V2), ("ü" * 400, MAGIC_V2)]
)
def test_a_record_comes_back_as_it_went(born, store, topic, magic):
    record = RECORD._replace(born_host=born, store_host=store, topic=topic)
    encoded = encode_record(record)
    bits = BORN_HOST_V6 * (born is V6) | STORE_HOST_V6 * (store is V6)
    expected = record._replace(
        store_size=len(encoded), magic=magic, body_crc=907060870, sys_flag=2 | bits
    )
    assert decode_record(encoded) == expected
    assert check_record(encoded, 0) == len(encoded)
    assert len(encoded) == record_size(
        body=5, topic=len(topic.encode()), properties=7, sys_flag=bits
    )
    at = store_time_at(bits)
    assert int.from_bytes(encoded[at : at + 8]) == record.store_timestamp


def test_a_record_is_read_out_of_any_buffer_at_any_place():
    encoded = encode_record(RECORD)
    for kind in (bytes, bytearray, memoryview):
        buffer = kind(b"before" + encoded + b"behind")
        record = decode_record(buffer, 6)
        assert record.properties() == {"TAGS": "a"}
        assert type(record.body) is bytes
        assert check_record(buffer, 6) == len(encoded)


def test_every_record_of_a_body_is_read():
    bodies = [bytes([n]) * n for n in range(20)]
    stream = b"".join(encode_record(RECORD._replace(body=body)) for body in bodies)
    assert [record.body for record in decode_records(memoryview(stream))] == bodies
    assert decode_records(b"") == []


def test_records_of_all_kinds_may_stand_in_one_body():
    kinds = [
        RECORD._replace(topic=topic, born_host=born, body=body)
        for topic in ("Topic", "T", "", "Topic", "ü" * 100)
        for born in (V4, V6)
        for body in (b"", b"x" * 300, b"hello")
    ]
    stream = [encode_record(record) for record in kinds]
    assert decode_records(b"".join(stream)) == [decode_record(one) for one in stream]


def test_a_body_with_anything_but_whole_records_is_refused():
    encoded = encode_record(RECORD)
    for broken in (encoded[:-1], encoded + b"\0", encoded + blank_tail(100) + bytes(92)):
        with pytest.raises(CodecError, match="record"):
            decode_records(broken)


def test_every_cut_of_a_record_is_a_codec_error():
    encoded = encode_record(RECORD)
    for size in range(len(encoded)):
        with pytest.raises(CodecError):
            decode_record(encoded[:size])
        with pytest.raises(NoRecordError) as caught:
            check_record(encoded[:size], 0)
        assert caught.value.why is WalkEnd.SHORT


def change(at: int, content: bytes) -> bytes:
    encoded = bytearray(encode_record(RECORD))
    encoded[at : at + len(content)] = content
    return bytes(encoded)


@pytest.mark.parametrize(
    "broken",
    [
        change(84, b"\x00\x00\x00\x06"),  # body size
        change(84, b"\xff\xff\xff\xff"),
        change(84, b"\x7f\xff\xff\xff"),
        change(93, b"\x06"),  # topic size
        change(99, b"\x00\x08"),  # properties size
        change(36, b"\x00\x00\x00\x12"),  # sysFlag says IPv6
    ],
)
def test_sizes_that_do_not_add_up_are_refused(broken):
    with pytest.raises(CodecError, match=r"record at byte 0 (has|ends)"):
        decode_record(broken)
    good = encode_record(RECORD)
    with pytest.raises(CodecError, match="record at byte "):
        decode_records(good + broken)
    with pytest.raises(NoRecordError, match="parts") as caught:
        check_record(broken, 0)
    assert caught.value.why is WalkEnd.UNKNOWN


def test_a_topic_that_is_not_utf8_is_refused():
    with pytest.raises(CodecError, match="topic"):
        decode_record(change(94, b"\xff"))


def test_a_changed_body_fails_its_crc_only_where_that_is_asked():
    broken = change(88, b"jello")
    with pytest.raises(NoRecordError, match="CRC"):
        check_record(broken, 0)
    assert check_record(broken, 0, is_crc_checked=False) == len(broken)


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (blank_tail(500) + bytes(492), WalkEnd.BLANK),
        (bytes(500), WalkEnd.EMPTY),
        (b"garbage garbage", WalkEnd.UNKNOWN),
        (b"\0\0", WalkEnd.SHORT),
        (b"", WalkEnd.SHORT),
    ],
)
def test_a_check_says_what_stands_there(tail, why):
    encoded = encode_record(RECORD)
    with pytest.raises(NoRecordError) as caught:
        check_record(encoded + tail, len(encoded))
    assert caught.value.why is why


def test_the_end_mark_of_a_log_file_needs_eight_bytes():
    assert blank_tail(8).hex() == "00000008cbd43194"
    with pytest.raises(CodecError, match="7 bytes left"):
        blank_tail(7)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"topic": "t" * 32768}, "topic has 32768"),
        ({"property_block": bytes(32768)}, "properties have 32768"),
        ({"born_host": b"12345"}, "host has 5"),
        ({"queue_id": 1 << 31}, "out of range"),
        ({"queue_offset": 1 << 63}, "out of range"),
    ],
)
def test_what_has_no_room_in_a_record_is_refused(wrong, words):
    with pytest.raises(CodecError, match=words):
        encode_record(RECORD._replace(**wrong))


def test_the_parts_for_the_append_path_make_the_same_bytes():
    magic, topic = topic_block(RECORD.topic.encode())
    size = record_size(body=5, topic=5, properties=7)
    head = RECORD_HEAD.pack(size, magic, body_crc(b"hello"), *RECORD[3:14], 5)
    assert head + b"hello" + topic + b"\0\7" + RECORD.property_block == encode_record(RECORD)


def test_an_empty_body_has_crc_0():
    assert body_crc(b"") == 0


ROOM = b"__CRC32#\x010000000000\x02"


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (b"", ROOM),
        (b"a\x01b\x02", b"a\x01b\x02" + ROOM),
        (b"a\x01b", b"a\x01b\x02" + ROOM),
        (b"__CRC32#\x011234567890\x02a\x01b\x02", b"a\x01b\x02" + ROOM),
        (b"a\x01b\x02__CRC32#\x01x", b"a\x01b\x02" + ROOM),
        (b"x__CRC32#\x01b\x02", b"x__CRC32#\x01b\x02" + ROOM),
    ],
)
def test_it_comes_last_and_once(block: bytes, wanted: bytes):
    assert with_room(block) == wanted
    assert with_room(memoryview(block)) == wanted
    assert with_room(with_room(block)) == wanted
    assert len(ROOM) == TAIL_SIZE == 20  # CommitLog.CRC32_RESERVED_LEN


def test_properties_that_leave_it_no_room_are_refused():
    most = 32_767 - TAIL_SIZE
    assert len(with_room(b"x" * (most - 1))) == 32_767
    with pytest.raises(RecordIllegal, match="enabledAppendPropCRC"):
        with_room(b"x" * most)


def record(body: bytes, block: bytes) -> bytearray:
    made = Record(body=body, topic="TopicTest", property_block=with_room(block))
    return bytearray(encode_record(made))


def test_its_digits_are_written_from_the_lowest_on_and_it_covers_all_before_it():
    content = bytearray(b"before") + record(b"hello", b"u\x01v\x02") + b"behind"
    size = len(content) - 12
    fill_in(content, 6, size)
    crc = crc32(content[6 : 6 + size - 20]) & 0x7FFF_FFFF
    assert content[6 + size - 11 : 6 + size - 1] == f"{crc:010d}"[::-1].encode()
    assert is_crc_right(content, 6, size) is True
    for at in range(6, 6 + size - 20):
        content[at] ^= 1
        assert is_crc_right(content, 6, size) is False
        content[at] ^= 1
    assert content.startswith(b"before")
    assert content.endswith(b"behind")


@pytest.mark.parametrize(
    "end", [b"u\x01v\x02", b"__CRC32#\x01notdigits!\x02", b"", b"\x02" * 20]
)
def test_a_record_without_one_says_nothing(end: bytes):
    content = bytes(encode_record(Record(body=b"x", topic="T", property_block=end)))
    assert is_crc_right(content, 0, len(content)) is None


RECORD_V4, RECORD_V6 = bytes(8), bytes(20)


@pytest.mark.parametrize("born", [RECORD_V4, RECORD_V6])
@pytest.mark.parametrize("stored", [RECORD_V4, RECORD_V6])
@pytest.mark.parametrize("topic", ["T", "T" * 300])
@pytest.mark.parametrize("block", [b"", b"a\x01b\x02"])
def test_every_form_of_a_record_gives_its_properties(born, stored, topic, block):
    record = encode_record(
        Record(
            topic=topic, born_host=born, store_host=stored, body=b"body", property_block=block
        )
    )
    assert property_block(memoryview(record + b"behind")) == block


@pytest.mark.parametrize("size", [0, 30, 88, 93])
def test_a_record_that_ends_within_its_fields_is_an_error(size):
    whole = encode_record(Record(topic="T", body=b"body", property_block=b"a\x01b\x02"))
    with pytest.raises(CodecError, match="ends within"):
        property_block(whole[:size])
