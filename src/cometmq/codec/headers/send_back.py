"""Header of CONSUMER_SEND_MSG_BACK 36, with which a consumer requests redelivery of a message."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SendBackRequest:
    """Header to request redelivery of the message at a commitlog `offset`; no body, the broker reads the record."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
