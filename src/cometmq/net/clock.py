"""The system's clock, for programs; machines below are given it as an argument."""

import time


class SystemClock:
    """Wall and monotonic time of this machine (a `model.clock.Clock`)."""

    is_steady = False  # Somebody, or a time server, sets the wall clock.

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        return time.time_ns() // 1_000_000

    # Seconds that never go back; asked several times a flush, so without a frame of its own.
    monotonic = staticmethod(time.monotonic)
