"""The kernel's loops: frames, records, hashes."""

import importlib
import struct
import sys
import zlib
from array import array

import pytest

from cometmq.codec.index_file import INDEX_ENTRY
from cometmq.kernel import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    WalkEnd,
    crc,
    insert_keys,
    java_hash_many,
    split_frames,
    walk_records,
)
from cometmq.kernel.keys import keys_of
from cometmq.model.errors import CodecError, FrameTooLarge

LIMIT = 1000


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    length = 4 + len(header) + len(body)
    return struct.pack(">II", length, kind << 24 | len(header)) + header + body


def record(size: int, magic: int = MAGIC_V1) -> bytes:
    return struct.pack(">iI", size, magic) + bytes(size - 8)


def test_frames_are_found_with_their_parts():
    buffer = b"skipped" + frame(b"head", b"body", kind=1) + frame(b"h") + b"\0\0\0"
    frames, position = split_frames(buffer, 7, LIMIT)
    assert [(kind, buffer[a:b], buffer[b:c]) for kind, a, b, c in frames] == [
        (1, b"head", b"body"),
        (0, b"h", b""),
    ]
    assert position == len(buffer) - 3


def test_nothing_whole_gives_nothing():
    whole = frame(b"head", b"body")
    for size in range(len(whole)):
        assert split_frames(whole[:size], 0, LIMIT) == ([], 0)


def test_a_frame_at_the_limit_is_taken_and_one_over_it_is_not():
    assert len(split_frames(frame(b"h", bytes(LIMIT - 9)), 0, LIMIT)[0]) == 1
    with pytest.raises(FrameTooLarge, match="1001 bytes; at most 1000"):
        split_frames(frame(b"h", bytes(LIMIT - 8)), 0, LIMIT)


@pytest.mark.parametrize("length", [3, 0, -1, -0x80000000])
def test_a_length_too_small_is_a_codec_error(length):
    with pytest.raises(CodecError, match=f"length of {length};"):
        split_frames(struct.pack(">iI", length, 0), 0, LIMIT)


def test_an_oversized_frame_is_refused_before_its_bytes_are_there():
    with pytest.raises(FrameTooLarge):
        split_frames(struct.pack(">iI", 0x7FFFFFFF, 0), 0, LIMIT)


def test_good_frames_come_before_the_error_of_a_bad_one():
    buffer = frame(b"good") + struct.pack(">iI", 1, 0)
    frames, position = split_frames(buffer, 0, LIMIT)
    assert len(frames) == 1
    with pytest.raises(CodecError):
        split_frames(buffer, position, LIMIT)


def test_records_of_both_versions_are_walked_to_the_end():
    buffer = record(100) + record(91, MAGIC_V2)
    assert walk_records(buffer, 0, len(buffer)) == (
        [(0, 100, MAGIC_V1), (100, 91, MAGIC_V2)],
        191,
        WalkEnd.WHOLE,
    )


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (struct.pack(">iI", 400, MAGIC_BLANK) + bytes(392), WalkEnd.BLANK),
        (bytes(64), WalkEnd.EMPTY),
        (bytes(7), WalkEnd.SHORT),
        (record(200)[:199], WalkEnd.SHORT),
        (record(200, 0xDAA320A8), WalkEnd.UNKNOWN),
        (struct.pack(">iI", 90, MAGIC_V1), WalkEnd.UNKNOWN),
        (struct.pack(">iI", -1, MAGIC_V1), WalkEnd.UNKNOWN),
        (struct.pack(">iI", 100, 0), WalkEnd.UNKNOWN),
    ],
)
def test_a_walk_says_why_it_stopped(tail, why):
    buffer = record(100) + tail
    assert walk_records(buffer, 0, len(buffer)) == ([(0, 100, MAGIC_V1)], 100, why)


def test_a_walk_does_not_read_behind_its_end():
    buffer = record(100) + record(100)
    assert walk_records(buffer, 0, 150)[1:] == (100, WalkEnd.SHORT)


def test_hashes_are_those_of_java():
    texts = ["TagA", "TopicTest#K1", "TopicTest", "", "\U0001f600", "ü"]
    # The first three were computed by Java; the last are 31*0xD83D + 0xDE00 and 0xFC.
    hashes = java_hash_many([text.encode() for text in texts])
    assert hashes == [2598919, 2745032, -1902610879, 0, 1772899, 252]


def test_hashes_do_not_depend_on_what_is_hashed_beside():
    texts = [b"k%d" % number * (number % 9) for number in range(2000)]
    alone = [java_hash_many([text])[0] for text in texts]
    assert java_hash_many(texts) == alone
    assert java_hash_many([*texts, b"x" * 300])[:-1] == alone
    assert java_hash_many([*texts, "ü".encode()])[:-1] == alone


def test_keys_of_one_slot_are_a_chain_from_the_newest():
    slots = memoryview(array("i", bytes(4 * 10)))
    keys, changed = keys_of([13, -3, 4], [100, 200, 200], [5000, 6000, 6999]), bytearray(5)
    entries, fresh = insert_keys(slots, 1, keys, 5000, changed, 2, 4)
    assert list(INDEX_ENTRY.iter_unpack(entries)) == [
        (13, 100, 0, 0),
        (3, 200, 1, 1),
        (4, 200, 1, 0),
    ]
    assert fresh == 2
    assert slots[3] == 2
    assert slots[4] == 3
    assert changed == bytes([0, 1, 0, 0, 0])


def test_the_least_hash_of_all_has_no_absolute_value_and_counts_as_0():
    slots = memoryview(array("i", bytes(4 * 10)))
    entries, _ = insert_keys(slots, 1, keys_of([-(2**31)], [0], [9]), 0, bytearray(3), 0, 4)
    assert INDEX_ENTRY.unpack(entries) == (0, 0, 0, 0)
    assert slots[0] == 1


def test_both_libraries_agree(monkeypatch):
    pieces = [b"", b"a", b"123456789", bytes(range(256)) * 40]
    expected = [zlib.crc32(piece) for piece in pieces]
    assert crc.crc32.__module__ == "zlib_ng.zlib_ng"
    assert list(map(crc.crc32, pieces)) == expected
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    try:
        assert importlib.reload(crc).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        importlib.reload(crc)
