"""Totals at the last two midnights: what consoles show as today's and yesterday's."""

import time


class MidnightTotals:
    """The totals at the beginning of today and of yesterday, local time (BrokerStats of RocketMQ 5.3.3).

    Attributes:
        today: at the last midnight; 0 before the first one.
        yesterday: at the one before.
    """

    def __init__(self, now_ms: int, totals: tuple[int, ...]) -> None:
        """Begin with the present totals."""
        self.today = self.yesterday = tuple(0 for _ in totals)
        self._known = totals
        self._day = _day_of(now_ms)

    def note(self, now_ms: int, totals: tuple[int, ...]) -> None:
        """Note the present totals; growth since the last note belongs to today."""
        day = _day_of(now_ms)
        if day != self._day:
            self._day = day
            self.yesterday, self.today = self.today, self._known
        self._known = totals


def _day_of(now_ms: int) -> tuple[int, int]:
    local = time.localtime(now_ms / 1000)
    return local.tm_year, local.tm_yday
