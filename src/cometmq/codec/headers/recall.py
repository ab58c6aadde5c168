"""Header of RECALL_MESSAGE 370, with which a producer cancels a timed message."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Header to cancel a timed message (RecallMessageRequestHeader); the only field of the answer is msgId."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
