"""The messages of one queue that were pulled and are not consumed yet (ProcessQueue of the Java client).

Listeners finish in any order. The offset to commit is the smallest one that is not consumed, if there is one, because a
restarted consumer starts there. The messages of one pull form a run, which can be finished in one step.
"""

from bisect import bisect_right
from collections import deque
from itertools import islice, repeat
from operator import attrgetter, lt


class _PulledRun:
    """Messages that were pulled together: their offsets in ascending order, and their sizes.

    Attributes:
        first: Smallest offset.
        last: Largest offset.
        open: Sizes of the unconsumed messages by offset; None: all are unconsumed.
    """

    __slots__ = ("first", "last", "offsets", "open", "sizes")

    def __init__(self, offsets: list[int], sizes: list[int]) -> None:
        self.first = offsets[0]
        self.last = offsets[-1]
        self.offsets = offsets
        self.sizes = sizes
        self.open: dict[int, int] | None = None

    def opened(self) -> dict[int, int]:
        """Return the sizes of the unconsumed messages by offset, in ascending order."""
        if self.open is None:
            self.open = dict(zip(self.offsets, self.sizes, strict=True))
        return self.open

    @property
    def smallest(self) -> int:
        return self.first if self.open is None else next(iter(self.open))


_first = attrgetter("first")


class ProcessQueue:
    """Offsets and sizes of the pulled messages of a queue that are not consumed yet.

    Attributes:
        count: Number of these messages.
        size: Total of their sizes as given to `add` (those of the bodies), bytes.
        next_offset: Offset to commit: all added messages before it are finished. None until the first message.
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.next_offset: int | None = None
        # Invariant: the first run is not finished, so it contains the smallest unconsumed offset.
        self._runs: deque[_PulledRun] = deque()

    def add(self, offsets: list[int], sizes: list[int]) -> None:
        """Add messages after the cached ones, by queue offsets and sizes in bytes; ignore offsets that are cached."""
        runs = self._runs
        last = runs[-1].last if runs else -1
        if not offsets or offsets[0] <= last or not _are_rising(offsets):
            offsets, sizes = self._unknown(offsets, sizes)
            if not offsets:
                return
            assert offsets[0] > last, "offsets of a queue rise"
        if not runs:
            # Skipped offsets did not match the filter and need not be read again.
            self.next_offset = offsets[0]
        runs.append(_PulledRun(offsets, sizes))
        self.count += len(offsets)
        self.size += sum(sizes)

    def _unknown(self, offsets: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
        new = dict(zip(offsets, sizes, strict=True))
        for run in self._runs:
            for offset in run.opened().keys() & new.keys():
                del new[offset]
        rising = sorted(new)
        return rising, [new[offset] for offset in rising]

    def finish(self, offsets: list[int]) -> None:
        """Remove messages that were consumed or sent back; offsets that are not cached are ignored."""
        runs = self._runs
        if not (runs and offsets):
            return
        run = runs[0]
        if offsets[0] > run.last:  # They are usually finished in order.
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
        """Remove the oldest pulls whose messages are all consumed, and update the offset to commit."""
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
        """The number of pulled, unconsumed messages and their total size (of the bodies) in bytes."""
        return self.count, self.size

    @property
    def smallest(self) -> int | None:
        """The smallest offset of the pulled, unconsumed messages; None without any."""
        return self._runs[0].smallest if self._runs else None

    @property
    def span(self) -> int:
        """Largest offset of the last messages added minus the smallest unconsumed one; 0 if all are consumed."""
        smallest = self.smallest
        return 0 if smallest is None else self._runs[-1].last - smallest


def _are_rising(offsets: list[int]) -> bool:
    return all(map(lt, offsets, islice(offsets, 1, None)))
