"""How much numbers grew in the last minute, hour and day: VIEW_BROKER_STATS_DATA's three windows.

Nothing is counted for it: totals that are there anyhow are looked at now and then, and remembered
where they changed. Windows and samples are those of StatsItem of RocketMQ 5.3.3.
"""

from collections import deque
from typing import NamedTuple

# (window, between two samples), seconds.
WINDOWS = ((60.0, 10.0), (3_600.0, 600.0), (86_400.0, 3_600.0))


class Growth(NamedTuple):
    """Of one number in one window.

    Attributes:
        sum: by how much it grew.
        seconds: within how many; the time since the start where that is less than the window.
    """

    sum: int
    seconds: float

    @property
    def per_second(self) -> float:
        """The rate."""
        return self.sum / self.seconds if self.seconds > 0 else 0.0


class GrowthSamples:
    """What numbers were lately, by any key. A number that nobody has seen began with 0."""

    def __init__(self, now: float) -> None:
        """`now`: monotonic seconds, here as everywhere."""
        self._began = now
        self._firsts: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._samples: dict[str, tuple[deque[tuple[float, int]], ...]] = {}

    def begin(self, key: str, value: int) -> None:
        """What a number is at the start."""
        self._firsts[key] = self._last[key] = value

    def note(self, key: str, value: int, now: float) -> None:
        """What a number is now."""
        if self._last.get(key, 0) == value:
            return
        self._last[key] = value
        samples = self._samples.get(key)
        if samples is None:
            samples = self._samples[key] = tuple(
                deque(maxlen=int(window / step) + 1) for window, step in WINDOWS
            )
        for kept, (_, step) in zip(samples, WINDOWS, strict=True):
            if not kept or now - kept[-1][0] >= step:
                kept.append((now, value))

    def knows(self, key: str) -> bool:
        """Whether such a number was ever seen."""
        return key in self._last

    def forget(self, keys: set[str]) -> None:
        """Numbers that are gone: all but these."""
        for table in (self._firsts, self._last, self._samples):
            for key in table.keys() - keys:
                del table[key]

    def of(self, key: str, value: int, now: float) -> tuple[Growth, ...]:
        """By how much a number, `value` now, grew within each window."""
        samples = self._samples.get(key, ((),) * len(WINDOWS))
        grown = []
        for kept, (window, _) in zip(samples, WINDOWS, strict=True):
            begin, at = self._firsts.get(key, 0), self._began
            for then, known in kept:
                if then > now - window:
                    break
                begin, at = known, then
            grown.append(Growth(max(value - begin, 0), min(now - at, window)))
        return tuple(grown)
