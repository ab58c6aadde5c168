"""Bytes in the last whole second, as RocketMQ's FlowMonitor shows them."""


class ByteRate:
    """Counts bytes by the second."""

    def __init__(self) -> None:
        self._second = 0
        self._size = self._last = 0

    def count(self, size: int, now: float) -> None:
        """Count bytes that went by; `now` is monotonic, seconds."""
        self._turn(int(now))
        self._size += size

    def per_second(self, now: float) -> int:
        """The bytes of the last whole second."""
        self._turn(int(now))
        return self._last

    def _turn(self, second: int) -> None:
        if second != self._second:
            self._last = self._size if second == self._second + 1 else 0
            self._second, self._size = second, 0
