from cometmq.kernel.queue_ends import QueueEnd
from cometmq.kernel.rows import AnswerTerms, KeptEntries, LogReach, PulledAnswer

def pull_answer(
    terms: AnswerTerms,
    queue: QueueEnd,
    offset: int,
    opaque: int,
    kept: KeptEntries | None,
    entry_count: int,
    log: LogReach,
) -> PulledAnswer | None: ...
