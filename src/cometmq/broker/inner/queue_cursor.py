"""Reads a queue, several messages at a time, from an offset to its end; only reads of the disk wait."""

from cometmq.codec.record import Record, decode_records
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult

_TOGETHER_MAX = 32  # Messages per read, as for a pull (maxTransferCountOnMessageInMemory).


class QueueCursor:
    """A read position in a queue; `offset` is the queue offset of the next message."""

    def __init__(self, store: MessageStore, topic: str, queue_id: int, *, offset: int) -> None:
        self.offset = offset
        self._store = store
        self._topic = topic
        self._queue_id = queue_id

    @property
    def is_at_end(self) -> bool:
        """Whether consumers can see no message at `offset` or later; True if the queue does not exist."""
        queue = self._store.queue(self._topic, self._queue_id)
        return queue is None or self.offset >= queue.max_offset

    def next_records(self, count: int = _TOGETHER_MAX) -> Steps[list[Record]]:
        """Return up to `count` messages, 32 at most, and move after them; none at the end, or if the read gets no further.

        Raises:
            CodecError: A record cannot be decoded; the cursor has moved all the same.
            OSError: The disk failed.
        """
        while not self.is_at_end:
            found = yield from self._get(self.offset, min(count, _TOGETHER_MAX))
            # An empty result can have more after it: messages that retention deleted, or a gap.
            if not found.records and found.next_offset <= self.offset:
                break
            self.offset = found.next_offset
            if found.records:
                return decode_records(b"".join(found.records))
        return []

    def record_at(self, offset: int) -> Steps[Record | None]:
        """Return the message at an offset, or None; does not move the cursor. Raises as `next_records` does."""
        found = yield from self._get(offset, 1)
        records = decode_records(b"".join(found.records))
        return records[0] if records and records[0].queue_offset == offset else None

    def _get(self, offset: int, count: int) -> Steps[GetResult]:
        found = self._store.get(self._topic, self._queue_id, offset, max_count=count)
        if found.cold is not None:
            found = yield from elsewhere(found.cold)
        return found
