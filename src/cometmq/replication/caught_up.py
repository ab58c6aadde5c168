"""Measures how long a slave has been behind its master, without remembering when each part of the log was written."""


class CaughtUp:
    """The time at which a slave last had all of the log that its master had then.

    A mark is the end of the log at some time. When the slave has acknowledged the log up to the mark, it was caught up at
    the mark's time, and the present end becomes the next mark.
    """

    def __init__(self, end: int, now: float) -> None:
        """Begin with a log that ends at the offset `end`; `now` is the time of each call, monotonic seconds."""
        self._mark, self._marked_at = end, now
        self._caught_up_at = now

    def note(self, acked: int, end: int, now: float) -> None:
        """Note up to which offset the slave has acknowledged the log, and where the log ends; call at least every second."""
        if acked >= self._mark:
            self._caught_up_at = self._marked_at
            self._mark, self._marked_at = end, now
        if acked >= end:
            self._caught_up_at = now

    def behind_seconds(self, acked: int, end: int, now: float) -> float:
        """Return the seconds since the slave had all of the log, else since measuring began; 0.0 if it has all now."""
        return 0.0 if acked >= end else now - self._caught_up_at
