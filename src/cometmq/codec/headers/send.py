"""Headers of sends: SEND_MESSAGE 10 (long names), 310 and 320 (one letter each), and the answer.

Also those of a message that is sent back (36) or recalled (370), and of a reply on its way to the requesting client (326:
ReplyMessageRequestHeader of RocketMQ 5.3.3). The broker's fast path does not use these classes (broker/send/fast_path).
"""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass
from cometmq.model.names import DEFAULT_TOPIC


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Header of a send with long field names, SEND_MESSAGE (SendMessageRequestHeader)."""

    producer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    default_topic: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = 4
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: int | None = None


@dataclass(frozen=True, slots=True)
class SendRequestV2:
    """Header of a send with one-letter field names, SEND_MESSAGE_V2 310 and SEND_BATCH_MESSAGE 320."""

    producer_group: str = field(metadata=wire("a"))
    topic: str = field(metadata=wire("b"))
    queue_id: int = field(metadata=wire("e"))
    sys_flag: int = field(metadata=wire("f"))
    born_timestamp: int = field(metadata=wire("g"))
    flag: int = field(metadata=wire("h"))
    default_topic: str = field(default=DEFAULT_TOPIC, metadata=wire("c"))
    default_topic_queue_nums: int = field(default=4, metadata=wire("d"))
    properties: str | None = field(default=None, metadata=wire("i"))
    reconsume_times: int | None = field(default=None, metadata=wire("j"))
    unit_mode: bool | None = field(default=None, metadata=wire("k"))
    max_reconsume_times: int | None = field(default=None, metadata=wire("l"))
    batch: bool | None = field(default=None, metadata=wire("m"))
    broker_name: str | None = field(default=None, metadata=wire("n"))


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Header of the answer to a send that was not refused; the message ids of a batch are separated by commas."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = field(default=None, metadata=wire("MSG_REGION"))
    trace_on: str | None = field(default=None, metadata=wire("TRACE_ON"))


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


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Header to cancel a timed message (RecallMessageRequestHeader); msgId of the answer is the message's unique id."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


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
