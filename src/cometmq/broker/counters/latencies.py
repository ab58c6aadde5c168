"""Latencies: counts by class of duration, from which percentiles are computed.

Most bounds of classes are about a quarter apart, so a percentile is usually accurate to a quarter. Displays with fewer
classes add them up.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from cometmq.kernel import TimeCounts

_FIRST_US, _LAST_US, _GROWTH = 10, 10_000_000, 1.25
# Bounds that answers use, so that they are also bounds of classes.
DISTRIBUTION_MS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)


def _bounds() -> tuple[int, ...]:
    bounds, bound = {each * 1000 for each in DISTRIBUTION_MS}, float(_FIRST_US)
    while bound < _LAST_US:
        bounds.add(round(bound))
        bound *= _GROWTH
    return tuple(sorted(bounds))


# Upper bounds in microseconds; longer durations are in a class of their own.
BOUNDS_US = _bounds()


def _sums(some: list[int], others: list[int]) -> list[int]:
    return [one + other for one, other in zip(some, others, strict=True)]


class Latencies(TimeCounts):
    """Counts by duration, with their values at the last two calls of `turn`."""

    def __init__(self) -> None:
        super().__init__(BOUNDS_US)
        self._before, self._long_before = self.counts, self.counts

    def include(self, other: "Latencies") -> None:
        """Add the counts of other latencies to these."""
        self.add_all(other)
        before, long_before = other.earlier
        self._before = _sums(self._before, before)
        self._long_before = _sums(self._long_before, long_before)

    @property
    def earlier(self) -> tuple[list[int], list[int]]:
        """The counts of all classes at the last call of `turn`, and at the one before."""
        return self._before, self._long_before

    def turn(self) -> None:
        """Start a new period; percentiles cover the new one and the one before."""
        self._before, self._long_before = self.counts, self._before

    def percentile_ms(self, share: float) -> float:
        """Return about the percentile `share` (0 to 1) of times since the last but one `turn`, ms; 0 without any."""
        recent = [now - then for now, then in zip(self.counts, self._long_before, strict=True)]
        wanted = sum(recent) * share
        if not wanted:
            return 0.0
        for bound, passed in zip((*BOUNDS_US, self.max_us), accumulate(recent), strict=True):
            if passed >= wanted:
                return bound / 1000
        return self.max_us / 1000

    def up_to(self, bounds_ms: Sequence[float]) -> list[int]:
        """Return the number of events that took at most each bound (ms), and the number of all.

        A bound within a class counts the whole class.
        """
        passed = list(accumulate(self.counts))
        return [
            *(passed[bisect_left(BOUNDS_US, each * 1000)] for each in bounds_ms),
            passed[-1],
        ]

    def distribution(self) -> str:
        """Return all counts since the start as text, in the format of StoreStatsService of RocketMQ 5.3.3."""
        names = ("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s",
                 "1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~")  # fmt: skip
        passed = self.up_to(DISTRIBUTION_MS)
        counts = [now - then for now, then in zip(passed, [0, *passed], strict=False)]
        return " ".join(f"[{name}]:{count}" for name, count in zip(names, counts, strict=True))
