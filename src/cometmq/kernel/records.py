"""Steps over simple records of the log, as recovery and verification need.

Decoding a record, adding up its sizes, comparing its offset and computing its CRC happen in one iteration. Compiled
twin: `_walk`.
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
SIZE = Struct(">i")  # The first field of a record.
HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
RECORD_FIELDS = 17  # Number of fields of codec.record.Record.
_BITS = (1 << 32) - 1  # Mask for a sysFlag, which is signed.

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
    """Decode consecutive simple records of a piece of the log, up to the first other record.

    A simple record is complete and valid, of version 1 and a known topic, with IPv4 hosts and no zero byte in its properties.

    Args:
        chunk: The piece.
        position: Position of the first record in the piece, bytes.
        offset: Physical offset of the piece, bytes.
        topics: Known topics by their encoding in records.
        record_type: Type of the results, `codec.record.Record`.
        records: The records are appended to this list.

    Returns:
        The position in the piece after the last of these records.
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
    """Check consecutive simple records of a piece of the log, up to the first other record, without decoding them.

    A simple record is one that `plain_parts` yields, with an ASCII topic without a zero byte. The first record starts
    `position` bytes after the start of the piece, whose physical offset is `offset`.

    Returns:
        The position in the piece after these records, the union of their sysFlags, and the store time of the last one, ms;
            -1 if there are none.
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
    """Find the starts of records by their sizes alone, without any other check.

    Args:
        chunk: A piece of the log.
        position: Position of the first record in the piece, bytes.
        last: Last position at which a record may start, bytes.

    Returns:
        The positions of complete records, as concatenated native int64, and the position after the last of them: beyond
            `last`, or where there is no size of a complete record.
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
    """Return a byte for each piece, 1 if the piece has the CRC of its record and 0 otherwise.

    Args:
        chunk: Bytes that contain the pieces.
        places: Start of each piece, concatenated native int64.
        parts: End of each piece, likewise.
        said: Expected CRCs without their highest bit, likewise.

    Raises:
        ValueError: A piece is not within the chunk, or the lists differ in length.
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
    """Copy pieces consecutively, in the given order.

    Args:
        source: Bytes that contain the pieces.
        places: Start of each piece, concatenated native int64.
        parts: End of each piece, likewise.
        target: Writable, with the total size of all pieces.

    Raises:
        ValueError: A piece is not within the source, the pieces do not fill the target, or the lists differ in length.
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
    """Return whether a topic is ASCII without a zero byte."""
    return topic.isascii() and b"\0" not in topic


def plain_parts(chunk: Buffer, position: int, offset: int) -> Iterator[Parts]:
    """Yield the records of `parts_of`, up to the first with a wrong body CRC or a zero byte in its properties."""
    for parts in parts_of(chunk, position, offset):
        head, _, body, block = parts
        if b"\0" in block or crc32(body) & CRC_MASK != head[2]:
            break
        yield parts


def parts_of(chunk: Buffer, position: int, offset: int) -> Iterator[Parts]:
    """Yield (head, topic, body, properties) of records of version 1 with IPv4 hosts, up to the first other record.

    Sizes and physical offsets are checked, the contents of body and properties are not.
    """
    chunk = bytes(chunk)  # Copies only if it is not bytes.
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
