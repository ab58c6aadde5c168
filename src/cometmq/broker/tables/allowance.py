"""Rate limits: so many at once, and so many a second in the long run."""

from cometmq.model.clock import Clock


class Allowance:
    """Given out one by one, and filled again as time goes by."""

    def __init__(self, clock: Clock, *, at_once: int, per_second: float) -> None:
        """All of `at_once` may be taken now."""
        self._clock = clock
        self._most = float(at_once)
        self._per_second = per_second
        self._left = self._most
        self._since = clock.monotonic()

    def take(self) -> bool:
        """Take one from the allowance; False where it is used up."""
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._since) * self._per_second)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
