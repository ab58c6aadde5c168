"""Remembers the positions of a background job before its last 4,096 writes, in case the log is truncated.

If the log loses a delivery in a truncation, the job must return to its position before that write and deliver again.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from cometmq.store.appender import PutResult

T = TypeVar("T")

# If a truncation removes more writes than this, the job returns to the position before the oldest that is remembered.
WRITES_MAX = 4_096


class PutMarks(Generic[T]):
    """The last writes of one background job, each with the job's position before it."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, T]] = deque(maxlen=WRITES_MAX)

    def note_put(self, results: Sequence[PutResult], before: T) -> None:
        """Note that messages were written, if `results` has any; `before` is the job's position before that."""
        if results:
            _, physical_offset, size = results[-1]
            self.note(physical_offset + size, before)

    def note(self, end: int, before: T) -> None:
        """Note that the log now ends at `end`; `before` is the job's position before the log's last part was written."""
        assert not self._marks or self._marks[-1][0] <= end, "the log grows"
        self._marks.append((end, before))

    def go_back(self, end: int) -> T | None:
        """Forget writes that ended after the log's new `end`; return the job's position before the oldest of them, or None."""
        before = None
        while self._marks and self._marks[-1][0] > end:
            _, before = self._marks.pop()
        return before
