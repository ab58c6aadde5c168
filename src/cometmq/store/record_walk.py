"""Walks over a piece of the log from record to record, checking each one.

The kernel checks simple records; all others go through `valid_record`, which applies the same rules.
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

# Number of topic strings cached per piece; more would only cost time.
_TOPICS_MAX = 100_000
_FLAG_BITS = 0xFFFFFFFF  # For a sysFlag, which is negative if its highest bit is set.


class CheckedRecords(NamedTuple):
    """The result of checking a piece of the log.

    Attributes:
        end: Position in the piece where its valid records end.
        kinds: Bitwise OR of their sysFlags, unsigned.
        store_ms: Store time of the last record, ms; -1 if there is none.
        why: Reason why they end there; SHORT if the next record is incomplete.
    """

    end: int
    kinds: int
    store_ms: int
    why: WalkEnd


def checked_records(chunk: Buffer, offset: int) -> CheckedRecords:
    """Check the records at the start of a piece of the log, like `valid_records`; return a summary, no records."""
    position, kinds, store_ms = 0, 0, -1
    while True:
        begin = position
        position, some, last_ms = check_records(chunk, position, offset)
        kinds |= some
        store_ms = last_ms if position > begin else store_ms
        # Failing to decode a record costs as much as checking a hundred.
        if position == len(chunk):
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
    """Return the valid records at the start of a piece of the log, the position where they end, and the reason.

    `offset` is the physical offset of the piece, at which a record is expected.
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
    """Return the reason why the walk over records ends at a position."""
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
