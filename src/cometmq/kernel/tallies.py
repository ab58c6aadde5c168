"""Tallies: counters of messages, bytes and times.

An addition to a tally is also made to its parents, such as a queue's topic and the broker. Compiled twin: `_tallies`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import add
from typing import Any

# Upper bounds of the classes of message sizes, bytes (BrokerMetricsManager of RocketMQ 5.3.3); the last class has none.
SIZE_BOUNDS = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)


class Tally:
    """Counters of messages, bytes and durations that only grow.

    Attributes:
        above: Parent tally, to which additions are also made; None if there is none.
        of: The counted object; the kernel does not use it.
        count: Number of messages.
        size: Total size, bytes.
        time_us: Total duration of all messages, microseconds.
        times: Number of additions.
        sizes: Number of messages in each class of record sizes, without those of `add`; empty before the first one.
        kept: Data of the owner; the kernel does not use it.
        fresh: List that receives this tally at an addition.
        is_fresh: Whether it was appended to that list since the last `looked_at`.
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
        """Start at 0; the first addition, and the first after each `looked_at`, appends the tally to `fresh`."""
        self.of, self.above, self.fresh = of, above, fresh
        self.count = self.size = self.time_us = self.times = 0
        self.sizes: tuple[int, ...] = ()
        self.kept: Any = None
        self.is_fresh = False

    def add(self, count: int, size: int, time_us: int) -> None:
        """Add `count` messages of `size` bytes in total and `time_us` microseconds each, also to the parent tallies."""
        self._add(count, size, count * time_us, ())

    def looked_at(self) -> None:
        """Record that the owner has read the tally, so that the next addition appends it to `fresh` again."""
        self.is_fresh = False

    def _add(self, count: int, size: int, time_us: int, sizes: Sequence[int]) -> None:
        tally: Tally | None = self
        while tally is not None:
            tally.count += count
            tally.size += size
            tally.time_us += time_us
            tally.times += 1
            if sizes:
                tally.sizes = (
                    tuple(map(add, tally.sizes, sizes)) if tally.sizes else tuple(sizes)
                )
            if not tally.is_fresh:
                tally.is_fresh = True
                tally.fresh.append(tally)
            tally = tally.above


def _add_run(tally: "Tally | None", sizes: list[int], time_us: int) -> None:
    if tally is None or not sizes:
        return
    classes = [0] * (len(SIZE_BOUNDS) + 1)
    for size in sizes:
        classes[bisect_left(SIZE_BOUNDS, size)] += 1
    tally._add(len(sizes), sum(sizes), len(sizes) * time_us, classes)  # noqa: SLF001  Same module.


def count_puts(
    puts: Sequence[tuple[Any, ...]], results: Sequence[tuple[int, int, int]], time_us: int
) -> None:
    """Add stored messages to the tallies, if any, of their queues; `time_us` is the duration of each, microseconds."""
    queue: Any = None
    sizes: list[int] = []
    for put, (_, _, size) in zip(puts, results, strict=True):
        if put[0] is not queue:
            _add_run(None if queue is None else queue.tally, sizes, time_us)
            queue, sizes = put[0], []
        sizes.append(size)
    _add_run(None if queue is None else queue.tally, sizes, time_us)
