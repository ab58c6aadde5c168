"""Header of RECALL_MESSAGE 370, with which a producer cancels a timed message."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A request to cancel a timed message (RecallMessageRequestHeader); the answer's only field is msgId."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
