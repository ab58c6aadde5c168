"""The places of a machine before each of its last writes, for when the log's end is taken back.

A machine that has delivered a message knows how far it is; where the log is truncated to before that message it has
to go back to where it was before it wrote it, and deliver it again.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from cometmq.store.appender import PutResult

T = TypeVar("T")

# A truncation behind more writes than these goes back to before the oldest of them.
WRITES_MAX = 4_096


class PutMarks(Generic[T]):
    """The last writes of one machine, each with what stood before it."""

    def __init__(self) -> None:
        """Begin without any mark."""
        self._marks: deque[tuple[int, T]] = deque(maxlen=WRITES_MAX)

    def note_put(self, results: Sequence[PutResult], before: T) -> None:
        """Messages were written; `before` is how far their machine was."""
        if results:
            _, physical_offset, size = results[-1]
            self.note(physical_offset + size, before)

    def note(self, end: int, before: T) -> None:
        """The log ends at `end` now; `before` held before its last part was written."""
        assert not self._marks or self._marks[-1][0] <= end, "the log grows"
        self._marks.append((end, before))

    def go_back(self, end: int) -> T | None:
        """The place before the first write behind `end`, the log's new end; None where no write goes."""
        before = None
        while self._marks and self._marks[-1][0] > end:
            _, before = self._marks.pop()
        return before
