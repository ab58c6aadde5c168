"""The growth of tallies in the last minute, hour and day: the three windows of VIEW_BROKER_STATS_DATA.

About every 10 s, the tallies that have grown are sampled. Windows and samples are those of StatsItem of RocketMQ 5.3.3.
"""

from array import array

from cometmq.kernel import Tally
from cometmq.model.frozen import dataclass

# (window, interval between samples), seconds.
WINDOWS = ((60.0, 10.0), (3_600.0, 600.0), (86_400.0, 3_600.0))
# Largest number of tallies with samples: 1.5 KB each if always busy.
KEPT_MAX = 30_000
_WIDTH = 5  # Values per sample: time in ms, count, size, time, times.


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one counter (tally) within one window.

    Attributes:
        count: Number of messages, or of what else the tally counts.
        size: Their size in bytes; 0 if only counted.
        time_us: Their total duration, microseconds; 0 if not measured.
        times: Number of additions.
        seconds: Length of the window; less if counting began later.
    """

    count: int
    size: int
    time_us: int
    times: int
    seconds: float


class TallyGrowth:
    """The samples of tallies in the last day, stored in `Tally.kept`, from which growth is computed."""

    def __init__(self, now: float, *, kept_max: int = KEPT_MAX) -> None:
        """Begin without samples; `now` is in monotonic seconds, as in the other methods."""
        self._began = now
        self._kept_max = kept_max
        self.kept = 0

    def note(self, tally: Tally, now: float) -> None:
        """Sample a tally that has grown, unless `kept_max` others have samples; let it report growth again."""
        tally.looked_at()
        samples = tally.kept
        if samples is None:
            if self.kept >= self._kept_max:
                return
            self.kept += 1
            samples = tally.kept = tuple(array("q") for _ in WINDOWS)
        at_ms = int(now * 1000)
        for kept, (window, step) in zip(samples, WINDOWS, strict=True):
            if not kept or at_ms - kept[-_WIDTH] >= step * 1000:
                kept.extend((at_ms, tally.count, tally.size, tally.time_us, tally.times))
                if len(kept) > (int(window / step) + 1) * _WIDTH:
                    del kept[:_WIDTH]

    def forget(self, tally: Tally) -> None:
        """Forget the samples of a removed tally."""
        self.kept -= tally.kept is not None
        tally.kept = None

    def is_kept(self, tally: Tally) -> bool:
        """Return whether the tally has samples or may still get them."""
        return tally.kept is not None or self.kept < self._kept_max

    def of(self, tally: Tally, now: float) -> tuple[Growth, ...]:
        """Return the growth of a tally in each window that ends at `now`, as far as its samples show."""
        grown = []
        totals = (tally.count, tally.size, tally.time_us, tally.times)
        samples = tally.kept or (array("q"),) * len(WINDOWS)
        for kept, (window, _) in zip(samples, WINDOWS, strict=True):
            start_ms = (now - window) * 1000
            begin, at = (0, 0, 0, 0), self._began
            for place in range(0, len(kept), _WIDTH):
                if kept[place] > start_ms:
                    break
                at, begin = kept[place] / 1000, tuple(kept[place + 1 : place + _WIDTH])
            count, size, time_us, times = (
                total - before for total, before in zip(totals, begin, strict=True)
            )
            seconds = min(now - at, window)
            grown.append(Growth(count, size, time_us, times, seconds))
        return tuple(grown)
