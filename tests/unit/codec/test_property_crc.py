"""The CRC of a whole record, among its properties."""

from __future__ import annotations

from zlib import crc32

import pytest

from cometmq.codec.property_crc import TAIL_SIZE, fill_in, is_crc_right, with_room
from cometmq.codec.record import Record, encode_record
from cometmq.model.errors import RecordIllegal

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
