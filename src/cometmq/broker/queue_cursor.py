"""Reads a queue of the broker's own, piece by piece, from an offset to its end.

What lies in memory is read at once; what must be waited for is read in the pool.

Next: cometmq.store.reader
"""

import asyncio
from concurrent.futures import Executor

from cometmq.codec.record import Record, decode_records
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult

_PIECE = 32  # Messages at once: what a pull gets (maxTransferCountOnMessageInMemory).


class QueueCursor:
    """A place in a queue.

    Attributes:
        offset: of the next message, a queue offset.
    """

    def __init__(
        self, store: MessageStore, pool: Executor, topic: str, queue_id: int, *, offset: int
    ) -> None:
        self.offset = offset
        self._store = store
        self._pool = pool
        self._topic = topic
        self._queue_id = queue_id

    @property
    def is_at_end(self) -> bool:
        """Whether everything visible was read."""
        queue = self._store.queue(self._topic, self._queue_id)
        return queue is None or self.offset >= queue.max_offset

    async def read(self) -> list[Record]:
        """The next messages, one at least; none at the end. Moves behind them.

        Raises:
            CodecError: a record cannot be read.
            OSError: the disk failed.
        """
        while not self.is_at_end:
            found = await self._get(self.offset, _PIECE)
            # Nothing there, but more behind: what retention deleted, or a hole.
            if not found.records and found.next_offset <= self.offset:
                break
            self.offset = found.next_offset
            if found.records:
                return decode_records(b"".join(found.records))
        return []

    async def read_at(self, offset: int) -> Record | None:
        """The message at an offset; None where there is none. The cursor stays.

        Raises:
            CodecError, OSError: as `read`.
        """
        found = await self._get(offset, 1)
        records = decode_records(b"".join(found.records))
        return records[0] if records and records[0].queue_offset == offset else None

    async def _get(self, offset: int, count: int) -> GetResult:
        found = self._store.get(self._topic, self._queue_id, offset, max_count=count)
        if found.cold is not None:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._pool, found.cold)
        return found
