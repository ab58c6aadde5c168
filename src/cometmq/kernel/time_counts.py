"""Counts of durations in classes of time, to which each turn and each pull adds once. Compiled: `_time_counts`."""

from bisect import bisect_left
from collections.abc import Sequence


class TimeCounts:
    """Counts by classes of time.

    Attributes:
        counts: how many are in each class, as a list of its own; the last is of what took longer than all bounds.
        max_us: the longest.
        total_us: of all.
        count: of all.
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        """Begin at 0; `bounds` are the upper ends of the classes, us, in order."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.max_us = self.total_us = self.count = 0

    @property
    def counts(self) -> list[int]:
        """The counts of the classes, the last of all that took longer than every bound."""
        return self._counts[:]

    def add(self, time_us: int, count: int = 1) -> None:
        """Count `count` events that took `time_us` each."""
        self._counts[bisect_left(self._bounds, time_us)] += count
        self.count += count
        self.total_us += time_us * count
        self.max_us = max(self.max_us, time_us)

    def add_all(self, other: "TimeCounts") -> None:
        """Add what another one with the same bounds has counted."""
        self._counts = [
            one + more for one, more in zip(self._counts, other.counts, strict=True)
        ]
        self.count += other.count
        self.total_us += other.total_us
        self.max_us = max(self.max_us, other.max_us)
