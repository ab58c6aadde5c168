"""Header of RECALL_MESSAGE 370, with which a client cancels a timed message."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Header to cancel a timed message (RecallMessageRequestHeader); msgId of the answer is the message's unique id."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
