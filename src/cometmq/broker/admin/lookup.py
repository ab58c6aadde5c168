"""Single messages: by their keys and by their place in the log.

Follows QueryMessageProcessor of RocketMQ 5.3.3. What is found has at most a frame's bytes; where
messages are left out, they are the oldest (Java's client would drop such an answer).
"""

from collections.abc import Callable

from cometmq.broker.inner.redelivery import topic_of
from cometmq.broker.loop.steps import Steps, elsewhere
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from cometmq.codec.record import decode_record
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.message_search import FoundMessages
from cometmq.store.message_store import MessageStore

# How far the clocks of a producer and a broker may be apart: who looks for a unique id (mqadmin, dashboards) begins
# 1 s before the time in the id, which is the producer's, and RocketMQ finds nothing where that clock is ahead.
CLOCKS_APART_MS = 10 * 60 * 1000


class MessageLookup:
    """Finds single messages."""

    def __init__(self, store: MessageStore, *, unique_count: int) -> None:
        """`unique_count` is how many messages a query by unique key gives, whatever it asks for."""
        self._store = store
        self._unique_count = unique_count

    def by_key(
        self, request: QueryMessageRequest, may: Callable[[str], bool]
    ) -> Steps[FoundMessages]:
        """Messages of a topic under a key, the newest of them.

        Args:
            request: which ones.
            may: whether messages of a topic may be shown; another topic's key may have the same hash.

        Raises:
            RequestError: QUERY_NOT_FOUND: there is none.
        """
        is_unique = request.unique_key_query == "true"
        slack_ms = CLOCKS_APART_MS if is_unique else 0
        search = self._store.search(
            request.topic,
            request.key,
            max_count=self._unique_count if is_unique else request.max_num,
            begin_ms=request.begin_timestamp - slack_ms,
            end_ms=request.end_timestamp + slack_ms,
        )
        found = yield from elsewhere(search.run)
        shown = [each for each in found.records if may(topic_of(decode_record(each)))]
        found = found._replace(records=shown)
        if not found.records:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
                fields=encode_fields(QueryMessageResponse(0, 0)),
            )
        return found

    def by_offset(
        self, request: ViewMessageRequest, may: Callable[[str], bool]
    ) -> Steps[bytes]:
        """The record that begins at a place of the log.

        Args:
            request: where.
            may: whether messages of a topic may be shown.

        Raises:
            RequestError: SYSTEM_ERROR: none does, or it is not visible yet: a power cut may take it back.
        """
        offset, record = request.offset, None
        if self._store.min_offset <= offset < self._store.dispatched_offset:
            record = yield from elsewhere(lambda: self._store.read_record(offset))
        # Whoever may not see it does not learn that it is there.
        if record is None or not may(topic_of(decode_record(record))):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}"
            )
        return record
