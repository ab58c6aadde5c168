"""The messages of one queue that were pulled and are not consumed yet (ProcessQueue of Java's client).

Listeners finish in any order; what may be committed is the smallest offset that is not finished,
since a consumer that starts again begins there. What one pull brought is one run, and is finished by one
step where it is consumed as a whole.
"""

from bisect import bisect_right
from collections import deque
from itertools import islice, repeat
from operator import attrgetter, lt


class _PulledRun:
    """Offsets that came together, rising, and their sizes.

    Attributes:
        first: the smallest.
        last: the largest.
        open: the sizes of those that are not finished, by their offsets; None: all are open.
    """

    __slots__ = ("first", "last", "offsets", "open", "sizes")

    def __init__(self, offsets: list[int], sizes: list[int]) -> None:
        self.first = offsets[0]
        self.last = offsets[-1]
        self.offsets = offsets
        self.sizes = sizes
        self.open: dict[int, int] | None = None

    def opened(self) -> dict[int, int]:
        """The sizes of those that are not finished, in the order of their offsets."""
        if self.open is None:
            self.open = dict(zip(self.offsets, self.sizes, strict=True))
        return self.open

    @property
    def smallest(self) -> int:
        """The smallest that is not finished."""
        return self.first if self.open is None else next(iter(self.open))


_first = attrgetter("first")


class ProcessQueue:
    """Offsets of cached messages and their sizes.

    Attributes:
        count: messages cached.
        size: their bodies' bytes.
        next_offset: what to commit: everything before it is consumed. None until something came.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.count = 0
        self.size = 0
        self.next_offset: int | None = None
        # Invariant: the first is not finished, so it has the smallest offset that is not.
        self._runs: deque[_PulledRun] = deque()

    def add(self, offsets: list[int], sizes: list[int]) -> None:
        """Add messages, behind those that are here: queue offsets, and bytes of each."""
        runs = self._runs
        last = runs[-1].last if runs else -1
        if not offsets or offsets[0] <= last or not _are_rising(offsets):
            offsets, sizes = self._unknown(offsets, sizes)
            if not offsets:
                return
            assert offsets[0] > last, "offsets of a queue rise"
        if not runs:
            # What lay between matched nothing, and needs no second look.
            self.next_offset = offsets[0]
        runs.append(_PulledRun(offsets, sizes))
        self.count += len(offsets)
        self.size += sum(sizes)

    def _unknown(self, offsets: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
        """Leave out what is cached, and give the rest once each, in the order of their offsets."""
        new = dict(zip(offsets, sizes, strict=True))
        for run in self._runs:
            for offset in run.opened().keys() & new.keys():
                del new[offset]
        rising = sorted(new)
        return rising, [new[offset] for offset in rising]

    def finish(self, offsets: list[int]) -> None:
        """Remove messages that were consumed, or sent back; one that is not cached is ignored."""
        runs = self._runs
        if not (runs and offsets):
            return
        run = runs[0]
        if offsets[0] > run.last:  # Mostly they are finished in their order.
            run = runs[bisect_right(runs, offsets[0], key=_first) - 1]
        if run.open is None and run.offsets == offsets:
            run.open = {}
            self.count -= len(offsets)
            self.size -= sum(run.sizes)
        elif len(offsets) > 1 and not run.first <= min(offsets) <= max(offsets) <= run.last:
            for offset in offsets:
                self.finish([offset])
            return
        else:
            opened = run.opened()
            before = len(opened)
            self.size -= sum(map(opened.pop, offsets, repeat(0)))
            self.count -= before - len(opened)
        if run is runs[0]:
            self._move_on(run)

    def _move_on(self, run: _PulledRun) -> None:
        """Leave finished runs behind, from the first on, and say what may be committed."""
        runs = self._runs
        while run.open is not None and not run.open:
            runs.popleft()
            if not runs:
                self.next_offset = run.last + 1
                return
            run = runs[0]
        self.next_offset = run.smallest

    @property
    def cached(self) -> tuple[int, int]:
        """The number of cached messages, and bytes of their bodies."""
        return self.count, self.size

    @property
    def smallest(self) -> int | None:
        """The smallest offset cached."""
        return self._runs[0].smallest if self._runs else None

    @property
    def span(self) -> int:
        """The distance between the smallest offset cached and the largest of those that came last."""
        smallest = self.smallest
        return 0 if smallest is None else self._runs[-1].last - smallest


def _are_rising(offsets: list[int]) -> bool:
    return all(map(lt, offsets, islice(offsets, 1, None)))
