"""How much the broker did: totals since its start, and rates of the last 10, 60 and 600 seconds.

Follows StoreStatsService of RocketMQ 5.3.3 in names and windows. The hot path only adds.
"""

from collections import deque
from collections.abc import Callable

WINDOWS_SECONDS = (10, 60, 600)


class Counters:
    """Totals and samples of them.

    Attributes:
        put_count: messages stored.
        put_size: bytes of their records.
        put_failed: sends that the store refused.
        get_count: messages given to consumers.
        get_size: bytes of their records.
        found: pulls that got messages.
        missed: pulls that got none.
        is_quiet: whether no message was counted since the last sample: another one would say nothing new.
        on_work: each is told when one is counted after that.
    """

    def __init__(self) -> None:
        self.put_count = 0
        self.put_size = 0
        self.put_failed = 0
        self.get_count = 0
        self.get_size = 0
        self.found = 0
        self.missed = 0
        self.is_quiet = False
        self.on_work: list[Callable[[], None]] = []
        self._samples: deque[tuple[float, int, int, int, int]] = deque(
            maxlen=WINDOWS_SECONDS[-1] + 1
        )

    def count_put(self, count: int, size: int) -> None:
        """So many messages were stored, of so many bytes together."""
        self.put_count += count
        self.put_size += size
        if self.is_quiet:
            self._wake()

    def count_put_failed(self, count: int) -> None:
        """So many sends were refused by the store."""
        self.put_failed += count

    def count_get(self, count: int, size: int) -> None:
        """A pull was answered with so many messages."""
        if count:
            self.found += 1
            self.get_count += count
            self.get_size += size
            if self.is_quiet:
                self._wake()
        else:
            self.missed += 1

    def _wake(self) -> None:
        self.is_quiet = False
        for tell in self.on_work:
            tell()

    def sample(self, now: float) -> None:
        """Remember the totals; once a second, unless it `is_quiet`."""
        totals = (self.put_count, self.get_count, self.found, self.missed)
        if not self._samples or self._samples[-1][1:] != totals:
            self._samples.append((now, *totals))
        self.is_quiet = True

    def rates(self, now: float) -> dict[str, tuple[float, ...]]:
        """Messages put, got, pulls found and missed a second, in each window that ends now (monotonic seconds)."""
        totals = (self.put_count, self.get_count, self.found, self.missed)
        names = ("put", "get", "found", "missed")
        beginnings = [self._before(now - window, now) for window in WINDOWS_SECONDS]
        return {
            name: tuple(
                (total - before[column]) / (now - before[0]) if before[0] < now else 0.0
                for before in beginnings
            )
            for column, (name, total) in enumerate(zip(names, totals, strict=True), start=1)
        }

    def _before(self, start: float, now: float) -> tuple[float, int, int, int, int]:
        """The totals at the start of a window, or at the first sample where that came later; and when that was."""
        before = (now, 0, 0, 0, 0)
        for sample in reversed(self._samples):
            before = (max(sample[0], start), *sample[1:])
            if sample[0] <= start:
                break
        return before
