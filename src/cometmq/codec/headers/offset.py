"""Headers about the offsets of a group (14, 15) and of a queue (29, 30, 31, 32)."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class QueueOfGroup:
    """The first fields of requests of a consumer group for a queue of a topic, such as pulls, pops and commits."""

    consumer_group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(QueueOfGroup):
    """Header to query the consumer offset of a group in a queue, QUERY_CONSUMER_OFFSET 14."""

    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True, slots=True)
class UpdateConsumerOffset(QueueOfGroup):
    """Header to commit the next offset that a group will consume, UPDATE_CONSUMER_OFFSET 15."""

    commit_offset: int


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """Header to query a queue's limits: GET_MAX_OFFSET 30, GET_MIN_OFFSET 31, GET_EARLIEST_MSG_STORETIME 32."""

    topic: str
    queue_id: int
    committed: bool | None = None


@dataclass(frozen=True, slots=True)
class SearchOffset:
    """Header to query the queue offset for a store time in ms, SEARCH_OFFSET_BY_TIMESTAMP 29."""

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetResponse:
    """Header of the answer to a request for a queue offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class TimestampResponse:
    """Header of the answer to a request for a store time, in ms since 1970; -1 without a message."""

    timestamp: int
