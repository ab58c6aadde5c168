"""Finds the first message that the topic attribute `retention.bytes` keeps in a queue.

The record sizes in the queue's entries are summed when a queue is first examined; later calls usually read only
entries that are new or no longer kept.
"""

from dataclasses import dataclass

from cometmq.codec.queue_entry import BLANK_SIZE, GAP_CODE
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_PIECE = 4_096  # Entries per read: 80 KiB.


@dataclass(slots=True)
class _QueueSpan:
    """Messages of a queue from `first` to before `end`, and the size of their records in bytes."""

    first: int
    end: int
    size: int = 0


class ByteQuotas:
    """Sums of the record sizes of queues, to find the last messages that fit into a number of bytes.

    `first_kept` is for one thread at a time; its reads may wait for the disk.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._spans: dict[ConsumeQueue, _QueueSpan] = {}
        store.on_truncated.append(self.truncated)

    def truncated(self, _end: int) -> None:
        """Forget all sums, because the log was truncated and other messages may take the offsets."""
        self._spans = {}  # A new dict: a call in progress continues with the old one, which is dropped.

    def first_kept(self, queue: ConsumeQueue, most: int) -> int:
        """Return the queue offset of the first of the last messages that fit into `most` bytes.

        The newest message, if any, is always among them. If a file that this needs is missing (mostly just deleted),
        the result is the queue's min offset.
        """
        span = self._spans.get(queue)
        if span is None:
            span = self._spans[queue] = _QueueSpan(queue.min_offset, queue.min_offset)
        try:
            self._follow(queue, span)
            self._shrink(queue, span, most)
        except FileNotFoundError:
            # The queue's oldest file was just deleted; the next call starts after it.
            self._spans.pop(queue, None)
            return queue.min_offset
        return span.first

    def forget_others(self, kept: set[ConsumeQueue]) -> None:
        """Forget the sums of all queues except these."""
        spans = self._spans
        for queue in spans.keys() - kept:
            del spans[queue]

    def _follow(self, queue: ConsumeQueue, span: _QueueSpan) -> None:
        """Adapt the sum to the queue's present min and max offset."""
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
        """Return the record sizes of 1 to `count` entries, bytes, 0 for gaps and blanks; FileNotFoundError if none."""
        entries = self._store.entries(queue, offset, count)
        if not entries:
            raise FileNotFoundError(f"{queue} has no entry {offset}")
        return [
            0 if size == BLANK_SIZE or code == GAP_CODE else size for _, size, code in entries
        ]
