"""Steps over a piece of the log from record to record, each of them checked.

Plain records are the kernel's; what is not plain goes through `valid_record`, which means the same.
"""

from typing import NamedTuple

from cometmq.codec.record import BLANK_TAIL_SIZE, Record
from cometmq.kernel import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    WalkEnd,
    check_records,
    plain_records,
    why_no_record,
)
from cometmq.store.disk import Buffer
from cometmq.store.stored_record import valid_record

# Topics whose text is remembered within a piece; more of them only cost time.
_TOPICS_MAX = 100_000
_FLAG_BITS = 0xFFFFFFFF  # Of a sysFlag, which is negative where its highest bit is set.


class CheckedRecords(NamedTuple):
    """The result of a check of a piece of the log.

    Attributes:
        end: the place in the piece where its valid records end.
        kinds: all bits of their sysFlags, as a number without a sign.
        store_ms: store time of the last, ms; -1: there is none.
        why: why they end there; SHORT where the next one is not all there.
    """

    end: int
    kinds: int
    store_ms: int
    why: WalkEnd


def checked_records(chunk: Buffer, offset: int) -> CheckedRecords:
    """Check the records that a piece of the log begins with, as `valid_records`; nothing is made of them."""
    position, kinds, store_ms = 0, 0, -1
    while True:
        begin = position
        position, some, last_ms = check_records(chunk, position, offset)
        kinds |= some
        store_ms = last_ms if position > begin else store_ms
        if position == len(chunk):  # What no record is costs as much as a hundred of them.
            break
        record = valid_record(chunk, position, offset + position)
        if record is None:
            break
        kinds |= record.sys_flag
        store_ms = record.store_timestamp
        position += record.store_size
    return CheckedRecords(
        position, kinds & _FLAG_BITS, store_ms, why_not_further(chunk, position)
    )


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
    topics: dict[bytes, str] = {}
    position = 0
    while True:
        position = plain_records(chunk, position, offset, topics, Record, records)
        record = valid_record(chunk, position, offset + position)
        if record is None:
            break
        records.append(record)
        if len(topics) < _TOPICS_MAX:
            topics[record.topic.encode()] = record.topic
        position += record.store_size
    return records, position, why_not_further(chunk, position)


def why_not_further(chunk: Buffer, position: int) -> WalkEnd:
    """The reason why the walk over records ends at a position."""
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
