"""The pace of old log to a slave that catches up while others send.

Next: cometmq.broker.replicas.slave_link
"""

# A slave that lacks less has the log as it comes, and is never held back.
OLD_SIZE = 4 << 20
# Old log goes at so many bytes a second, where the log grows meanwhile: what a slave takes of disk, network and
# processors beyond that is taken from the senders. The default of RocketMQ's maxHaTransferByteInSecond.
RATE = 100 << 20
# Where it grows by less, bytes a second, there are no senders to speak of; where by more, a slave that is held back
# would never arrive. Seen over so long, seconds.
GROWTH_MIN = 1 << 20
GROWTH_MAX = RATE * 0.8
_LOOK_SECONDS = 0.02
# What a busy loop sent too late is made up for, as far as it is not older.
MADE_UP_SECONDS = 0.05


class CatchUpPace:
    """Decides when the next piece of old log may go; without I/O."""

    def __init__(self) -> None:
        self._end = -1  # Of the log when its growth was looked at last.
        self._looked_at = self._free_at = 0.0
        self._is_growing = True

    def pause_behind(self, size: int, *, end: int, now: float) -> float:
        """A piece was sent; gives the seconds until the next one, 0 where nobody would be held up.

        Args:
            size: of the piece, bytes.
            end: physical offset behind the last record of the log.
            now: monotonic seconds.
        """
        if self._end < 0:
            self._end, self._looked_at, self._free_at = end, now, now
        seconds = now - self._looked_at
        if seconds >= _LOOK_SECONDS:
            self._is_growing = GROWTH_MIN <= (end - self._end) / seconds <= GROWTH_MAX
            self._end, self._looked_at = end, now
        if not self._is_growing:
            return 0.0
        self._free_at = max(self._free_at, now - MADE_UP_SECONDS) + size / RATE
        return max(self._free_at - now, 0.0)
