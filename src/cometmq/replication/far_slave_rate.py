"""The rate at which a slave that is far behind gets the log while others send: it takes little from them, and still arrives.

What a slave costs its master's senders is what it gets in a second. So one that lacks much gets a fixed number of
bytes, or a quarter of it more than the log grows by in the mean of a minute, where that is more: who sends very much for some
seconds is not held up by it, and who does so on and on lets it come nearer by that quarter each second. Where nobody sends it gets all
that it takes.
"""

from math import ceil, exp

# Who lacks no more keeps up, and gets each byte as soon as it is there.
FAR_SIZE = 32 << 20
# A log that grows by less in a second has no senders who would notice.
QUIET_SIZE = 1 << 20
# By this part of what it gets a slave comes nearer in a second, however fast the log grows.
NEARER_PART = 4
# The mean of how fast the log grows is over about so long, seconds.
MEAN_SECONDS = 60.0
# A look that comes sooner says little.
_LOOK_SECONDS_MIN = 0.1


class FarSlaveRate:
    """The rate at which a slave that is far behind is sent a log that grows."""

    def __init__(self, per_second: int) -> None:
        """`per_second` is how many bytes such a slave is sent in a second; 0: nobody is held back."""
        self.per_second = per_second
        self._end = 0
        self._at: float | None = None  # When that was.
        self._growth: float | None = None  # Bytes a second, lately; None: not known yet.
        self._mean_growth = 0.0  # It begins low: a burst is over before it counts.

    def look(self, end: int, now: float) -> None:
        """See how far the log has grown; called some times a second while slaves are there.

        Args:
            end: physical offset behind the last byte that slaves may have.
            now: monotonic seconds.
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
        """Nobody looks for a while: how fast the log grows is not known."""
        self._at = self._growth = None
        self._mean_growth = 0.0

    def rate(self, gap: int) -> int | None:
        """The bytes of the log that a slave which lacks so many is to get in a second; None: as many as it takes."""
        if not self.per_second or gap <= FAR_SIZE:
            return None
        if self._growth is None:  # Somebody may send.
            return self.per_second
        if self._growth < QUIET_SIZE:
            return None
        return max(
            self.per_second, int(self._mean_growth) + ceil(self.per_second / NEARER_PART)
        )
