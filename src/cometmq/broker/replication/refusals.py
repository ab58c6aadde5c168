"""Connections at the HA port that were refused: counted, and named in one line a minute."""

import logging

from cometmq.model.clock import Clock

_log = logging.getLogger(__name__)

LINE_SECONDS = 60.0


class Refusals:
    """Counts connections that were refused since the start.

    Attributes:
        count: how many.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_at: float | None = None
        self._unsaid = 0
        self.count = 0

    def refuse(self, who: str, why: str) -> None:
        """One more; the first one is said at once, then one line a minute for all."""
        self.count += 1
        self._unsaid += 1
        now = self._clock.monotonic()
        if self._said_at is not None and now - self._said_at < LINE_SECONDS:
            return
        self._said_at = now
        others = (
            f" (and {self._unsaid - 1} others since the last line)" if self._unsaid > 1 else ""
        )
        self._unsaid = 0
        _log.warning("the HA port refused %s: %s%s", who, why, others)
