"""Header of RECALL_MESSAGE 370: a producer takes a timed message back."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """RecallMessageRequestHeader; the answer's only field is msgId."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
