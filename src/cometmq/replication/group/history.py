"""Values that change along a log, each with the offset at which it begins: terms of leaders, members of the group.

RocketMQ keeps terms in this form in `epochFileCheckpoint` (org.apache.rocketmq.store.ha.autoswitch.EpochFileCache 5.3).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Row(NamedTuple, Generic[Value]):
    """A value and the offset of the first byte that it applies to."""

    start: int
    value: Value


class History(Generic[Value]):
    """Rows in the order of their offsets. A value applies up to the start of the next row, the last one up to the log's end.

    Before the first row, the value is `initial`.
    """

    def __init__(self, initial: Value, rows: Iterable[Row[Value]] = ()) -> None:
        self._initial = initial
        self._rows = list(rows)
        assert all(a.start < b.start for a, b in zip(self._rows, self._rows[1:], strict=False))

    @property
    def rows(self) -> tuple[Row[Value], ...]:
        """All rows, in the order of their offsets."""
        return tuple(self._rows)

    @property
    def last(self) -> Value:
        """The value of the last row; the initial value if there is no row."""
        return self._rows[-1].value if self._rows else self._initial

    def at(self, offset: int) -> Value:
        """Return the value that applies to the byte at `offset`; before the first row, the initial value."""
        number = bisect_right(self._rows, offset, key=_start)
        return self._rows[number - 1].value if number else self._initial

    def before(self, offset: int) -> Value:
        """Return the value that applies to the byte before `offset`."""
        return self.at(offset - 1)

    def start_of_last(self) -> int:
        """Return the offset at which the last value begins; 0 if there is no row."""
        return self._rows[-1].start if self._rows else 0

    def add(self, start: int, value: Value) -> bool:
        """Begin a value at `start`, in place of one that begins there and has no byte; return whether that adds a row.

        A value equal to the one before adds none.
        """
        assert not self._rows or start >= self._rows[-1].start
        if self._rows and self._rows[-1].start == start:
            self._rows.pop()
        if value == self.last:
            return False
        self._rows.append(Row(start, value))
        return True

    def cut(self, end: int) -> None:
        """Remove the rows that begin at `end` or after it, because the log ends there."""
        del self._rows[bisect_left(self._rows, end, key=_start) :]

    def drop_before(self, begin: int) -> None:
        """Remove rows that apply neither to the byte before `begin`, where the log begins now, nor to a later one."""
        number = bisect_left(self._rows, begin, key=_start)
        if number > 1:
            del self._rows[: number - 1]

    def between(self, begin: int, end: int) -> tuple[Row[Value], ...]:
        """Return the values of the bytes from `begin` to `end` as rows, the first starting at `begin`."""
        if begin >= end:
            return ()
        first = bisect_right(self._rows, begin, key=_start)
        last = bisect_left(self._rows, end, key=_start)
        return (Row(begin, self.at(begin)), *self._rows[first:last])


def first_difference(
    ours: tuple[Row[Value], ...], theirs: tuple[Row[Value], ...], end: int
) -> int:
    """Return the first offset before `end` at which two histories differ, or `end`.

    Both begin at the same offset, as `History.between` returns them.
    """
    our_values, their_values = dict(ours), dict(theirs)
    our_value: Value | None = None
    their_value: Value | None = None
    for start in sorted(our_values.keys() | their_values.keys()):
        our_value = our_values.get(start, our_value)
        their_value = their_values.get(start, their_value)
        if start < end and our_value != their_value:
            return start
    return end


def shared_end(ours: History[int], theirs: History[int], end: int) -> int:
    """Return the offset up to which two logs are equal, by the histories of their terms; `end` is the shorter's end.

    A leader writes a term's bytes once: two logs with the same term at an offset are equal up to there (Raft 5.3).
    """
    starts = {row.start for row in (*ours.rows, *theirs.rows) if row.start < end}
    for start in sorted(starts, reverse=True):
        if ours.at(start) == theirs.at(start):
            return end
        end = start
    return 0


def _start(row: Row[Value]) -> int:
    return row.start
