"""Headers of PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.codec.headers.offset import QueueOfGroup
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class PullRequest(QueueOfGroup):
    """Header to pull messages of a queue from an offset on; sys_flag has the bits `model.flags.PULL_*`."""

    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    sub_version: int = 0
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    broker_name: str | None = field(default=None, metadata=wire("bname"))


@dataclass(frozen=True, slots=True)
class PullResponse:
    """Header of the answer to a pull, usually also if it found no messages (PullMessageResponseHeader)."""

    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggest_which_broker_id: int = 0
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None
    offset_delta: int | None = None
