"""How much the broker did: totals since its start, and rates of the last 10, 60 and 600 seconds.

Follows StoreStatsService of RocketMQ 5.3.3 in names and windows. The hot path only adds.
"""

from collections import deque

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
    """

    def __init__(self) -> None:
        self.put_count = 0
        self.put_size = 0
        self.put_failed = 0
        self.get_count = 0
        self.get_size = 0
        self.found = 0
        self.missed = 0
        self._samples: deque[tuple[float, int, int, int, int]] = deque(
            maxlen=WINDOWS_SECONDS[-1] + 1
        )

    def count_put(self, count: int, size: int) -> None:
        """So many messages were stored, of so many bytes together."""
        self.put_count += count
        self.put_size += size

    def count_put_failed(self, count: int) -> None:
        """So many sends were refused by the store."""
        self.put_failed += count

    def count_get(self, count: int, size: int) -> None:
        """A pull was answered with so many messages."""
        if count:
            self.found += 1
            self.get_count += count
            self.get_size += size
        else:
            self.missed += 1

    def sample(self, now: float) -> None:
        """Remember the totals; once a second."""
        self._samples.append((now, self.put_count, self.get_count, self.found, self.missed))

    def rates(self) -> dict[str, tuple[float, ...]]:
        """Messages put, got, pulls found and missed a second, in each window."""
        names = ("put", "get", "found", "missed")
        return {
            name: tuple(self._rate(index, window) for window in WINDOWS_SECONDS)
            for index, name in enumerate(names, start=1)
        }

    def _rate(self, column: int, window: int) -> float:
        if len(self._samples) < 2:
            return 0.0
        last = self._samples[-1]
        first = self._samples[max(0, len(self._samples) - 1 - window)]
        seconds = last[0] - first[0]
        return (last[column] - first[column]) / seconds if seconds > 0 else 0.0
