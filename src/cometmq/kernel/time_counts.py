"""Counts of durations by classes of time. Compiled twin: `_time_counts`."""

from bisect import bisect_left
from collections.abc import Sequence


class TimeCounts:
    """Counts of durations by classes of time.

    Attributes:
        max_us: Longest duration, microseconds.
        total_us: Sum of all durations, microseconds.
        count: Number of all durations.
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        """Start at 0; `bounds` are the upper bounds of the classes in ascending order, us."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.max_us = self.total_us = self.count = 0

    @property
    def counts(self) -> list[int]:
        """Return the number of durations in each class as a new list; the last class is above all bounds."""
        return self._counts[:]

    def add(self, time_us: int, count: int = 1) -> None:
        """Count `count` events with a duration of `time_us` microseconds each."""
        self._counts[bisect_left(self._bounds, time_us)] += count
        self.count += count
        self.total_us += time_us * count
        self.max_us = max(self.max_us, time_us)

    def add_all(self, other: "TimeCounts") -> None:
        """Add the counts of another object with the same bounds."""
        self._counts = [
            one + more for one, more in zip(self._counts, other.counts, strict=True)
        ]
        self.count += other.count
        self.total_us += other.total_us
        self.max_us = max(self.max_us, other.max_us)
