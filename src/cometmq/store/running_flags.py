"""RocketMQ's running flags: the reasons why the store takes no message, or gives none.

| 1 not readable | 2 not writable | 4 queue error | 8 index error | 16 disk full | 32 fenced |
| 64 queue disk full |

Every flag but the first stops writing. The bits are RunningFlags of RocketMQ 5.3.3, which
runtime statistics show; the reason in words is ours, for the sender's answer.
"""

from collections.abc import Callable
from enum import IntFlag


class RunningFlag(IntFlag):
    """One reason."""

    NOT_READABLE = 1
    NOT_WRITABLE = 2
    QUEUE_ERROR = 4
    INDEX_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    QUEUE_DISK_FULL = 64


class RunningFlags:
    """The reasons that stand at present.

    Attributes:
        refusal: why a put is refused, in words; None when it is not. The hot path looks at
            this alone.
        pause: why none is taken for this moment; no flag of RocketMQ's.
        hold: the same, while the store itself is at work on its log.
        on_raise: told when a reason begins to stand.
    """

    def __init__(self) -> None:
        self._reasons: dict[RunningFlag, str] = {}
        self.refusal: str | None = None
        self.pause: str | None = None
        self.hold: str | None = None
        self.on_raise: Callable[[], None] = lambda: None

    @property
    def bits(self) -> int:
        """The flags as RocketMQ counts them."""
        return sum(self._reasons)

    def has(self, flag: RunningFlag) -> bool:
        """Whether a reason stands."""
        return flag in self._reasons

    def raise_flag(self, flag: RunningFlag, reason: str) -> None:
        """A reason stands from now on; the newest words count."""
        is_new = flag not in self._reasons
        self._reasons[flag] = reason
        self._refresh()
        if is_new:
            self.on_raise()

    def clear(self, flag: RunningFlag) -> bool:
        """A reason is gone; False when it did not stand."""
        was_there = self._reasons.pop(flag, None) is not None
        self._refresh()
        return was_there

    def set_pause(self, reason: str | None) -> None:
        """Take no message for a moment, or again (None)."""
        self.pause = reason
        self._refresh()

    def set_hold(self, reason: str | None) -> None:
        """Take no message while the store is at work on its log, or again (None)."""
        self.hold = reason
        self._refresh()

    @property
    def passing(self) -> str | None:
        """The part of the refusal that passes by itself in a moment."""
        return (
            "; ".join(words for words in (self.pause, self.hold) if words is not None) or None
        )

    def _refresh(self) -> None:
        """Join the words of what stops writing."""
        words = [
            words for flag, words in self._reasons.items() if flag != RunningFlag.NOT_READABLE
        ]
        if self.passing is not None:
            words.append(self.passing)
        self.refusal = "; ".join(words) or None
