"""Finds the newest messages with a key, returned oldest first, or the message at a physical offset.

Follows QueryMessageProcessor of RocketMQ 5.3.3. The result fits a frame; the oldest messages are left out if
needed (Java's client would drop a larger answer).
"""

from collections.abc import Callable

from cometmq.broker.inner.redelivery import named_record, topic_of
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from cometmq.codec.record import decode_record
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Steps, at_once_or_elsewhere
from cometmq.store.message_search import FoundMessages
from cometmq.store.message_store import MessageStore

# How far the clocks of producer and broker may differ. A search for a unique id (mqadmin, dashboards) starts 1 s before
# the producer's time in the id, so RocketMQ finds nothing if the producer's clock is ahead.
CLOCKS_APART_MS = 10 * 60 * 1000


class MessageLookup:
    """The lookup of messages by key or physical offset."""

    def __init__(self, store: MessageStore, *, unique_count: int) -> None:
        """`unique_count` is the largest number of messages for a query by unique key, whatever it requests."""
        self._store = store
        self._unique_count = unique_count

    def by_key(
        self, request: QueryMessageRequest, may: Callable[[str], bool]
    ) -> Steps[FoundMessages]:
        """Return a topic's newest messages with a key, oldest first; only those whose topics `may` permits to show.

        There are at most as many as the request or, for a unique key, this broker's setting allows. They were stored in
        the request's period; for a unique key it is longer by CLOCKS_APART_MS at both ends. Messages of other keys and
        topics with the same hash may be among them. Raises RequestError (QUERY_NOT_FOUND) if there is none.
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
        found = yield from at_once_or_elsewhere(search.run)
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
        """Return the record that begins at a physical offset, if `may` permits to show messages of its topic.

        Raises:
            RequestError: SYSTEM_ERROR: There is none, `may` does not permit it, or it is not dispatched yet and could
                be lost by a power failure.
        """
        named = yield from named_record(self._store, request.offset)
        # Without the right to see it, a client must not learn that it exists.
        if named is None or not may(topic_of(named[1])):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {request.offset}",
            )
        return named[0]
