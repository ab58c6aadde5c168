"""The system clock, which programs pass to the layers below."""

import time


class SystemClock:
    """Wall time and monotonic time of this machine (a `model.clock.Clock`)."""

    is_steady = False  # A user or a time server may set the wall clock.

    def now_ms(self) -> int:
        """Return the wall time in ms since 1970."""
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        """Return ms that never decrease; on Linux, they go on while the machine is suspended."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(clock) // 1_000_000

    # Seconds that never decrease. An alias, because flushes call it often and a method would add a frame.
    monotonic = staticmethod(time.monotonic)
