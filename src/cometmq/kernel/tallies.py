"""Tallies: counts of messages, bytes and times that a turn adds to.

A tally adds to all that are above it, too: a queue's to its topic's, and that to the broker's. Compiled: `_tallies`.
"""

from collections.abc import Sequence
from typing import Any

# Upper ends of the classes of message sizes, bytes (BrokerMetricsManager of RocketMQ 5.3.3); the last class has none.
SIZE_BOUNDS = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)


class Tally:
    """Numbers that only grow.

    Attributes:
        above: is added to with this one.
        of: what it counts; the kernel does not look at it.
        count: messages.
        size: bytes.
        time_us: the time that each took, together, microseconds.
        times: how often it was added to.
        sizes: messages by the size of their records: how many are in each class; empty before the first is sized.
        kept: what its owner keeps beside it.
        fresh: where it goes when it is added to.
        is_fresh: whether it is there.
    """

    __slots__ = (
        "above",
        "count",
        "fresh",
        "is_fresh",
        "kept",
        "of",
        "size",
        "sizes",
        "time_us",
        "times",
    )

    def __init__(self, of: Any, above: "Tally | None", fresh: "list[Tally]") -> None:
        """Begin at 0; the first addition puts the tally at the end of `fresh`, and once more after each `looked_at`."""
        self.of, self.above, self.fresh = of, above, fresh
        self.count = self.size = self.time_us = self.times = 0
        self.sizes: tuple[int, ...] = ()
        self.kept: Any = None
        self.is_fresh = False

    def add(self, count: int, size: int, time_us: int) -> None:
        """Add messages, their bytes, and the time that each took."""
        self._add(count, size, count * time_us, ())

    def looked_at(self) -> None:
        """Note that the owner has seen the tally."""
        self.is_fresh = False

    def _add(self, count: int, size: int, time_us: int, sizes: Sequence[int]) -> None:
        tally: Tally | None = self
        while tally is not None:
            tally.count += count
            tally.size += size
            tally.time_us += time_us
            tally.times += 1
            if sizes:
                before = tally.sizes or (0,) * len(sizes)
                tally.sizes = tuple(map(sum, zip(before, sizes, strict=True)))
            if not tally.is_fresh:
                tally.is_fresh = True
                tally.fresh.append(tally)
            tally = tally.above


def _class_of(size: int) -> int:
    return sum(size > bound for bound in SIZE_BOUNDS)


def _add_run(tally: "Tally | None", sizes: list[int], time_us: int) -> None:
    if tally is None or not sizes:
        return
    classes = [0] * (len(SIZE_BOUNDS) + 1)
    for size in sizes:
        classes[_class_of(size)] += 1
    tally._add(len(sizes), sum(sizes), len(sizes) * time_us, classes)  # noqa: SLF001  Of this module.


def count_puts(
    puts: Sequence[tuple[Any, ...]], results: Sequence[tuple[int, int, int]], time_us: int
) -> None:
    """Count puts that are objects; `results` say where each lies."""
    queue: Any = None
    sizes: list[int] = []
    for put, (_, _, size) in zip(puts, results, strict=True):
        if put[0] is not queue:
            _add_run(None if queue is None else queue.tally, sizes, time_us)
            queue, sizes = put[0], []
        sizes.append(size)
    _add_run(None if queue is None else queue.tally, sizes, time_us)
