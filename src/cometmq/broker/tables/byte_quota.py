"""The topic attribute `retention.bytes`: finds where the last so many bytes of a queue begin.

The sizes stand in the queue's entries. They are added up once, when a queue is looked at first, and from
then on only those that have come and those that go: a look costs what has changed.
"""

from dataclasses import dataclass

from cometmq.codec.queue_entry import BLANK_SIZE, GAP_CODE
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_PIECE = 4_096  # Entries at once: 80 KiB.


@dataclass(slots=True)
class _QueueSpan:
    """Messages of a queue from `first` to before `end`, and the bytes of their records."""

    first: int
    end: int
    size: int = 0


class ByteQuotas:
    """The sizes of the last messages of queues; used by one thread at a time; may wait for the device."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._spans: dict[ConsumeQueue, _QueueSpan] = {}
        store.on_truncated.append(self.truncated)

    def truncated(self, _end: int) -> None:
        """The log's end is taken back: other messages may take the places of those that were added up."""
        self._spans = {}  # Another one: a look that is under way goes on with its own, which is forgotten.

    def first_kept(self, queue: ConsumeQueue, most: int) -> int:
        """Queue offset of the first of the last messages that take no more bytes; the newest stays.

        Args:
            queue: where.
            most: bytes of records.
        """
        span = self._spans.get(queue)
        if span is None:
            span = self._spans[queue] = _QueueSpan(queue.min_offset, queue.min_offset)
        try:
            self._follow(queue, span)
            self._shrink(queue, span, most)
        except FileNotFoundError:
            # The queue's oldest file has just gone; the next look begins behind it.
            self._spans.pop(queue, None)
            return queue.min_offset
        return span.first

    def forget_others(self, kept: set[ConsumeQueue]) -> None:
        """Forget all queues but these."""
        spans = self._spans
        for queue in spans.keys() - kept:
            del spans[queue]

    def _follow(self, queue: ConsumeQueue, span: _QueueSpan) -> None:
        """Take in what has come, and let go what is hidden already."""
        first, end = queue.min_offset, queue.max_offset
        if not span.first <= first <= span.end <= end:
            span.first = span.end = first
            span.size = 0
        while span.first < first:
            self._drop(queue, span, min(first - span.first, _PIECE))
        while span.end < end:
            sizes = self._sizes(queue, span.end, min(end - span.end, _PIECE))
            span.size += sum(sizes)
            span.end += len(sizes)

    def _shrink(self, queue: ConsumeQueue, span: _QueueSpan, most: int) -> None:
        """Let the oldest go until the rest takes no more."""
        last = span.end - 1
        while span.size > most and span.first < last:
            for size in self._sizes(queue, span.first, min(last - span.first, _PIECE)):
                if span.size <= most:
                    break
                span.size -= size
                span.first += 1

    def _drop(self, queue: ConsumeQueue, span: _QueueSpan, count: int) -> None:
        sizes = self._sizes(queue, span.first, count)
        span.size -= sum(sizes)
        span.first += len(sizes)

    def _sizes(self, queue: ConsumeQueue, offset: int, count: int) -> list[int]:
        """Bytes of the records of up to `count` messages, one at least."""
        entries = self._store.entries(queue, offset, count)
        if not entries:
            raise FileNotFoundError(f"{queue!r} has no entry {offset}")
        return [
            0 if size == BLANK_SIZE or code == GAP_CODE else size for _, size, code in entries
        ]
