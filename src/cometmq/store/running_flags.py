"""RocketMQ's running flags: reasons why the store accepts no messages.

The bits are RunningFlags of RocketMQ 5.3.3. The texts are ours, for the answers to senders.
"""

from collections.abc import Callable
from enum import IntFlag


class RunningFlag(IntFlag):
    """One reason for accepting no messages.

    NOT_WRITABLE, QUEUE_ERROR, INDEX_ERROR, DISK_FULL, FENCED or QUEUE_DISK_FULL. NOT_READABLE has no effect here.
    """

    NOT_READABLE = 1
    NOT_WRITABLE = 2
    QUEUE_ERROR = 4
    INDEX_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    QUEUE_DISK_FULL = 64


class RunningFlags:
    """The current reasons for refusing messages.

    Attributes:
        refusal: Reasons why puts are refused, in words; None if there are none here. The hot path only reads this.
        pause: Reason for a short pause; not a flag of RocketMQ.
        hold: Reason for a pause while the log is truncated.
        on_raise: Called when a flag is newly set.
    """

    def __init__(self) -> None:
        self._reasons: dict[RunningFlag, str] = {}
        self.refusal: str | None = None
        self.pause: str | None = None
        self.hold: str | None = None
        self.on_raise: Callable[[], None] = lambda: None

    @property
    def bits(self) -> int:
        """The flags that are set, as RocketMQ's bits."""
        return sum(self._reasons)

    def has(self, flag: RunningFlag) -> bool:
        """Return whether a flag is set, perhaps among others."""
        return flag in self._reasons

    def raise_flag(self, flag: RunningFlag, reason: str) -> None:
        """Set a flag with the reason that senders get, and call `on_raise`; if it is set, only replace the reason."""
        is_new = flag not in self._reasons
        self._reasons[flag] = reason
        self._refresh()
        if is_new:
            self.on_raise()

    def clear(self, flag: RunningFlag) -> bool:
        """Clear a flag; return False if it was not set."""
        was_there = self._reasons.pop(flag, None) is not None
        self._refresh()
        return was_there

    def set_pause(self, reason: str | None) -> None:
        """Set the reason for a short pause; None ends the pause."""
        self.pause = reason
        self._refresh()

    def set_hold(self, reason: str | None) -> None:
        """Set the reason for a pause while the log is truncated; None ends the pause."""
        self.hold = reason
        self._refresh()

    @property
    def passing(self) -> str | None:
        """Text of the part of the refusal that ends by itself soon (pause, hold); None if there is none."""
        return (
            "; ".join(words for words in (self.pause, self.hold) if words is not None) or None
        )

    def _refresh(self) -> None:
        words = [
            words for flag, words in self._reasons.items() if flag != RunningFlag.NOT_READABLE
        ]
        if self.passing is not None:
            words.append(self.passing)
        self.refusal = "; ".join(words) or None
