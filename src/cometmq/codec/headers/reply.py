"""Header of a reply on its way to the requesting client, PUSH_REPLY_MESSAGE_TO_CLIENT 326.

Source: ReplyMessageRequestHeader of RocketMQ 5.3.3.
"""

from cometmq.model.frozen import dataclass
from cometmq.model.names import DEFAULT_TOPIC


@dataclass(frozen=True, slots=True)
class PushReply:
    """Header with which a broker pushes a reply to the client that sent the request; the body is the reply's body.

    Attributes:
        born_timestamp: When the reply was made, ms since 1970.
        born_host: Sender of the reply, "ip:port".
        store_host: The broker, "ip:port".
        store_timestamp: When the broker forwarded it, ms since 1970.
    """

    producer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    born_host: str
    store_host: str
    store_timestamp: int
    default_topic: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = 4
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
