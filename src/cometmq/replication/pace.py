"""A limit for the bytes sent to a slave per second, spread evenly (haFlowControlEnable, haCatchUpByteInSecond); their rate.

Bytes become available evenly during each second. Unused ones expire within 50 ms, so that a burst cannot make up
for a longer pause; this time covers the delays of a busy loop or a late timer.
"""

from math import ceil

# Unused bytes expire after this time; at most half of it is sent at once.
_KEPT_SECONDS = 0.05
# Timers are no more exact, and the elapsed time may be a rounding error short.
_WAIT_SECONDS_MIN = 0.001


class Pace:
    """Decides when a slave may be sent bytes under a limit per second of the clock; the limit is at least 1 byte.

    Attributes:
        per_second: The limit in bytes per second.
        size_max: Maximum number of bytes to send at once.
    """

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._second = 0
        self._used = 0.0  # Bytes of this second that were sent or have expired.
        self.size_max = ceil(per_second * _KEPT_SECONDS / 2)

    def change(self, per_second: int) -> None:
        """Change the limit (bytes per second); the used share of the current second stays the same."""
        self._used *= per_second / self.per_second
        self.per_second = per_second
        self.size_max = ceil(per_second * _KEPT_SECONDS / 2)

    def wait(self, size: int, now: float) -> float:
        """Return the seconds to wait before `size` bytes (at most `size_max`) may be sent; 0 if they may be sent now."""
        earned = self._earned(now)
        needed = self._used + size - 1  # A byte may be sent when its time begins.
        if earned > needed:
            return 0.0
        if needed >= self.per_second:
            # This second is used up, so take from the next one.
            needed = self.per_second + size - 1
        return max((needed - earned) / self.per_second, _WAIT_SECONDS_MIN)

    def sent(self, size: int, now: float) -> None:
        """Count `size` bytes as sent now (monotonic seconds)."""
        self._earned(now)
        self._used += size

    def _earned(self, now: float) -> float:
        """Return the bytes that the current second has made available so far; count expired ones as used."""
        if int(now) != self._second:
            self._second, self._used = int(now), 0.0
        earned = (now - self._second) * self.per_second
        self._used = max(self._used, earned - self.per_second * _KEPT_SECONDS)
        return earned


def limited(pace: Pace | None, per_second: int | None) -> Pace | None:
    """Return a pace with a limit in bytes per second, which is this one if there is one; None for no limit."""
    if per_second is None or pace is None:
        return None if per_second is None else Pace(per_second)
    if pace.per_second != per_second:
        pace.change(per_second)
    return pace


class ByteRate:
    """A counter of bytes that returns how many were counted in the last full second, as RocketMQ's FlowMonitor."""

    def __init__(self) -> None:
        self._second = 0
        self._size = self._last = 0

    def count(self, size: int, now: float) -> None:
        """Count bytes; `now` is in monotonic seconds."""
        self._turn(int(now))
        self._size += size

    def per_second(self, now: float) -> int:
        """Return the number of bytes counted in the last full second."""
        self._turn(int(now))
        return self._last

    def _turn(self, second: int) -> None:
        if second != self._second:
            self._last = self._size if second == self._second + 1 else 0
            self._second, self._size = second, 0
