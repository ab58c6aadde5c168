"""Headers of pop: POP_MESSAGE 200050, ACK_MESSAGE 200051 and what belongs to them.

Source: PopMessageRequestHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader,
NotificationRequestHeader and PollingInfoRequestHeader of RocketMQ 5.3.3, and their answers.
"""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass

FROM_MIN, FROM_MAX = 0, 1  # ConsumeInitMode: where a group without an offset begins.


@dataclass(frozen=True, slots=True)
class PopRequest:
    """A pop; times in ms, queue_id -1 for any queue, poll_time how long it may wait."""

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
    """The fields of which handles are made; the three texts: `codec.receipt`."""

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True)
class AckRequest:
    """An acknowledgement of one message by its queue offset; topic is the one it lay in."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeRequest:
    """A message is to come again so many ms from now."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeResponse:
    """The fields of which the new handle is made."""

    pop_time: int
    invisible_time: int
    revive_qid: int


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """A question, answered when there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class PeekRequest:
    """Ask what a pop would give; queue_id -1: of any queue."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int


@dataclass(frozen=True, slots=True)
class PollingInfoRequest:
    """Ask how many pops wait for a queue (-1: for any)."""

    consumer_group: str
    topic: str
    queue_id: int
