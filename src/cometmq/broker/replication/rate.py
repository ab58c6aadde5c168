"""The number of bytes in the last full second, as in RocketMQ's FlowMonitor."""


class ByteRate:
    """A counter of bytes that returns how many were counted in the last full second."""

    def __init__(self) -> None:
        self._second = 0
        self._size = self._last = 0

    def count(self, size: int, now: float) -> None:
        """Count bytes; `now` is in monotonic seconds."""
        self._turn(int(now))
        self._size += size

    def per_second(self, now: float) -> int:
        """Return the number of bytes counted in the last full second."""
        self._turn(int(now))
        return self._last

    def _turn(self, second: int) -> None:
        if second != self._second:
            self._last = self._size if second == self._second + 1 else 0
            self._second, self._size = second, 0
