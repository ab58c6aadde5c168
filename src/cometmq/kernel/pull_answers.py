"""A pull that finds messages at a glance, from its offset to the frame that answers it.

What is asked has the same terms from pull to pull, and so it is looked at once (broker.pull.found_pulls); here the
entries are taken where they are at hand, in the queue's tail or in what its reader keeps, and the records from the
log's map. All of it, the answer's head and the records, is one piece. A fast path: compiled in `_pull_answers`, and without a compiler each pull is left to the slow path.
"""

from cometmq.kernel.queue_ends import QueueEnd
from cometmq.kernel.rows import AnswerTerms, KeptEntries, LogReach, PulledAnswer

ANSWERED_SIZE_MAX = (
    1 << 20
)  # A larger answer is written as others are, in its turn; bytes of records.


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
    return None
