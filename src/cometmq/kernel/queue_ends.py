"""The end of a queue, and its newest entries: all that the kernel reads and writes of a queue.

A store's queue is one of these and more (`store.consume_queue`); what more it is the kernel does not know. Compiled:
`_queue_ends`, where a field is a place in memory and no look-up by name.
"""

from cometmq.kernel.layouts import QUEUE_ENTRY
from cometmq.kernel.tallies import Tally


class QueueEnd:
    """Numbers and bytes of the end of one queue.

    Compiled, its offsets are numbers in it and no objects: of 80,000 queues each would be one more way to memory. What a
    damaged record says of its queue is looked at before it comes here (`store.derived_queues`).

    Attributes:
        queue_id: its number in the topic.
        min_offset: of the oldest message still there.
        tail_start: queue offset of the first entry of the tail.
        next_offset: what the next message gets.
        max_offset: behind the newest that consumers may see.
        tail: entries that are not in a file yet.
        watched: whether it is wanted what comes here.
        tally: counts what is put here; None: nobody does.
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
    """Whether with its last entry the tail of a queue, which has `size` bytes by now, has filled up, or once more as much."""
    return size >= size_max and size % size_max < QUEUE_ENTRY.size
