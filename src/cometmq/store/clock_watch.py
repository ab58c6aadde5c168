"""Decides whether the wall clock may be used for deleting files: not for a while after it jumped forward.

The wall clock jumps relative to the monotonic clock if somebody or a wrong time server sets it, or if the machine
slept. After sleep the new time is right, so a jump is accepted after an hour. Until then, or until the clock is set
back, no file is deleted for its age.
"""

import logging

from cometmq.model.clock import Clock

logger = logging.getLogger(__name__)

AHEAD_MS_MAX = 60_000  # Largest jump between two checks that is ignored.
BELIEVED_AFTER_S = 3600.0  # A clock that stays ahead this long is right.


class ClockWatch:
    """Compares the wall clock with the monotonic clock at each check."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_ms = clock.now_ms()
        self._seconds = clock.monotonic()
        self._ahead_ms = 0  # Sum of jumps forward that were not set back.
        self._believed_at = 0.0

    def trusts(self) -> bool:
        """Return whether to trust the wall clock: not for an hour after it jumped a minute ahead, unless set back."""
        if self._clock.is_steady:
            return True
        wall_ms, seconds = self._clock.now_ms(), self._clock.monotonic()
        set_ms = wall_ms - self._wall_ms - int((seconds - self._seconds) * 1000)
        self._wall_ms, self._seconds = wall_ms, seconds
        if abs(set_ms) > AHEAD_MS_MAX:
            self._was_set(set_ms, seconds)
        elif self._ahead_ms and seconds >= self._believed_at:
            self._ahead_ms = 0
            logger.warning("The clock has kept its new time; files may be deleted by age again")
        return not self._ahead_ms

    def _was_set(self, set_ms: int, seconds: float) -> None:
        was_ahead = self._ahead_ms > 0
        self._ahead_ms = max(self._ahead_ms + set_ms, 0)
        if self._ahead_ms <= AHEAD_MS_MAX:
            self._ahead_ms = 0
            if was_ahead:
                logger.warning("The clock was set back; files may be deleted by age again")
        elif set_ms > 0:
            self._believed_at = seconds + BELIEVED_AFTER_S
            logger.warning(
                "The clock was set %d s forward (or the machine slept): no file is deleted by age "
                "for %d minutes, or until the clock is set back",
                set_ms // 1000, BELIEVED_AFTER_S // 60,
            )  # fmt: skip
