"""The 20 bytes that a consume queue holds for each message.

| physical offset 8 | size 4 | tags code 8 |

The tags code is usually Java's hash of the message's tag, sign-extended, or 0 without a tag. In the delay topic it is
the time in ms when the message is due. Entry n of a queue is at byte n * 20 of its files together. Source:
ConsumeQueue of RocketMQ 5.3.3; docs/format/queue-entry.md.
"""

from struct import error
from typing import NamedTuple

from cometmq.kernel import layouts
from cometmq.model.errors import CodecError
from cometmq.model.names import SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC

QUEUE_ENTRY = layouts.QUEUE_ENTRY.struct
QUEUE_ENTRY_SIZE = QUEUE_ENTRY.size  # 20

# Filler before the first real entry of a queue whose first file begins in its middle (ConsumeQueue.fillPreBlank):
# offset 0, size Integer.MAX_VALUE, tags code 0.
BLANK_SIZE = layouts.BLANK_SIZE
BLANK_ENTRY = QUEUE_ENTRY.pack(0, BLANK_SIZE, 0)
GAP_CODE = layouts.GAP_CODE
# Maximum number of consecutive lost messages for which a Java broker delivers the next one again. More duplicates than
# one pull answer holds (maxTransferCountOnMessageInMemory) would be too many.
DOUBLED_MAX = 32
# Larger than any real queue; the sum of some thousand such numbers still fits into a checkpoint.
QUEUE_OFFSET_MAX = 1 << 48
# A Java broker reads these topics entry by entry, so it skips nothing after a blank entry.
_READ_BY_ENTRY = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)


class QueueEntry(NamedTuple):
    """An entry of a queue: usually the location of a message in the commitlog, and the hash of its tag.

    Attributes:
        physical_offset: Commitlog offset of the record, bytes; in gap entries of the next one, in blank entries 0.
        size: Size of that record in bytes; in blank entries 2147483647.
        tags_code: Usually the hash of the tag; in the delay topic the due time in ms, in blank and gap entries a mark.
    """

    physical_offset: int
    size: int
    tags_code: int


def encode_entry(physical_offset: int, size: int, tags_code: int) -> bytes:
    """Encode one entry of a consume queue as 20 bytes."""
    return QUEUE_ENTRY.pack(physical_offset, size, tags_code)


def gap_entries(count: int, topic: str, next_offset: int, next_size: int) -> bytes:
    """Encode consume-queue entries for `count` consecutive messages that the log lacks although it has later ones.

    RocketMQ has no such entries. The entries point to the next record of the queue (`next_offset`, the physical offset,
    and `next_size`, both in bytes), so that RocketMQ delivers that one again and skips nothing; CometMQ recognizes
    them by the tags code. Gaps of more than 32 messages, and those in topics of delayed messages, get blank entries
    instead (docs/format/queue-entry.md explains why).
    """
    if count > DOUBLED_MAX or topic in _READ_BY_ENTRY:
        # The tags code preserves the log order (see `place_of_entry`).
        return QUEUE_ENTRY.pack(0, BLANK_SIZE, next_offset) * count
    return QUEUE_ENTRY.pack(next_offset, next_size, GAP_CODE) * count


def place_of_entry(physical_offset: int, size: int, tags_code: int) -> int:
    """Return the physical offset that orders a consume-queue entry by the log.

    Usually, that is the offset of the record to which the entry points; for a blank entry, the tags code: in a gap (see
    `gap_entries`) the offset of the next record, before the first real entry 0.
    """
    return tags_code if size == BLANK_SIZE and not physical_offset else physical_offset


def decode_entry(buffer: bytes | bytearray | memoryview, position: int = 0) -> QueueEntry:
    """Decode the consume-queue entry at a byte position; raises CodecError if fewer than 20 bytes follow."""
    try:
        return QueueEntry._make(QUEUE_ENTRY.unpack_from(buffer, position))
    except error:
        raise CodecError(f"no whole queue entry at byte {position} of {len(buffer)}") from None
