"""Fast path of pulls that find messages in memory: from the offset to the frame of the answer.

The terms of repeated pulls are the same and are checked once, until tables change (broker.pull.found_pulls). The entries
come from the queue's tail or its reader's cache, the records from the mapped log; the answer is a single block of bytes.
Compiled twin: `_pull_answers`; this version leaves each pull to the slow path.
"""

from cometmq.kernel.queue_ends import QueueEnd
from cometmq.kernel.rows import AnswerTerms, KeptEntries, LogReach, PulledAnswer

ANSWERED_SIZE_MAX = (
    1 << 20
)  # Bytes of records; larger answers are written in their turn, like others.


def pull_answer(
    terms: AnswerTerms,
    queue: QueueEnd,
    offset: int,
    opaque: int,
    kept: KeptEntries | None,
    entry_count: int,
    log: LogReach,
) -> PulledAnswer | None:
    """Answer a pull from memory; None if the slow path must answer it, as always without a compiler.

    Args:
        terms: Terms of the pull except queue and offset; no number has more than 64 bits.
        queue: Queue to read.
        offset: First queue offset.
        opaque: Number of the request.
        kept: Cached entries of the queue before its tail.
        entry_count: Maximum number of entries to check.
        log: Readable parts of the log.

    Returns:
        The frame, the size of its messages in bytes and their number; both are 0 if none matched and the terms have an
            answer for that; and the bytes of entries, and of properties times rows of their filter, that were checked.
            None if the answer exceeds ANSWERED_SIZE_MAX, the entries are not in memory, the file of the first record
            is not mapped, reading may have to wait for the disk, an entry is not simple (`plain_read`), or a property
            filter leaves a message undecided.
    """
    return None
