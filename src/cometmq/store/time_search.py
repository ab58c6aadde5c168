"""Finds the store time of a message, and the message of a queue at a time.

The time is read from the record itself; messages of a queue are stored in the order of time, so
an offset is found by bisection. Boundaries follow ConsumeQueue.getOffsetInQueueByTime of RocketMQ
5.3.3, taken over the whole queue and not file by file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from cometmq.codec.queue_entry import BLANK_SIZE, QUEUE_ENTRY, place_of_entry
from cometmq.codec.record import STORE_TIME_AT, store_time
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.queue_files import QueueFiles

# Store time of a message of a queue, ms.
TimeAt = Callable[[ConsumeQueue, int], int]

_HEAD_SIZE = STORE_TIME_AT + 20  # The store time of a record with an IPv6 born host, too.


class TimeSearch:
    """Looks up store times. Each call may wait for the device. Any thread."""

    def __init__(self, log: CommitLog, files: QueueFiles) -> None:
        self._log = log
        self._files = files

    def store_time_at(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of a message in ms; -1 where there is none."""
        if not queue.min_offset <= offset < queue.max_offset:
            return -1
        try:
            entry = queue.tail_entry(offset) or self._files.read(queue, offset, 1)
        except FileNotFoundError:
            return -1
        if not entry:
            return -1
        offset, size, code = QUEUE_ENTRY.unpack(entry)
        # In a gap the time of the next message counts, so that times stay in order.
        place = place_of_entry(offset, size, code)
        has_message = size > 0 and (size != BLANK_SIZE or place > 0)
        return self.store_time_of(place) if has_message else -1

    def store_time_of(self, physical_offset: int) -> int:
        """Store time of the record at a physical offset; -1 where there is none."""
        head = self._log.read(physical_offset, _HEAD_SIZE)
        return -1 if head is None else store_time(head)


def offset_by_time(
    queue: ConsumeQueue, timestamp_ms: int, *, upper: bool, time_at: TimeAt
) -> int:
    """Queue offset of the first message stored at or after a time, or of the last until then.

    Args:
        queue: where.
        timestamp_ms: store time, ms.
        upper: the last message stored at or before it, instead of the first at or after.
        time_at: store time of a message of a queue, ms.

    Returns:
        The max offset when every message is older, the min offset when every one is newer;
        with `upper` the last message's offset when every one is older.
    """
    offsets = range(queue.min_offset, queue.max_offset)

    def time_of(offset: int) -> int:
        return time_at(queue, offset)

    if not upper:
        return queue.min_offset + bisect_left(offsets, timestamp_ms, key=time_of)
    newer = bisect_right(offsets, timestamp_ms, key=time_of)
    return queue.min_offset + max(newer - 1, 0)
