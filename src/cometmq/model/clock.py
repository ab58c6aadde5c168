"""The interface of clocks, and the length of sleeps until a wall time (system clock: net.clock)."""

from typing import Protocol

# Maximum sleep in seconds until a wall time if the wall clock may be set meanwhile.
WALL_LOOK_SECONDS = 1.0


class Clock(Protocol):
    """The interface of a source of wall time and monotonic time; tests pass one that they advance themselves.

    Attributes:
        is_steady: Whether the wall clock is never set, so that a sleep until a wall time ends exactly then.
    """

    is_steady: bool

    def now_ms(self) -> int:
        """Return the wall time in ms since 1970, as stored in records; it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease, for intervals and deadlines."""
        ...

    def boot_ms(self) -> int:
        """Return ms that never decrease and go on while this process or the machine is suspended, for leases."""
        ...


def seconds_until(clock: Clock, wall_ms: int) -> float:
    """Return the seconds to sleep until a wall time, 0.0 if it has passed; at most 1.0 if the clock may be set."""
    seconds = max(wall_ms - clock.now_ms(), 0) / 1000
    return seconds if clock.is_steady else min(seconds, WALL_LOOK_SECONDS)
