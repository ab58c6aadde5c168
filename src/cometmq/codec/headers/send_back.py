"""Header of CONSUMER_SEND_MSG_BACK 36, with which a consumer returns a message that it did not consume."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SendBackRequest:
    """Header to request a retry or, with delay_level < 0, a dead letter of the message at commitlog `offset`."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
