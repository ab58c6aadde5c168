"""Single messages: by their place in the log (33).

Next: cometmq.store.message_store
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Executor

from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pull import ViewMessageRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.store.message_store import MessageStore


class QueryHandler:
    """Handles requests for single messages."""

    def __init__(self, *, store: MessageStore, pool: Executor) -> None:
        """`pool` reads, since any message may have to be waited for."""
        self._store = store
        self._pool = pool

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
