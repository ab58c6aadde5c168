"""One index file: the one that grows has its slots in memory, the others are on disk alone.

    entries -> `unwritten` -> the file, in order
    slots in memory -> copies of the pages that changed -> the file, by a checkpoint

A page of slots is written after the entries that it points at are on the device, never before
(docs/design/0002). The layout is cometmq.codec.index_file.
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
    index_file_size,
)
from cometmq.kernel import insert_keys
from cometmq.kernel.keys import KEY_NUMBERS
from cometmq.kernel.rows import Keys
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
    content: memoryview


class IndexFile:
    """An index file.

    Attributes:
        path: its name.
        header: as it is now; on disk it is as the last checkpoint left it.
        slots: the newest entry of each slot while the file grows, and until what it became is on
            the device; None where all of it is in the file.
        is_changed: whether something was inserted since the last `changed_runs`.
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
        # Of each page that slots stand in, whether one of them has changed since the last round.
        self._changed = bytearray(-(-(_SLOTS_BEFORE + shape.slots) // _SLOTS_A_PAGE))
        self.is_changed = False
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
        self._changed[:] = (b"\1" if are_changed else b"\0") * len(self._changed)
        self.is_changed = are_changed

    @property
    def name(self) -> str:
        """The file's name without its directory."""
        return self.path.rpartition("/")[2]

    @property
    def room(self) -> int:
        """The number of entries that the file can still take; the first number is not used."""
        return self.shape.entries - self.header.index_count

    def insert(self, keys: Keys) -> None:
        """Add entries, at least one, in the order of their records; there must be room."""
        if self.header.index_count == 1 and len(keys) > KEY_NUMBERS:
            # The first one sets the time that the others count from.
            self.insert(keys[:KEY_NUMBERS])
            keys = keys[KEY_NUMBERS:]
        assert self.slots is not None
        begin_ms, _, begin, _, used, number = self.header
        entries, fresh = insert_keys(
            self.slots, number, keys, begin_ms, self._changed, _SLOTS_BEFORE, _SLOTS_A_PAGE
        )
        self._unwritten += entries
        if number == 1:
            _, begin, begin_ms = keys[:KEY_NUMBERS]
        _, end, end_ms = keys[-KEY_NUMBERS:]
        count = len(keys) // KEY_NUMBERS
        self.header = IndexHeader(begin_ms, end_ms, begin, end, used + fresh, number + count)
        self.is_changed = True

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

    def changed_runs(self) -> Iterator[SlotRun]:
        """Copies of the slots that changed since the last time, each made when it is asked for."""
        pages, page = [], self._changed.find(1)
        while page >= 0:
            pages.append(page)
            page = self._changed.find(1, page + 1)
        self._changed[:] = bytes(len(self._changed))
        self.is_changed = False
        return self._copies(pages)

    def _copies(self, pages: Sequence[int]) -> Iterator[SlotRun]:
        if not pages:
            return
        # With the last copy this goes back to the system. Up to 20 MB a second or two from the heap would stay
        # there, in pieces between what was taken meanwhile.
        room = memoryview(mmap.mmap(-1, len(pages) * PAGE_SIZE))
        at = 0
        while at < len(pages):
            end = at + 1
            while (
                end < len(pages)
                and pages[end] == pages[end - 1] + 1
                and end - at < RUN_PAGES_MAX
            ):
                end += 1
            position, content = self._slots_of(pages[at], pages[end - 1] + 1)
            copy = room[at * PAGE_SIZE :][: content.itemsize * len(content)]
            copy[:] = memoryview(content).cast("B")
            yield SlotRun(position, copy)
            at = end

    def _slots_of(self, first_page: int, end_page: int) -> tuple[int, "array[int]"]:
        """The slots of neighbouring pages: where they begin in the file, and what it has there."""
        assert self.slots is not None
        start = max(first_page * _SLOTS_A_PAGE - _SLOTS_BEFORE, 0)
        end = end_page * _SLOTS_A_PAGE - _SLOTS_BEFORE
        # From bytes it is one copy; from the view itself it would be a number at a time.
        values = array("i", self.slots[start:end].tobytes())
        if sys.byteorder == "little":
            values.byteswap()
        return INDEX_HEADER_SIZE + start * INDEX_SLOT_SIZE, values

    def settle(self) -> None:
        """Close a full file that is on the device: from now on it is read from there."""
        self.slots = None
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


def blank_slots(count: int) -> "memoryview[int]":
    """A table of empty slots, whose memory is taken page by page as it is used."""
    return memoryview(mmap.mmap(-1, count * INDEX_SLOT_SIZE)).cast("i")
