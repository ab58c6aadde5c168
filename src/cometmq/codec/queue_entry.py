"""The 20 bytes that a consume queue holds for each message.

| physical offset 8 | size 4 | tags code 8 |

The tags code is Java's hash of the message's tag, sign-extended, or 0 without a tag; in the
delay topic it is the time in ms at which the message is due. Entry n of a queue lies at byte
n * 20. Source: ConsumeQueue of RocketMQ 5.3.3; docs/format/queue-entry.md.
"""

from collections.abc import Sequence
from itertools import chain
from struct import error, pack
from typing import NamedTuple

from cometmq.kernel import layouts
from cometmq.model.errors import CodecError
from cometmq.model.names import SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC

QUEUE_ENTRY = layouts.QUEUE_ENTRY.struct
QUEUE_ENTRY_SIZE = QUEUE_ENTRY.size  # 20

# A queue whose first file begins in its middle has this before its first real entry
# (ConsumeQueue.fillPreBlank): offset 0, size Integer.MAX_VALUE, tags code 0.
BLANK_SIZE = layouts.BLANK_SIZE
BLANK_ENTRY = QUEUE_ENTRY.pack(0, BLANK_SIZE, 0)
GAP_CODE = layouts.GAP_CODE
# So many lost messages in a row let a Java broker give the next one again; more than one answer
# of a pull (maxTransferCountOnMessageInMemory) nobody should get of it.
DOUBLED_MAX = 32
# No queue has so many messages, and the sum of some thousand such numbers fits into a checkpoint.
QUEUE_OFFSET_MAX = 1 << 48
# A Java broker reads their entries one by one, so it passes over nothing behind a blank one.
_READ_BY_ENTRY = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)


class QueueEntry(NamedTuple):
    """An entry of a queue: the place of a message in the log, and the hash of its tag.

    Attributes:
        physical_offset: of its record in the commitlog, bytes.
        size: of its record, bytes.
        tags_code: hash of its tag; in the delay topic its due time, ms.
    """

    physical_offset: int
    size: int
    tags_code: int


def encode_entry(physical_offset: int, size: int, tags_code: int) -> bytes:
    """One entry."""
    return QUEUE_ENTRY.pack(physical_offset, size, tags_code)


def gap_entries(count: int, topic: str, next_offset: int, next_size: int) -> bytes:
    """The entries of messages that are not in the log though a later one of their queue is.

    RocketMQ has nothing of the kind. They point to the queue's next record: it gives that one again,
    and passes over nothing; their tags code says to us what they are. Many in a row, and those of topics
    whose messages wait for a time, are blank ones (docs/format/queue-entry.md says why).

    Args:
        count: how many are missing in a row.
        topic: of the queue.
        next_offset: physical offset of the queue's next record.
        next_size: of the same, bytes.
    """
    if count > DOUBLED_MAX or topic in _READ_BY_ENTRY:
        # The tags code keeps them in order among the others: `place_of_entry`.
        return QUEUE_ENTRY.pack(0, BLANK_SIZE, next_offset) * count
    return QUEUE_ENTRY.pack(next_offset, next_size, GAP_CODE) * count


def place_of_entry(physical_offset: int, size: int, tags_code: int) -> int:
    """The place of an entry in the order of the log: its record's, or for a gap the next one's."""
    return tags_code if size == BLANK_SIZE and not physical_offset else physical_offset


def encode_entries(entries: Sequence[tuple[int, int, int]]) -> bytes:
    """Entries one behind the other; one call of `struct` for all of them."""
    return pack(">" + "qiq" * len(entries), *chain.from_iterable(entries))


def decode_entry(buffer: bytes | bytearray | memoryview, position: int = 0) -> QueueEntry:
    """The entry at a byte position.

    Raises:
        CodecError: fewer than 20 bytes stand there.
    """
    try:
        return QueueEntry._make(QUEUE_ENTRY.unpack_from(buffer, position))
    except error:
        raise CodecError(f"no whole queue entry at {position} of {len(buffer)} bytes") from None


def decode_entries(buffer: bytes | bytearray | memoryview) -> list[tuple[int, int, int]]:
    """Every entry of a buffer as (physical offset, size, tags code).

    Raises:
        CodecError: the buffer is no whole number of entries long.
    """
    if len(buffer) % QUEUE_ENTRY_SIZE:
        raise CodecError(f"{len(buffer)} bytes are no whole number of 20-byte queue entries")
    return list(QUEUE_ENTRY.iter_unpack(buffer))
