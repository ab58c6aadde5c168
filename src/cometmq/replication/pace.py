"""A bound for the bytes that a slave is sent in a second, spread over it (haFlowControlEnable of RocketMQ).

Its bytes are earned evenly from the beginning of a second to its end. What is not used goes a moment later, so a
pause is not made up for by a burst; the moment is what a busy loop, or a timer that is late, may take.
"""

from math import ceil

# What is not used is lost after this long; half of it is the most that goes at once.
_KEPT_SECONDS = 0.05
# A timer is no more exact, and time that was waited for may be a rounding away.
_WAIT_SECONDS_MIN = 0.001


class Pace:
    """Says when a slave may be sent bytes: in no second, as the clock counts them, more than a number.

    Attributes:
        per_second: that number.
        size_max: bytes that may go at once.
    """

    def __init__(self, per_second: int) -> None:
        """`per_second` is 1 at least."""
        self.per_second = per_second
        self._second = 0
        self._used = 0.0  # Of this second's bytes: sent, or lost.
        self.size_max = ceil(per_second * _KEPT_SECONDS / 2)

    def change(self, per_second: int) -> None:
        """From now on it is another number; what this second has used of its bytes it has used of the new ones."""
        self._used *= per_second / self.per_second
        self.per_second = per_second
        self.size_max = ceil(per_second * _KEPT_SECONDS / 2)

    def wait(self, size: int, now: float) -> float:
        """The seconds until so many bytes may be sent; 0: now.

        Args:
            size: bytes, `size_max` at most.
            now: monotonic seconds.
        """
        earned = self._earned(now)
        needed = self._used + size - 1  # A byte may go when its time begins.
        if earned > needed:
            return 0.0
        if needed >= self.per_second:
            needed = self.per_second + size - 1  # It is over: of the next one.
        return max((needed - earned) / self.per_second, _WAIT_SECONDS_MIN)

    def sent(self, size: int, now: float) -> None:
        """Count bytes that are sent now."""
        self._earned(now)
        self._used += size

    def _earned(self, now: float) -> float:
        """This second's bytes until now; those that nobody used in time are used up."""
        if int(now) != self._second:
            self._second, self._used = int(now), 0.0
        earned = (now - self._second) * self.per_second
        self._used = max(self._used, earned - self.per_second * _KEPT_SECONDS)
        return earned
