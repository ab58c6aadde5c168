"""Headers of pop: POP_MESSAGE 200050, ACK_MESSAGE 200051 and related requests.

Source: PopMessageRequestHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader, NotificationRequestHeader
and PollingInfoRequestHeader of RocketMQ 5.3.3, and their answers.
"""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass

FROM_MIN, FROM_MAX = 0, 1  # ConsumeInitMode: start of a group without offsets.


@dataclass(frozen=True, slots=True)
class PopRequest:
    """A pop; times in ms, queue_id -1 for any queue, poll_time is the maximum wait."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: int
    poll_time: int
    born_time: int = 0
    init_mode: int = FROM_MAX
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class PopResponse:
    """The answer to a pop, from which handles are built; for the three texts see `codec.receipt`."""

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True)
class AckRequest:
    """The acknowledgement of a message by its queue offset in the topic that contains it."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeRequest:
    """A request to deliver a message again in `invisible_time` ms from now."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeResponse:
    """The answer to ChangeInvisibleTimeRequest, from which the new handle is built."""

    pop_time: int
    invisible_time: int
    revive_qid: int


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """A request that is answered when messages can be popped."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class PeekRequest:
    """A request for the messages that a pop would return; queue_id -1 for any queue."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int


@dataclass(frozen=True, slots=True)
class PollingInfoRequest:
    """A request for the number of pops that wait for a queue; queue_id -1 for any queue."""

    consumer_group: str
    topic: str
    queue_id: int
