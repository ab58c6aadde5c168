"""The timer wheel: for each time slot (by default a second) of the next days, the place of its messages in timerlog.

There are 1,209,600 slots of 32 bytes, found by time; a slot that holds another time counts as empty. Their memory is allocated
page by page, so unused parts cost nothing. Only changed pages are written. Source: TimerWheel of RocketMQ 5.3.3.
"""

import mmap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cometmq.codec.timer_files import EMPTY_SLOT, TIMER_SLOT, TIMER_SLOT_SIZE, TimerSlot
from cometmq.model.errors import StoreDamaged
from cometmq.store.disk import Disk, opened, write_whole

# TimerMessageStore: 7 days of seconds; the wheel has room for twice as many.
SLOTS_TOTAL = 7 * 24 * 3600
WHEEL_SLOTS = 2 * SLOTS_TOTAL
WHEEL_SIZE = WHEEL_SLOTS * TIMER_SLOT_SIZE

_PAGE_SIZE = 4096
_READ_SIZE = 1 << 20
_NO_SLOTS = bytes(_PAGE_SIZE)


class WheelPage(NamedTuple):
    """A piece of the wheel: its offset in the file and its bytes."""

    offset: int
    content: bytes


class TimerWheel:
    """The slots, in memory and in their file; each covers `precision_ms` of time."""

    def __init__(self, disk: Disk, path: str, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self._disk = disk
        self.path = path
        # Unwritten pages of a map use no memory; a bytearray would be written completely.
        self._slots = mmap.mmap(-1, WHEEL_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._pages: set[int] = set()  # Numbers of pages that were ever written,
        self._changed: set[int] = set()  # and since the last save.

    def load(self) -> None:
        """Read the wheel's file if it exists; raise StoreDamaged if it has a wrong size, OSError if the disk fails."""
        if not self._disk.exists(self.path):
            return
        with opened(self._disk, self.path, write=False) as fd:
            self._disk.pread(fd, 1, 0)  # Fails for a directory, whatever its size.
            size = self._disk.size(fd)
            if size not in (0, WHEEL_SIZE):
                raise StoreDamaged(
                    f"{self.path} has {size} bytes, but a timer wheel has {WHEEL_SIZE}; move it away, "
                    "and it is rebuilt from timerlog"
                )
            for offset in range(0, size, _READ_SIZE):
                self._take(self._disk.pread(fd, min(_READ_SIZE, size - offset), offset), offset)

    def _take(self, piece: bytes, offset: int) -> None:
        """Copy a piece of the file into the slots, skipping pages that contain only zeros."""
        if piece == bytes(len(piece)):
            return
        for start in range(0, len(piece), _PAGE_SIZE):
            page = piece[start : start + _PAGE_SIZE]
            if page != _NO_SLOTS[: len(page)]:
                self._slots[offset + start : offset + start + len(page)] = page
                self._pages.add((offset + start) // _PAGE_SIZE)

    # --- slots

    def slot(self, time_ms: int) -> TimerSlot:
        """Return the slot of a time; an empty one if the wheel has none for it."""
        time = time_ms // self.precision_ms
        found = TIMER_SLOT.unpack_from(self._slots, time % WHEEL_SLOTS * TIMER_SLOT_SIZE)
        return TimerSlot._make(found) if found[0] == time else EMPTY_SLOT

    def next_used_page(self, from_ms: int, until_ms: int) -> int:
        """Return a time up to `until_ms` so that no slot from `from_ms` to it was ever used; at least `from_ms`."""
        time, until = from_ms // self.precision_ms, until_ms // self.precision_ms
        per_page = _PAGE_SIZE // TIMER_SLOT_SIZE
        while time < until:
            place = time % WHEEL_SLOTS
            if place // per_page in self._pages:
                break
            time += per_page - place % per_page
        return max(min(time, until) * self.precision_ms, from_ms)

    def put(self, time_ms: int, *, first: int, last: int, count: int) -> None:
        """Set the positions of the first and the last unit, and the number of messages, of a time's slot."""
        time = time_ms // self.precision_ms
        at = time % WHEEL_SLOTS * TIMER_SLOT_SIZE
        TIMER_SLOT.pack_into(self._slots, at, time, first, last, count, 0)
        self._pages.add(at // _PAGE_SIZE)
        self._changed.add(at // _PAGE_SIZE)

    def revise(self, time_ms: int, position: int) -> None:
        """Append the unit at a position of timerlog to a time's slot, unless the slot has it or a later one."""
        slot = self.slot(time_ms)
        if slot is EMPTY_SLOT:
            self.put(time_ms, first=position, last=position, count=1)
        elif slot.last < position:
            self.put(time_ms, first=slot.first, last=position, count=slot.unit_count + 1)

    def forget_from(self, position: int) -> int | None:
        """Empty each slot whose last unit is at or after a position of timerlog.

        Return the smallest first position of these slots, from which the log must be read again; None without any.
        """
        first = None
        for index, slot in self._used():
            if slot.last >= position:
                first = slot.first if first is None else min(first, slot.first)
                at = index * TIMER_SLOT_SIZE
                TIMER_SLOT.pack_into(self._slots, at, *EMPTY_SLOT)
                self._changed.add(at // _PAGE_SIZE)
        return first

    def waiting(self, from_ms: int) -> Iterator[TimerSlot]:
        """Return an iterator over the used slots from a time on, in any order."""
        time = from_ms // self.precision_ms
        return (slot for _, slot in self._used() if slot.time >= time)

    def _used(self) -> Iterator[tuple[int, TimerSlot]]:
        """Yield the slots that are not empty, of any time, with their indexes."""
        view = memoryview(self._slots)
        per_page = _PAGE_SIZE // TIMER_SLOT_SIZE
        for number in sorted(self._pages):
            # A copy, because the caller may write meanwhile.
            page = bytes(view[number * _PAGE_SIZE : (number + 1) * _PAGE_SIZE])
            for place, found in enumerate(TIMER_SLOT.iter_unpack(page)):
                if found[0] > 0:
                    yield number * per_page + place, TimerSlot._make(found)

    # --- the file

    def take_changed(self) -> list[WheelPage]:
        """Return copies of the wheel's pages that changed since the last call, to be written."""
        view = memoryview(self._slots)
        pages = [
            WheelPage(
                number * _PAGE_SIZE,
                bytes(view[number * _PAGE_SIZE : (number + 1) * _PAGE_SIZE]),
            )
            for number in sorted(self._changed)
        ]
        self._changed.clear()
        return pages

    def give_back(self, pages: Iterable[WheelPage]) -> None:
        """Mark pages of the wheel that could not be written as changed again."""
        self._changed.update(page.offset // _PAGE_SIZE for page in pages)

    def write(self, pages: Iterable[WheelPage]) -> None:
        """Write and sync pages; after an OSError, some of them may be written. Any thread, one at a time."""
        with opened(self._disk, self.path, create=True) as fd:
            if self._disk.size(fd) == 0:
                # First its size, then its name: a wheel of another size would be refused.
                self._disk.resize(fd, WHEEL_SIZE)
                self._disk.fdatasync(fd)
                self._disk.sync_directory(self.path.rpartition("/")[0])
            for page in pages:
                write_whole(self._disk, fd, page.content, page.offset)
            self._disk.fdatasync(fd)
