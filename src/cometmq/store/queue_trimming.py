"""What of a queue goes after the log has lost its oldest files: entries first, then whole files.

Both looks run in a lent thread, for they read files; positions are changed by the owner of the store
in between (`cometmq.store.cleaner`). The newest file of a queue stays, even where all its messages are
gone: it says at which offset the queue goes on.

Next: cometmq.store.queue_files
"""

from bisect import bisect_left

from cometmq.codec.queue_entry import QUEUE_ENTRY, place_of_entry
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.queue_files import QueueFiles


def first_living(files: QueueFiles, queue: ConsumeQueue, log_start: int) -> int:
    """Queue offset of the first message whose record is in the log still. Any thread.

    Args:
        files: of the queues.
        queue: which.
        log_start: physical offset of the oldest log file.

    Returns:
        The max offset where none is.

    Raises:
        OSError: the disk failed.
    """
    offsets = range(queue.min_offset, queue.max_offset)

    def physical_offset_of(offset: int) -> int:
        return _physical_offset(files, queue, offset)

    # Most queues of a store with many have lost nothing: one look says so.
    if not offsets or physical_offset_of(offsets.start) >= log_start:
        return offsets.start
    return offsets.start + bisect_left(offsets, log_start, key=physical_offset_of)


def end_before(files: QueueFiles, queue: ConsumeQueue, log_end: int) -> int:
    """Queue offset behind the last message whose record lies before an offset of the log.

    Args:
        files: of the queues.
        queue: which.
        log_end: physical offset.

    Raises:
        OSError: the disk failed.
    """
    low, high = queue.min_offset, queue.max_offset
    # A truncation is short: most queues have nothing behind it, which one look says.
    if low == high or _physical_offset(files, queue, high - 1) < log_end:
        return high
    offsets = range(low, high)
    return low + bisect_left(
        offsets, log_end, key=lambda offset: _physical_offset(files, queue, offset)
    )


def _physical_offset(files: QueueFiles, queue: ConsumeQueue, offset: int) -> int:
    """Where an entry stands in the log; -1 where the entry's file is gone."""
    try:
        entry = queue.tail_entry(offset) or files.read(queue, offset, 1)
    except FileNotFoundError:
        return -1
    if not entry:
        return -1
    return place_of_entry(*QUEUE_ENTRY.unpack(entry))
