"""Steps over a piece of the log from record to record, each of them checked.

What recovery and verification spend their time on: a record is taken apart, its sizes are added
up, its place compared, its CRC computed, all in one turn of a loop. What is not plain in it goes
through `valid_record`, which means the same.

Next: cometmq.store.stored_record
"""

from zlib import crc32

from cometmq.codec.record import BLANK_TAIL_SIZE, HOST_BITS, RECORD_HEAD, Record
from cometmq.kernel import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN, WalkEnd, why_no_record
from cometmq.store.stored_record import valid_record

_CRC_MASK = 0x7FFFFFFF
_HEAD_SIZE = RECORD_HEAD.size  # 88
_new = tuple.__new__  # Record(*...) takes twice as long.


def valid_records(chunk: bytes, offset: int) -> tuple[list[Record], int, WalkEnd]:
    """The valid records that a piece of the log begins with.

    Args:
        chunk: the piece; a record begins where it begins.
        offset: its physical offset.

    Returns:
        The records, the place in the piece where they end, and why they end there; SHORT where the
        next one is not all there.
    """
    records: list[Record] = []
    append, unpack, new, record_type = records.append, RECORD_HEAD.unpack_from, _new, Record
    topic, topic_bytes = "", b""
    position, end = 0, len(chunk)
    last = end - _HEAD_SIZE
    while position <= last:
        head = unpack(chunk, position)
        size, body_size = head[0], head[14]
        after = position + size
        # Most records are V1, with IPv4 hosts, of the topic before (see codec.record).
        if (
            head[1] == MAGIC_V1
            and not head[7] & HOST_BITS
            and after <= end
            and 0 <= body_size <= size - RECORD_SIZE_MIN
            and head[6] == offset + position
        ):
            body_end = position + _HEAD_SIZE + body_size
            topic_end = body_end + 1 + chunk[body_end]
            block_start = topic_end + 2
            if (
                chunk[body_end + 1 : topic_end] == topic_bytes
                and block_start <= after
                and block_start + (chunk[topic_end] << 8 | chunk[topic_end + 1]) == after
            ):
                body, block = chunk[position + _HEAD_SIZE : body_end], chunk[block_start:after]
                if crc32(body) & _CRC_MASK == head[2] and b"\0" not in block:
                    append(new(record_type, head[:14] + (body, topic, block)))  # noqa: RUF005
                    position = after
                    continue
        record = valid_record(chunk, position, offset + position)
        if record is None:
            break
        append(record)
        topic, topic_bytes = record.topic, record.topic.encode()
        position += record.store_size
    return records, position, _why_not_further(chunk, position)


def _why_not_further(chunk: bytes, position: int) -> WalkEnd:
    """What stands where the records end."""
    left = len(chunk) - position
    if not left:
        return WalkEnd.WHOLE
    if left < BLANK_TAIL_SIZE:
        return WalkEnd.SHORT
    size = int.from_bytes(chunk[position : position + 4], signed=True)
    magic = int.from_bytes(chunk[position + 4 : position + 8])
    if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN:
        return why_no_record(size, magic)
    return WalkEnd.SHORT if size > left else WalkEnd.UNKNOWN
