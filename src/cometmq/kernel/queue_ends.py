"""The tail of a queue: the part of its state that the kernel reads and writes.

The queues of a store are subclasses (`store.consume_queue`). The compiled twin, `_queue_ends`, looks up no names.
"""

from cometmq.kernel.layouts import QUEUE_ENTRY
from cometmq.kernel.tallies import Tally


class QueueEnd:
    """The state of the tail of one queue.

    In the compiled twin, offsets are plain numbers and not objects, which saves a memory access per field for 80,000
    queues. Offsets from damaged records are checked before they reach this class (`store.derived_queues`).

    Attributes:
        queue_id: Id of the queue within the topic.
        min_offset: Offset of the oldest existing message.
        tail_start: Queue offset of the first entry in the tail.
        next_offset: Offset that the next message will get.
        max_offset: Offset after the newest message that consumers may see.
        tail: Entries that are not in a file yet.
        watched: Whether new entries must be reported.
        tally: Counts stored messages; None: they are not counted.
    """

    __slots__ = (
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "tail",
        "tail_start",
        "tally",
        "watched",
    )

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id
        self.min_offset = self.tail_start = self.next_offset = self.max_offset = 0
        self.tail = bytearray()
        self.watched = False
        self.tally: Tally | None = None


def has_filled(size: int, size_max: int) -> bool:
    """Return whether the last entry of a tail of `size` bytes reached or passed a multiple of `size_max` bytes."""
    return size >= size_max and size % size_max < QUEUE_ENTRY.size
