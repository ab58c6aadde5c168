"""Rows gathered into batches: one for each place they go, sent when full.

Next: cometmq.spark.sender
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cometmq.model.queue import MessageQueue


class Batch(NamedTuple):
    """Items that go to one queue in one request.

    Attributes:
        topic: where to.
        queue: the queue that the rows named or their key chose; None: any of the topic.
        items: encoded messages (`codec.batch`).
    """

    topic: str
    queue: MessageQueue | None
    items: list[bytes]


@dataclass
class Batcher:
    """Gathers items until a batch has enough.

    Attributes:
        rows_max: messages in a batch.
        bytes_max: bytes in a batch; one longer message goes alone.
    """

    rows_max: int
    bytes_max: int
    _items: dict[tuple[str, MessageQueue | None], list[bytes]] = field(default_factory=dict)
    _sizes: dict[tuple[str, MessageQueue | None], int] = field(default_factory=dict)

    def add(self, topic: str, queue: MessageQueue | None, item: bytes) -> Iterator[Batch]:
        """Put an item with its like; gives the batch that is full by it."""
        place = (topic, queue)
        items = self._items.setdefault(place, [])
        size = self._sizes.get(place, 0) + len(item)
        if items and (size > self.bytes_max or len(items) >= self.rows_max):
            yield Batch(*place, items)
            items = self._items[place] = []
            size = len(item)
        items.append(item)
        self._sizes[place] = size

    def rest(self) -> Iterator[Batch]:
        """What is left when no more rows come."""
        for place, items in self._items.items():
            yield Batch(*place, items)
        self._items, self._sizes = {}, {}
