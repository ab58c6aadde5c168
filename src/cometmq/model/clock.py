"""Time as an argument: whoever needs the time is given a `Clock` (its system form: net.clock)."""

from typing import Protocol


class Clock(Protocol):
    """Where the time comes from; a test passes one that it turns by hand."""

    def now_ms(self) -> int:
        """Wall time in ms since 1970, as records and routes carry it. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for intervals and deadlines."""
        ...
