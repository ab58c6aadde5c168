"""Entries of the less common queue files: batch queues and extended units.

A batch queue (`batchconsumequeue`) has 46 bytes for each record of a batch topic:

| physical offset 8 | size 4 | tags code 8 | store time 8 | first offset 8 | count 2 | compacted 4 | 0 4 |

The record holds `count` messages, numbered from the first offset. The compacted offset is -1 if there is no compaction.

An extended unit (`consumequeue_ext`) extends an entry of an ordinary queue, whose tags code is then its address: its
position in these files plus Long.MIN_VALUE.

| unit size 2 | tags code 8 | store time 8 | bit map size 2 | bit map |

Sources: BatchConsumeQueue, ConsumeQueueExt of RocketMQ 5.3.3; docs/format/other-queues.md.
"""

from struct import Struct
from typing import NamedTuple

from cometmq.codec.queue_entry import QUEUE_OFFSET_MAX
from cometmq.model.errors import CodecError

BATCH_ENTRY = Struct(">qiqqqhii")
BATCH_ENTRY_SIZE = BATCH_ENTRY.size  # 46
NOT_COMPACTED = -1

EXTENDED_UNIT = Struct(">hqqh")
EXTENDED_UNIT_SIZE_MIN = EXTENDED_UNIT.size  # 20

_ADDRESS_MAX = -(1 << 31) - 1  # ConsumeQueueExt.MAX_ADDR
_LONG_MIN, _SHORT_MAX = -(1 << 63), (1 << 15) - 1


class BatchEntry(NamedTuple):
    """A queue entry for one record of a batch topic.

    Attributes:
        physical_offset: Commitlog offset of the record, bytes.
        size: Size of the record in bytes; 0 if the entry is unused.
        tags_code: Hash of the tag.
        store_timestamp: Store time of the record, ms.
        first_offset: Queue offset of the first message in the record.
        message_count: Number of messages in the record.
        compacted_offset: -1 if the topic is not compacted.
    """

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    first_offset: int
    message_count: int
    compacted_offset: int = NOT_COMPACTED
    reserved: int = 0

    @property
    def is_written(self) -> bool:
        """Whether the entry is used (BatchConsumeQueue.recover) and its numbers are plausible."""
        is_counted = self.size > 0 and 0 < self.message_count <= _SHORT_MAX
        return (
            is_counted
            and self.physical_offset >= 0
            and 0 <= self.first_offset < QUEUE_OFFSET_MAX
        )


class ExtendedUnit(NamedTuple):
    """A unit of an extended queue file (`consumequeue_ext`), with the data of one queue entry.

    Attributes:
        tags_code: Hash of the message's tag.
        store_timestamp: Store time of the record, ms.
        bit_map: Bloom filter of the consumers whose filters accept the message; may be empty.
    """

    tags_code: int
    store_timestamp: int
    bit_map: bytes


def encode_batch_entry(entry: BatchEntry) -> bytes:
    """Encode an entry of a batch queue to 46 bytes."""
    return BATCH_ENTRY.pack(*entry)


def decode_batch_entry(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchEntry:
    """Decode the batch-queue entry at a byte position; raises CodecError if fewer than 46 bytes follow."""
    if position + BATCH_ENTRY_SIZE > len(buffer):
        raise CodecError(f"no whole batch entry at byte {position} of {len(buffer)}")
    return BatchEntry._make(BATCH_ENTRY.unpack_from(buffer, position))


def is_extended_address(tags_code: int) -> bool:
    """Return whether a queue entry's tags code is the address of an extended unit."""
    return tags_code <= _ADDRESS_MAX


def extended_place(tags_code: int) -> int:
    """Convert the address of an extended unit to its byte position in the queue's `consumequeue_ext` files."""
    return tags_code - _LONG_MIN


def decode_extended_unit(buffer: bytes | bytearray | memoryview) -> ExtendedUnit:
    """Decode the extended unit at the start of a buffer; raises CodecError if it is invalid or incomplete."""
    if len(buffer) < EXTENDED_UNIT_SIZE_MIN:
        raise CodecError(f"an extended unit has {len(buffer)} bytes; it must have at least 20")
    size, tags_code, store_timestamp, bit_map_size = EXTENDED_UNIT.unpack_from(buffer)
    if size != EXTENDED_UNIT_SIZE_MIN + max(bit_map_size, 0) or size > len(buffer):
        raise CodecError(
            f"an extended unit has the invalid sizes {size} and, for its bit map, {bit_map_size}"
        )
    return ExtendedUnit(tags_code, store_timestamp, bytes(buffer[EXTENDED_UNIT_SIZE_MIN:size]))
