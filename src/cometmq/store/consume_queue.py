"""One queue of a topic: where its messages lie in the log, entry by entry.

    min_offset ....... tail_start ....... max_offset ....... next_offset
    in sparse files    in memory (tail)    in the log, not visible yet

An entry has 20 bytes (cometmq.codec.queue_entry). New ones gather in the tail and are read there;
`consume_queues` writes tails out in batches. A broker may have 80,000 queues, so a queue has no
file, no descriptor and no work of its own while nothing happens to it.
"""

from typing import ClassVar

from cometmq.codec.queue_entry import QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.kernel import QueueEnd


class ConsumeQueue(QueueEnd):
    """Positions and the unwritten entries of a queue.

    Invariant: min_offset and tail_start <= max_offset <= next_offset, and the tail holds the
    entries from `tail_start` up to `max_offset`.

    What the hot loops move on is the queue's end, which is the kernel's, with what a pull reads of it: its number, its offsets, the tail
    and its start, and whether it is watched. It is a base and no part, since a queue that it had beside it would be a second
    object of each of 80,000 queues, and a second way to memory of each message.

    Attributes:
        topic: its topic.
        deleted: the topic was deleted; whoever keeps this object must ask for it anew.
        fault: why this queue alone cannot be written; None while it can.
        read_file: number and path of the file that was read last: a path takes longer to make than to use.
        is_batch: whether its entries are of records with several messages (`batch_queues`).
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

    def __repr__(self) -> str:
        return (
            f"<ConsumeQueue {self.topic}/{self.queue_id} {self.min_offset}..{self.max_offset}>"
        )

    def begin_at(self, offset: int) -> None:
        """Be an empty queue whose next message has this offset."""
        self.min_offset = self.max_offset = self.next_offset = self.tail_start = offset
        self.tail.clear()

    def cut(self, offset: int) -> None:
        """Forget the entries from an offset on."""
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
        """Add an entry and show it, as recovery does; dispatch does the same in its loop."""
        tail = self.tail
        tail += QUEUE_ENTRY.pack(physical_offset, size, tags_code)
        self.next_offset = self.max_offset = self.max_offset + 1

    def hide_before(self, offset: int) -> None:
        """Give nothing before an offset any more."""
        self.min_offset = max(self.min_offset, min(offset, self.max_offset))

    def tail_entries(self, start: int, count: int) -> bytes:
        """Entries of the tail, from a queue offset in it."""
        first = (start - self.tail_start) * QUEUE_ENTRY_SIZE
        return bytes(self.tail[first : first + count * QUEUE_ENTRY_SIZE])

    def tail_written(self, count: int) -> None:
        """The tail's first and only `count` entries are in a file now.

        A new tail first, then its start: `tail_entry` counts on this order.
        """
        self.tail = bytearray()
        self.tail_start += count

    def tail_entry(self, offset: int) -> bytes:
        """The entry at an offset, if the tail has it; else nothing, and a file has. Any thread."""
        while True:
            start, tail = self.tail_start, self.tail
            first = (offset - start) * QUEUE_ENTRY_SIZE
            entry = bytes(tail[first : first + QUEUE_ENTRY_SIZE]) if first >= 0 else b""
            if start == self.tail_start:
                return entry
