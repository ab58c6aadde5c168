"""A pull that finds messages at a glance, from its offset to the frame that answers it.

What is asked has the same terms from pull to pull, and so it is looked at once (broker.pull.found_pulls); here the
entries are taken where they are at hand, in the queue's tail or in what its reader keeps, and the records from the
log's map. All of it, the answer's head and the records, is one piece. Compiled: `_pull_answers`.
"""

from cometmq.kernel.layouts import FRAME_HEAD, QUEUE_ENTRY
from cometmq.kernel.queue_ends import QueueEnd
from cometmq.kernel.reads import plain_read
from cometmq.kernel.rows import AnswerTerms, KeptEntries, LogReach, PlacedEntries, PulledAnswer

ANSWERED_SIZE_MAX = (
    1 << 20
)  # A larger answer is written as others are, in its turn; bytes of records.
_ENTRY = QUEUE_ENTRY.struct


def pull_answer(
    terms: AnswerTerms,
    queue: QueueEnd,
    offset: int,
    opaque: int,
    kept: KeptEntries | None,
    entry_count: int,
    log: LogReach,
) -> PulledAnswer | None:
    """Answer a pull.

    Args:
        terms: what it asks, but for its queue and offset; no number has more than 64 bits.
        queue: where it reads.
        offset: queue offset from which on.
        opaque: the request's number.
        kept: entries of the queue that stand before its tail.
        entry_count: most entries that are looked at.
        log: what of the log may be read.

    Returns:
        The frame, bytes of its messages, and how many these are. None where nothing was found, more than
        ANSWERED_SIZE_MAX was, the entries are not at hand, the log file of the first is not mapped or may have to be waited for, or
        one is not plain (`plain_read`).
    """
    pieces, count_max, size_max, match, near_broker, far_broker, group_flag, topic_flag = terms
    files, written, warm_start, warm_size, near_size, limits = log
    low, high = queue.min_offset, queue.max_offset
    entries = _at_hand(queue, offset, kept, entry_count) if low <= offset < high else None
    if entries is None or not files:
        return None
    content, start, stop = entries
    if not start + _ENTRY.size <= stop <= len(content):
        return None
    first = _ENTRY.unpack_from(content, start)[0]
    if first < max(warm_start, written - warm_size):
        return None
    log_start = files[0].start
    number = (first - log_start) // (files[0].end - log_start)
    file = files[number] if 0 <= number < len(files) else None
    if file is None or file.mapped is None:
        return None
    count_limit, size_limit = limits[written - first > near_size]
    count_max, size_max = min(count_max, count_limit), min(size_max, size_limit)
    read = plain_read(entries, count_max, size_max, log_start, match, file.mapped, file.start)
    if read is None or len(read[0]) > ANSWERED_SIZE_MAX:
        return None
    records, count, looked, end = read
    broker = far_broker if written - end > near_size else near_broker
    numbers = broker, offset + looked, low, high, group_flag, topic_flag, opaque
    return _head(pieces, numbers, len(records)) + records, len(records), count


def _at_hand(
    queue: QueueEnd, offset: int, kept: KeptEntries | None, count: int
) -> PlacedEntries | None:
    """The place of the entries from a queue offset on, so many or the last of the tail; None where they are not at hand."""
    size = QUEUE_ENTRY.size
    if offset >= queue.tail_start:
        start = (offset - queue.tail_start) * size
        return queue.tail, start, min(start + count * size, len(queue.tail))
    if kept is None or not kept[0] <= offset <= offset + count <= kept[1]:
        return None
    start = (offset - kept[0]) * size
    return kept[2], start, start + count * size


def _head(pieces: tuple[bytes, ...], numbers: tuple[int, ...], body_size: int) -> bytes:
    """The bytes in front of a frame's body, with a number between each two pieces of its header."""
    parts = [pieces[0]]
    for number, piece in zip(numbers, pieces[1:], strict=True):
        parts += (b"%d" % number, piece)
    header = b"".join(parts)
    return FRAME_HEAD.struct.pack(4 + len(header) + body_size, len(header)) + header
