"""A clock that only the test turns."""


class HandClock:
    """A `model.clock.Clock`: both times move together, and only by `turn`.

    Attributes:
        is_steady: as nobody may rely on, unless a test says so.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, is_steady: bool = False) -> None:
        self.is_steady = is_steady
        self._start_ms = start_ms
        self._seconds = 0.0

    def now_ms(self) -> int:
        return self._start_ms + int(self._seconds * 1000)

    def monotonic(self) -> float:
        return self._seconds

    def boot_ms(self) -> int:
        return int(self._seconds * 1000)

    def turn(self, seconds: float) -> None:
        self._seconds += seconds
