"""Headers of QUERY_MESSAGE 12 and VIEW_MESSAGE_BY_ID 33."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass

# MixAll.UNIQUE_MSG_QUERY_FLAG of RocketMQ 5.3.3: the key is a unique key.
UNIQUE_KEY_FLAG = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class QueryMessageRequest:
    """Header to query the messages of a topic by key (QueryMessageRequestHeader); times are store times in ms."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: str | None = field(default=None, metadata=wire(UNIQUE_KEY_FLAG))


@dataclass(frozen=True, slots=True)
class QueryMessageResponse:
    """Header of the answer to a query by key: store time (ms) and offset of the last indexed record, or zeros."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@dataclass(frozen=True, slots=True)
class ViewMessageRequest:
    """Header to query a message by the commitlog offset of its record, bytes; VIEW_MESSAGE_BY_ID 33."""

    offset: int
    topic: str | None = None
