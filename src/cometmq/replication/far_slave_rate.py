"""The rate at which a slave, or a member of a group that elects its leader, receives the log while producers send.

The faster a slave gets the log, the slower are its master's producers. A slave that lacks over 32 MiB, and for which no
send waits, therefore gets a fixed number of bytes per second or, if that is more, the log's mean growth over a minute
plus a quarter of the fixed number. A short burst of sends hardly raises this rate; under permanent load the slave
catches up by at least that quarter each second. There is no such limit if the fixed number is 0, or while the log is
known to grow by less than 1 MiB per second. A limit set by the operator applies to all slaves.
"""

from math import ceil, exp

from cometmq.replication.terms import SlaveRates

# A slave that lacks no more than this keeps up, and gets each byte immediately.
FAR_SIZE = 32 << 20
# A log that grows less per second has no producers who would notice.
QUIET_SIZE = 1 << 20
# The slave catches up by at least this fraction (1/n) of the fixed rate per second, however fast the log grows.
NEARER_PART = 4
# Time constant of the mean growth, seconds.
MEAN_SECONDS = 60.0
# Shorter intervals are too inexact.
_LOOK_SECONDS_MIN = 0.1


class FarSlaveRate:
    """The rate limits for slaves, of which those far behind a growing log have a lower one.

    Attributes:
        rates: The limits that are set.
    """

    def __init__(self, rates: SlaveRates) -> None:
        self.rates = rates
        self._end = 0
        self._at: float | None = None  # Time of the last look.
        self._growth: float | None = None  # Recent growth in bytes per second; None if unknown.
        self._mean_growth = 0.0  # Begins low: a burst is over before it counts.

    def look(self, end: int, now: float) -> None:
        """Measure the log's growth: `end` is the offset up to which slaves may have it, `now` the monotonic time (s).

        To be called several times a second while slaves are connected; ignored within 0.1 s after a measurement.
        """
        if self._at is not None:
            seconds = now - self._at
            if seconds < _LOOK_SECONDS_MIN:
                return
            self._growth = max(end - self._end, 0) / seconds
            share = 1 - exp(-seconds / MEAN_SECONDS)
            self._mean_growth += (self._growth - self._mean_growth) * share
        self._end, self._at = end, now

    def forget(self) -> None:
        """Forget the measured growth, because no slave is connected and nothing will be measured for a while."""
        self._at = self._growth = None
        self._mean_growth = 0.0

    def rate(self, gap: int, *, is_awaited: bool = False) -> int | None:
        """Return the bytes per second for a slave that lacks `gap` bytes; None for no limit.

        If producers wait for the slave, or are refused without it (`is_awaited`), only the operator's limit applies.
        """
        limits = (None if is_awaited else self._while_far(gap), self.rates.most)
        return min((each for each in limits if each is not None), default=None)

    def _while_far(self, gap: int) -> int | None:
        per_second = self.rates.catch_up
        if not per_second or gap <= FAR_SIZE:
            return None
        if self._growth is None:  # Producers may be sending.
            return per_second
        if self._growth < QUIET_SIZE:
            return None
        return max(per_second, int(self._mean_growth) + ceil(per_second / NEARER_PART))
