"""Headers of pop: POP_MESSAGE 200050, ACK_MESSAGE 200051 and related requests.

Source: PopMessageRequestHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader, NotificationRequestHeader
and PollingInfoRequestHeader of RocketMQ 5.3.3, and their answers.
"""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.codec.headers.offset import QueueOfGroup
from cometmq.model.frozen import dataclass

FROM_MIN, FROM_MAX = 0, 1  # ConsumeInitMode: start of a group without offsets.


@dataclass(frozen=True, slots=True)
class PopRequest(QueueOfGroup):
    """Header to pop messages, POP_MESSAGE; times in ms, queue_id -1 for any queue, poll_time: how long it may wait."""

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
class ChangeInvisibleTimeResponse:
    """Header of the answer to CHANGE_MESSAGE_INVISIBLETIME, from which the message's new receipt handle is built."""

    pop_time: int
    invisible_time: int
    revive_qid: int


@dataclass(frozen=True, slots=True)
class ChangedTimeResponse(ChangeInvisibleTimeResponse):
    """A `ChangeInvisibleTimeResponse` with `keeps_handle`, true if the request had it and the broker knows it."""

    keeps_handle: bool | None = field(default=None, metadata=wire("keepHandle"))


@dataclass(frozen=True, slots=True)
class PopResponse(ChangeInvisibleTimeResponse):
    """Header of the answer to a pop, from which receipt handles are built (see `codec.receipt`); times in ms."""

    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True)
class AckRequest(QueueOfGroup):
    """Header to acknowledge a popped message, ACK_MESSAGE, by its queue offset in the topic that contains it."""

    extra_info: str
    offset: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeRequest(QueueOfGroup):
    """Header to hide a popped message for another `invisible_time` ms from now on, CHANGE_MESSAGE_INVISIBLETIME.

    With `keeps_handle`, which RocketMQ does not know, all messages that were popped together with it stay hidden, under the
    handles that they have, or with 0 ms are delivered again; an `offset` below 0 stands for any of them. With an offset
    that message must be hidden, and the time is never made shorter. Without `extra_info` nothing is changed: the answer
    says that the broker knows `keeps_handle`.
    """

    extra_info: str
    offset: int
    invisible_time: int
    broker_name: str | None = field(default=None, metadata=wire("bname"))
    keeps_handle: bool | None = field(default=None, metadata=wire("keepHandle"))


@dataclass(frozen=True, slots=True)
class NotificationRequest(QueueOfGroup):
    """Header to ask if a group has messages to pop, waiting for them for at most `poll_time`, NOTIFICATION; times in ms."""

    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class PeekRequest(QueueOfGroup):
    """Header to read messages from a group's offsets on without popping them, PEEK_MESSAGE; queue_id -1: all queues."""

    max_msg_nums: int


@dataclass(frozen=True, slots=True)
class PollingInfoRequest(QueueOfGroup):
    """Header to count a group's requests that wait for just this queue, POLLING_INFO; queue_id -1: for any queue."""
