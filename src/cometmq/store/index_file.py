"""One index file: the one that grows has its slots in memory, the others are on disk alone.

    entries -> `unwritten` -> the file, in order
    slots in memory -> copies of the pages that changed -> the file, by a checkpoint

A page of slots is written after the entries that it points at are on the device, never before
(docs/design/0006). The layout is cometmq.codec.index_file.

Next: cometmq.store.index_search
"""

import mmap
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    IndexHeader,
    encode_header,
    entry_position,
    entry_seconds,
    index_file_size,
)
from cometmq.kernel import index_insert
from cometmq.store.disk import Disk, write_whole

PAGE_SIZE = 4096
RUN_PAGES_MAX = 256  # 1 MiB: about 0.5 ms to copy, which is what a tick may take.

_SLOTS_A_PAGE = PAGE_SIZE // INDEX_SLOT_SIZE
_SLOTS_BEFORE = INDEX_HEADER_SIZE // INDEX_SLOT_SIZE  # Pages count from the file's start.


class IndexShape(NamedTuple):
    """The sizes that all index files of a store have.

    Attributes:
        slots: maxHashSlotNum.
        entries: maxIndexNum; entry 0 counts, unused.
    """

    slots: int
    entries: int

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return index_file_size(self.slots, self.entries)


class SlotRun(NamedTuple):
    """A copy of neighbouring slots: their bytes, and where they go in the file."""

    position: int
    content: bytes


class IndexFile:
    """An index file.

    Attributes:
        path: its name.
        header: as it is now; on disk it is as the last checkpoint left it.
        slots: the newest entry of each slot while the file grows, and until what it became is on
            the device; None where all of it is in the file.
    """

    def __init__(
        self, disk: Disk, path: str, shape: IndexShape, *, header: IndexHeader
    ) -> None:
        self._disk = disk
        self.path = path
        self.shape = shape
        self.header = header
        self.slots: memoryview[int] | None = None
        self._unwritten = bytearray()
        self._written_count = header.index_count
        self._changed: list[int] | None = []  # Hashes since the last round; None: very many.
        self._fd = -1

    def make(self) -> None:
        """Make the file, sparse and empty, to be inserted into.

        Raises:
            OSError: it could not be made.
        """
        self._fd = self._disk.open(self.path, create=True)
        self._disk.resize(self._fd, self.shape.file_size)
        write_whole(self._disk, self._fd, encode_header(self.header), 0)
        self.slots = blank_slots(self.shape.slots)

    def grow_again(
        self, header: IndexHeader, slots: "memoryview[int]", *, are_changed: bool
    ) -> None:
        """Go on from what has been found in the file.

        Args:
            header: how far it is.
            slots: all of them.
            are_changed: header or slots differ from those in the file.
        """
        self.header = header
        self.slots = slots
        self._written_count = header.index_count
        self._unwritten.clear()
        self._changed = None if are_changed else []

    @property
    def name(self) -> str:
        """The file's name without its directory."""
        return self.path.rpartition("/")[2]

    @property
    def room(self) -> int:
        """How many entries it can still take; the first number is not used."""
        return self.shape.entries - self.header.index_count

    def insert(
        self, hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]
    ) -> None:
        """Add entries, all of them; there must be room.

        Args:
            hashes: Java's hash of each "topic#key".
            offsets: physical offset of each key's record, bytes; in order.
            times: store time of each key's record, ms.
        """
        if self.header.index_count == 1 and len(hashes) > 1:
            # The first one sets the time that the others count from.
            self.insert(hashes[:1], offsets[:1], times[:1])
            hashes, offsets, times = hashes[1:], offsets[1:], times[1:]
        assert self.slots is not None
        begin_ms, _, begin, _, used, number = self.header
        seconds = {time: entry_seconds(time, begin_ms) for time in set(times)}
        entries, fresh = index_insert(
            self.slots, number, hashes, offsets, [seconds[time] for time in times]
        )
        self._unwritten += entries
        if number == 1:
            begin_ms, begin = times[0], offsets[0]
        self.header = IndexHeader(
            begin_ms, times[-1], begin, offsets[-1], used + fresh, number + len(hashes)
        )
        if self._changed is not None:
            self._changed.extend(hashes)
            if len(self._changed) > self.shape.slots // _SLOTS_A_PAGE:
                self._changed = None  # A slot of almost every page.

    def write_entries(self) -> None:
        """Append what has been inserted to the file.

        Raises:
            OSError: the disk failed or is full; the entries are kept for the next time.
        """
        if self._unwritten:
            if self._fd < 0:
                self._fd = self._disk.open(self.path)
            position = entry_position(self._written_count, self.shape.slots)
            write_whole(self._disk, self._fd, bytes(self._unwritten), position)
            self._written_count += len(self._unwritten) // INDEX_ENTRY_SIZE
            self._unwritten.clear()

    @property
    def is_changed(self) -> bool:
        """Whether something was inserted since the last `changed_runs`."""
        return self._changed is None or bool(self._changed)

    def changed_runs(self) -> Iterator[SlotRun]:
        """Copies of the slots that changed since the last time, each made when it is asked for."""
        changed, self._changed = self._changed, []
        page_count = -(-(_SLOTS_BEFORE + self.shape.slots) // _SLOTS_A_PAGE)
        if changed is None:
            pages: Sequence[int] = range(page_count)
        else:
            count = self.shape.slots
            found = {
                ((abs(value) & 0x7FFFFFFF) % count + _SLOTS_BEFORE) // _SLOTS_A_PAGE
                for value in changed
            }
            pages = sorted(found)
        return self._copies(pages)

    def _copies(self, pages: Sequence[int]) -> Iterator[SlotRun]:
        at = 0
        while at < len(pages):
            end = at + 1
            while (
                end < len(pages)
                and pages[end] == pages[end - 1] + 1
                and end - at < RUN_PAGES_MAX
            ):
                end += 1
            yield self._copy(pages[at], pages[end - 1] + 1)
            at = end

    def _copy(self, first_page: int, end_page: int) -> SlotRun:
        """The slots of neighbouring pages as the file has them."""
        assert self.slots is not None
        start = max(first_page * _SLOTS_A_PAGE - _SLOTS_BEFORE, 0)
        end = end_page * _SLOTS_A_PAGE - _SLOTS_BEFORE
        # From bytes it is one copy; from the view itself it would be a number at a time.
        values = array("i", self.slots[start:end].tobytes())
        if sys.byteorder == "little":
            values.byteswap()
        return SlotRun(INDEX_HEADER_SIZE + start * INDEX_SLOT_SIZE, values.tobytes())

    def settle(self) -> None:
        """It is full and on the device: from now on it is read from there."""
        self.slots = None
        self.close()

    def close(self) -> None:
        """Close it."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


def blank_slots(count: int) -> "memoryview[int]":
    """A table of empty slots, whose memory is taken page by page as it is used."""
    return memoryview(mmap.mmap(-1, count * INDEX_SLOT_SIZE)).cast("i")
