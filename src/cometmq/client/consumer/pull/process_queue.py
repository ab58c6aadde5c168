"""The messages of one queue that were pulled and are not consumed yet (ProcessQueue of Java's client).

Listeners finish in any order; what may be committed is the smallest offset that is not finished,
since a consumer that starts again begins there.
"""

from collections import deque
from collections.abc import Iterable
from itertools import repeat


class ProcessQueue:
    """Offsets of cached messages and their sizes.

    Attributes:
        count: messages cached.
        size: their bodies' bytes.
        next_offset: what to commit: everything before it is consumed. None until something came.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.count = 0
        self.size = 0
        self.next_offset: int | None = None
        self._order: deque[int] = deque()
        self._sizes: dict[int, int] = {}

    def add(self, arrived: Iterable[tuple[int, int]]) -> None:
        """Add messages: (queue offset, bytes) of each, behind those that are here."""
        order, sizes = self._order, self._sizes
        was_empty = not order
        new = dict(arrived)
        for offset in sizes.keys() & new.keys():
            del new[offset]
        offsets = sorted(new)
        assert not (order and offsets) or offsets[0] > order[-1], "offsets of a queue rise"
        order.extend(offsets)
        sizes.update(new)
        self.size += sum(new.values())
        self.count = len(sizes)
        if was_empty and order:
            # What lay between matched nothing, and needs no second look.
            self.next_offset = order[0]

    def finish(self, offsets: Iterable[int]) -> None:
        """Remove messages that were consumed, or sent back; one that is not cached is ignored."""
        order, sizes = self._order, self._sizes
        self.size -= sum(map(sizes.pop, offsets, repeat(0)))
        self.count = len(sizes)
        # Invariant: order[0] is not finished, so it is the smallest such offset.
        while order and order[0] not in sizes:
            self.next_offset = order.popleft() + 1
        if order:
            self.next_offset = order[0]

    @property
    def cached(self) -> tuple[int, int]:
        """The number of cached messages, and bytes of their bodies."""
        return self.count, self.size

    @property
    def smallest(self) -> int | None:
        """The smallest offset cached."""
        return self._order[0] if self._order else None

    @property
    def span(self) -> int:
        """The distance between the smallest and the largest offset cached."""
        return self._order[-1] - self._order[0] if self._order else 0
