"""Finds the store time of a message, and the message of a queue at a time.

Times are read from the records. Messages of a queue are normally in the order of time, so a bisection finds the offset
for a time. Boundaries follow ConsumeQueue.getOffsetInQueueByTime of RocketMQ 5.3.3, but for the whole queue at once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from cometmq.codec.queue_entry import (
    BLANK_SIZE,
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    place_of_entry,
)
from cometmq.codec.record import STORE_TIME_AT, store_time
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.queue_files import QueueFiles

# Queue offset -> store time in ms, or -1.
TimeOf = Callable[[int], int]

_HEAD_SIZE = STORE_TIME_AT + 20  # Includes the store time of a record with an IPv6 born host.


class TimeSearch:
    """Looks up store times in the log.

    Calls with `may_wait` may block on the device, and any thread may make them. Other calls raise BlockingIOError if
    they would block, and only the thread that owns the store may make them.
    """

    def __init__(self, log: CommitLog, files: QueueFiles) -> None:
        self._log = log
        self._files = files

    def store_time_at(self, queue: ConsumeQueue, offset: int, *, may_wait: bool) -> int:
        """Return the store time of a message in ms, of the next one for an offset in a gap; -1 if none is found.

        Raises BlockingIOError if `may_wait` is False and the device must be read.
        """
        if not queue.min_offset <= offset < queue.max_offset:
            return -1
        try:
            entry = queue.tail_entry(offset) or self._entry(queue, offset, may_wait=may_wait)
        except FileNotFoundError:
            return -1
        if not entry:
            return -1
        offset, size, code = QUEUE_ENTRY.unpack(entry)
        # A gap has the time of the next message, so that times stay in order.
        place = place_of_entry(offset, size, code)
        has_message = size > 0 and (size != BLANK_SIZE or place > 0)
        if not has_message:
            return -1
        head = self._log.read(place, _HEAD_SIZE, may_wait=may_wait)
        return -1 if head is None else store_time(head)

    def time_at_once(self, queue: ConsumeQueue) -> TimeOf:
        """Return a faster form of `store_time_at` without `may_wait` for one queue, as a function of the offset.

        It uses the queue's tail and the mapped log as they are now, so the caller must use it at once, before a
        truncation, a cleanup or a write changes them. The offset must be that of an existing entry.
        """
        tail, tail_start, read_entry = queue.tail, queue.tail_start, QUEUE_ENTRY.unpack_from
        log, read_nowait = self._log, self._files.read_nowait
        first, end, file_size = log.warm_from, log.positions.committed, log.chain.file_size
        files = log.chain.files
        log_start = files[0].start if files else 0

        def time_of(offset: int) -> int:
            entries: Buffer
            if offset >= tail_start:
                entries, at = tail, (offset - tail_start) * QUEUE_ENTRY_SIZE
            else:
                try:
                    found = read_nowait(queue, offset, 1)
                except FileNotFoundError:
                    return -1
                if found is None:
                    raise BlockingIOError
                entries, at, _ = found
            place, size, _ = read_entry(entries, at)
            if first <= place < end - _HEAD_SIZE and 0 < size < BLANK_SIZE:
                file = files[(place - log_start) // file_size]
                view, place = file.mapped, place - file.start
                if view is not None and place <= file_size - _HEAD_SIZE:
                    return store_time(view[place : place + _HEAD_SIZE])
            return self.store_time_at(queue, offset, may_wait=False)

        return time_of

    def _entry(self, queue: ConsumeQueue, offset: int, *, may_wait: bool) -> bytes:
        if may_wait:
            return self._files.read(queue, offset, 1)
        found = self._files.read_nowait(queue, offset, 1)
        if found is None:
            raise BlockingIOError
        entries, start, stop = found
        return bytes(entries[start:stop])


def offset_by_time(
    queue: ConsumeQueue, timestamp_ms: int, *, upper: bool, time_of: TimeOf
) -> int:
    """Return the queue offset of the first message (or gap before it) stored at or after a time; else the max offset.

    With `upper`, it is the last message stored at or before the time; the min offset if all are newer.

    Args:
        queue: Queue to search.
        timestamp_ms: Store time, ms.
        upper: Whether to find the last message until the time.
        time_of: Returns the store time of the queue's message at an offset, ms.
    """
    offsets = range(queue.min_offset, queue.max_offset)

    if not upper:
        return queue.min_offset + bisect_left(offsets, timestamp_ms, key=time_of)
    newer = bisect_right(offsets, timestamp_ms, key=time_of)
    return queue.min_offset + max(newer - 1, 0)
