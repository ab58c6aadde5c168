"""Steps over plain records of the log: what recovery and verification spend their time on.

A record is taken apart, its sizes are added up, its place compared, its CRC computed, all in one
turn of a loop. Compiled: `_walk`.
"""

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Any, TypeVar

from cometmq.kernel.crc import crc32
from cometmq.kernel.layouts import (
    CRC_MASK,
    MAGIC_V1,
    RECORD_HEAD,
    RECORD_SIZE_MIN,
)
from cometmq.kernel.rows import Buffer
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6

HEAD = RECORD_HEAD.struct
SIZE = Struct(">i")  # A record begins with its size.
HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
RECORD_FIELDS = 17  # of codec.record.Record
_BITS = (1 << 32) - 1  # Of a sysFlag, which has a sign.

Parts = tuple[tuple[Any, ...], bytes, bytes, bytes]
RecordType = TypeVar("RecordType", bound=tuple[Any, ...])

_HEAD_SIZE = HEAD.size  # 88
_new = tuple.__new__  # record_type(*...) takes twice as long.


def plain_records(
    chunk: bytes,
    position: int,
    offset: int,
    topics: dict[bytes, str],
    record_type: type[RecordType],
    records: list[RecordType],
) -> int:
    """Take plain records from a piece of the log, as far as they go.

    Plain is a whole and valid record of version 1, with IPv4 hosts, of a known topic, and without a
    zero byte in its properties.

    Args:
        chunk: the piece.
        position: where in it the first record begins, bytes.
        offset: physical offset of the piece, bytes.
        topics: the known ones, by their bytes in a record.
        record_type: what the records become, `codec.record.Record`.
        records: they are appended here.

    Returns:
        The place in the piece where they end.
    """
    append, new = records.append, _new
    for head, topic_bytes, body, block in plain_parts(chunk, position, offset):
        topic = topics.get(topic_bytes)
        if topic is None:
            break
        append(new(record_type, head[:14] + (body, topic, block)))  # noqa: RUF005
        position += head[0]
    return position


def check_records(chunk: Buffer, position: int, offset: int) -> tuple[int, int, int]:
    """Pass over plain records of a piece of the log, as far as they go; nothing is made of them.

    Plain is what `plain_parts` gives, with a topic of ASCII.

    Args:
        chunk: the piece.
        position: where in it the first record begins, bytes.
        offset: physical offset of the piece, bytes.

    Returns:
        The place in the piece where they end, all bits of their sysFlags, and the store time of the last, ms; -1:
        there is none.
    """
    kinds, store_ms = 0, -1
    for head, topic, _, _ in plain_parts(chunk, position, offset):
        if not is_plain_topic(topic):
            break
        kinds |= head[7]
        store_ms = head[10]
        position += head[0]
    return position, kinds & _BITS, store_ms


def record_places(chunk: Buffer, position: int, last: int) -> tuple[bytes, int]:
    """Find where records start, by their sizes alone; nothing else of them is looked at.

    Args:
        chunk: a piece of the log.
        position: where in it the first record begins, bytes.
        last: the last place where one may begin, bytes.

    Returns:
        The places of whole records, as native int64 end to end, and the place behind the last of them:
        beyond `last`, or where no size of a whole record stands.
    """
    places = array("q")
    append, size_at, end = places.append, SIZE.unpack_from, len(chunk)
    last = min(last, end - SIZE.size)
    while position <= last:
        after = position + size_at(chunk, position)[0]
        if after < position + RECORD_SIZE_MIN or after > end:
            break
        append(position)
        position = after
    return places.tobytes(), position


def crcs_match(chunk: bytes, places: bytes, parts: bytes, said: bytes) -> bytes:
    """Whether pieces have the CRCs that their records say, a byte of 0 or 1 for each.

    Args:
        chunk: what the pieces are of.
        places: where each begins, native int64 end to end.
        parts: where each ends, the same.
        said: the CRCs without their highest bit, the same.

    Raises:
        ValueError: a piece does not lie in the chunk, or the lists differ in length.
    """
    rows = [memoryview(each).cast("q").tolist() for each in (places, parts, said)]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("as many places as ends and CRCs")
    view, found = memoryview(chunk), bytearray()
    for begin, end, crc in zip(*rows, strict=True):
        if not 0 <= begin <= end <= len(chunk):
            raise ValueError(f"bytes {begin} to {end} of {len(chunk)}")
        found.append(crc32(view[begin:end]) & CRC_MASK == crc)
    return bytes(found)


def copy_pieces(source: Buffer, places: bytes, parts: bytes, target: memoryview) -> None:
    """Copy pieces one behind the other, in the order in which they are named.

    Args:
        source: what they are pieces of.
        places: where each begins, native int64 end to end.
        parts: where each ends, the same.
        target: as many bytes as all pieces have, writable.

    Raises:
        ValueError: a piece does not lie in the source, all of them do not fill the target, or the lists
            differ in length.
    """
    starts, ends = (memoryview(each).cast("q").tolist() for each in (places, parts))
    if len(starts) != len(ends):
        raise ValueError("as many places as ends")
    view, room, filled = memoryview(source).cast("B"), target.cast("B"), 0
    for start, end in zip(starts, ends, strict=True):
        if not 0 <= start <= end <= len(view):
            raise ValueError(f"bytes {start} to {end} of {len(view)}")
        if end - start > len(room) - filled:
            raise ValueError(f"more than the {len(room)} bytes that there is room for")
        room[filled : filled + end - start] = view[start:end]
        filled += end - start
    if filled != len(room):
        raise ValueError(f"{filled} bytes for a room of {len(room)}")


def is_plain_topic(topic: bytes) -> bool:
    """Whether a topic is ASCII without a zero."""
    return topic.isascii() and b"\0" not in topic


def plain_parts(chunk: Buffer, position: int, offset: int) -> Iterator[Parts]:
    """(head, topic, body, properties) of records that are plain but for their topic, one by one."""
    for parts in parts_of(chunk, position, offset):
        head, _, body, block = parts
        if b"\0" in block or crc32(body) & CRC_MASK != head[2]:
            break
        yield parts


def parts_of(chunk: Buffer, position: int, offset: int) -> Iterator[Parts]:
    """(head, topic, body, properties) of records with the heads and sizes of plain ones; what parts hold is not looked at."""
    chunk = bytes(chunk)  # No copy where it is bytes.
    unpack = HEAD.unpack_from
    end = len(chunk)
    last = end - _HEAD_SIZE
    while position <= last:
        head = unpack(chunk, position)
        size, body_size = head[0], head[14]
        after = position + size
        if (
            head[1] != MAGIC_V1
            or head[7] & HOSTS_V6
            or after > end
            or not 0 <= body_size <= size - RECORD_SIZE_MIN
            or head[6] != offset + position
        ):
            break
        body_end = position + _HEAD_SIZE + body_size
        topic_end = body_end + 1 + chunk[body_end]
        block_start = topic_end + 2
        if (
            block_start > after
            or block_start + (chunk[topic_end] << 8 | chunk[topic_end + 1]) != after
        ):
            break
        body, block = chunk[position + _HEAD_SIZE : body_end], chunk[block_start:after]
        yield head, chunk[body_end + 1 : topic_end], body, block
        position = after
