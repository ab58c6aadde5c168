"""Single messages: by their keys (12) and by their place in the log (33).

Follows QueryMessageProcessor of RocketMQ 5.3.3. An answer has at most a frame's bytes; where
messages are left out, they are the oldest (Java's client would drop such an answer).

Next: cometmq.store.message_search
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Executor

from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.store.message_store import MessageStore


class QueryHandler:
    """Handles requests for single messages."""

    def __init__(self, *, store: MessageStore, pool: Executor, unique_count: int) -> None:
        """`pool` reads, since any message may have to be waited for.

        `unique_count` is how many messages a query by unique key gives, whatever it asks for.
        """
        self._store = store
        self._pool = pool
        self._unique_count = unique_count
        self.answers: Answers = {
            RequestCode.QUERY_MESSAGE: self.query,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view,
        }

    def query(self, command: Command, _peer: Peer) -> Awaitable[Answer]:
        """QUERY_MESSAGE 12."""
        return self._query(decode_fields(QueryMessageRequest, command.fields))

    async def _query(self, request: QueryMessageRequest) -> Answer:
        is_unique = request.unique_key_query == "true"
        search = self._store.search(
            request.topic,
            request.key,
            max_count=self._unique_count if is_unique else request.max_num,
            begin_ms=request.begin_timestamp,
            end_ms=request.end_timestamp,
        )
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._pool, search.run)
        if not found.records:
            header = encode_fields(QueryMessageResponse(0, 0))
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
                fields=header,
            )
        header = encode_fields(QueryMessageResponse(found.last_ms, found.last_offset))
        return Answer(fields=header, body=list(found.records))

    def view(self, command: Command, _peer: Peer) -> Awaitable[Answer]:
        """VIEW_MESSAGE_BY_ID 33."""
        return self._view(decode_fields(ViewMessageRequest, command.fields).offset)

    async def _view(self, physical_offset: int) -> Answer:
        record = None
        # What is not visible yet may be taken back by a power cut.
        if self._store.min_offset <= physical_offset < self._store.dispatched_offset:
            loop = asyncio.get_running_loop()
            record = await loop.run_in_executor(
                self._pool, self._store.read_record, physical_offset
            )
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {physical_offset}",
            )
        return Answer(body=record)
