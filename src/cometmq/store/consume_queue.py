"""A consume queue: for each message of one queue of a topic, its place in the log.

    min_offset ....... tail_start ....... max_offset ....... next_offset
    in sparse files    in memory (tail)    in the log, not visible yet

An entry has 20 bytes (cometmq.codec.queue_entry). New entries collect in the tail in memory and are read from there;
`consume_queues` writes tails to files in batches. A broker may have 80,000 queues. An idle queue therefore has
no periodic work, and only the queues used last have an open file.
"""

from typing import ClassVar

from cometmq.codec.queue_entry import QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.kernel import QueueEnd
from cometmq.model.text import printable


class ConsumeQueue(QueueEnd):
    """Offsets and unwritten entries of a queue.

    Invariant: min_offset and tail_start <= max_offset <= next_offset; a standard queue's tail ends at `max_offset`.

    The base class belongs to the kernel and holds the fields that its hot loops use: queue id, offsets, the tail and
    its start, and whether the queue is watched. A member instead would cost a second object per queue, for 80,000
    queues.

    Attributes:
        topic: Name of the topic.
        deleted: Whether the queue was deleted; holders of this object must then look it up again.
        fault: Reason why this queue alone cannot be written, else None.
        read_file: Number and path of the file read last; kept because building a path takes longer than using it.
        is_batch: Whether an entry stands for a record with several messages (`batch_queues`).
    """

    is_batch: ClassVar[bool] = False

    __slots__ = (
        "__weakref__",
        "deleted",
        "fault",
        "read_file",
        "topic",
    )

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__(queue_id)
        self.topic = topic
        self.deleted = False
        self.fault: str | None = None
        self.read_file: tuple[int, str] | None = None
        self.begin_at(0)

    def __str__(self) -> str:
        offsets = f"offsets {self.min_offset} to {self.max_offset}"
        return f"queue {self.queue_id} of topic {printable(self.topic)} ({offsets})"

    def begin_at(self, offset: int) -> None:
        """Make the queue empty in memory, with this offset for its next message."""
        self.min_offset = self.max_offset = self.next_offset = self.tail_start = offset
        self.tail.clear()

    def cut(self, offset: int) -> None:
        """Drop the entries from a queue offset on, in memory only."""
        if offset <= self.min_offset:
            self.begin_at(offset)
            return
        if offset <= self.tail_start:
            self.tail_start = offset
            self.tail.clear()
        else:
            del self.tail[(offset - self.tail_start) * QUEUE_ENTRY_SIZE :]
        self.max_offset = self.next_offset = offset

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add a visible entry to the tail (entries not in a file yet); most entries are added by the kernel instead."""
        tail = self.tail
        tail += QUEUE_ENTRY.pack(physical_offset, size, tags_code)
        self.next_offset = self.max_offset = self.max_offset + 1

    def hide_before(self, offset: int) -> None:
        """Raise the min offset, up to the max offset, so that earlier messages are not returned; never lower it."""
        self.min_offset = max(self.min_offset, min(offset, self.max_offset))

    def tail_entries(self, start: int, count: int) -> bytes:
        """Return up to `count` entries of the tail (in no file yet) as bytes, starting at a queue offset within it."""
        first = (start - self.tail_start) * QUEUE_ENTRY_SIZE
        return bytes(self.tail[first : first + count * QUEUE_ENTRY_SIZE])

    def tail_written(self, count: int) -> None:
        """Drop the unwritten entries (the tail) after all of them, `count` in number, were written to files."""
        # In this order, on which `tail_entry` relies.
        self.tail = bytearray()
        self.tail_start += count

    def tail_entry(self, offset: int, count: int = 1) -> bytes:
        """Return up to `count` entries from a queue offset on if it is in no file yet, else empty bytes; any thread."""
        while True:
            start, tail = self.tail_start, self.tail
            first = (offset - start) * QUEUE_ENTRY_SIZE
            entries = (
                bytes(tail[first : first + count * QUEUE_ENTRY_SIZE]) if first >= 0 else b""
            )
            if start == self.tail_start:
                return entries
