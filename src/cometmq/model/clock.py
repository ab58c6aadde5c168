"""Time as an argument: whoever needs the time is given a `Clock` (its system form: net.clock)."""

from typing import Protocol

# Where the wall clock may be set, nobody sleeps for longer until a wall time.
WALL_LOOK_SECONDS = 1.0


class Clock(Protocol):
    """A source of time; a test passes one that it turns by hand.

    Attributes:
        is_steady: whether nobody sets the wall clock: a sleep until a wall time ends then.
    """

    is_steady: bool

    def now_ms(self) -> int:
        """Wall time in ms since 1970, as records and routes carry it. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for intervals and deadlines."""
        ...


def seconds_until(clock: Clock, wall_ms: int) -> float:
    """Seconds to sleep until a wall time; a second at most where the clock may be set meanwhile."""
    seconds = max(wall_ms - clock.now_ms(), 0) / 1000
    return seconds if clock.is_steady else min(seconds, WALL_LOOK_SECONDS)
