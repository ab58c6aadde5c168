"""Header of CONSUMER_SEND_MSG_BACK 36: a consumer wants a message again later."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SendBackRequest:
    """ConsumerSendMsgBackRequestHeader; there is no body, the broker reads the record itself."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
