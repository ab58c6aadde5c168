"""Headers of QUERY_MESSAGE 12 and VIEW_MESSAGE_BY_ID 33."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass

# MixAll.UNIQUE_MSG_QUERY_FLAG of RocketMQ 5.3.3: the key is a unique key.
UNIQUE_KEY_FLAG = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class QueryMessageRequest:
    """Query the messages of a topic by key (QueryMessageRequestHeader); times are store times in ms."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: str | None = field(default=None, metadata=wire(UNIQUE_KEY_FLAG))


@dataclass(frozen=True, slots=True)
class QueryMessageResponse:
    """The answer to a query by key: the end of the index, as store time in ms and physical offset in bytes."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@dataclass(frozen=True, slots=True)
class ViewMessageRequest:
    """Query a message by the commitlog offset of its record, bytes; VIEW_MESSAGE_BY_ID 33."""

    offset: int
    topic: str | None = None
