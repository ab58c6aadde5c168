"""One index file. A file that grows has its slots in memory; those of full ones are read from disk once synced.

    entries -> `unwritten` -> the file, in order
    slots in memory -> copies of the pages that changed -> the file, by a checkpoint

A page of slots is written after its entries are on the device (docs/design/0002). Format: cometmq.codec.index_file.
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
RUN_PAGES_MAX = 256  # 1 MiB: copying it takes about 0.5 ms, the limit for one tick.

_SLOTS_A_PAGE = PAGE_SIZE // INDEX_SLOT_SIZE
_SLOTS_BEFORE = INDEX_HEADER_SIZE // INDEX_SLOT_SIZE  # Pages are counted from the file's start.


class IndexShape(NamedTuple):
    """The size of every index file of a store.

    Attributes:
        slots: Number of slots (maxHashSlotNum).
        entries: Number of entries (maxIndexNum), including the unused entry 0.
    """

    slots: int
    entries: int

    @property
    def file_size(self) -> int:
        """Size of an index file in bytes."""
        return index_file_size(self.slots, self.entries)


class SlotRun(NamedTuple):
    """A copy of adjacent slots: their position in the file and their bytes."""

    position: int
    content: memoryview


class IndexFile:
    """One file of the message index, as RocketMQ's: a header, hash slots, and entries chained from the slots.

    Attributes:
        header: Current header; the one on disk may be that of an earlier checkpoint.
        slots: Newest entry number of each slot; None if they must be read from the file.
        is_changed: Whether slots or header have changed since the last `changed_runs`.
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
        # One byte per page of slots: whether a slot in it changed since the last round.
        self._changed = bytearray(-(-(_SLOTS_BEFORE + shape.slots) // _SLOTS_A_PAGE))
        self.is_changed = False
        self._fd = -1

    def make(self) -> None:
        """Create the file, sparse and empty, and prepare it for inserts; raise OSError if that fails."""
        self._fd = self._disk.open(self.path, create=True)
        self._disk.resize(self._fd, self.shape.file_size)
        write_whole(self._disk, self._fd, encode_header(self.header), 0)
        self.slots = blank_slots(self.shape.slots)

    def grow_again(
        self, header: IndexHeader, slots: "memoryview[int]", *, are_changed: bool
    ) -> None:
        """Prepare an existing file for inserts into these slots; with `are_changed`, a checkpoint writes them all."""
        self.header = header
        self.slots = slots
        self._written_count = header.index_count
        self._unwritten.clear()
        self._changed[:] = (b"\1" if are_changed else b"\0") * len(self._changed)
        self.is_changed = are_changed

    @property
    def name(self) -> str:
        """Name of the index file without its directory."""
        return self.path.rpartition("/")[2]

    @property
    def room(self) -> int:
        """Number of entries that still fit into the index file; the first entry number is never used."""
        return self.shape.entries - self.header.index_count

    def insert(self, keys: Keys) -> None:
        """Add entries (at least one) in memory, in the order of their records; they must fit.

        `write_entries` writes them to the file.
        """
        if self.header.index_count == 1 and len(keys) > KEY_NUMBERS:
            # The first key sets the time that all others are relative to.
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
        """Append the inserted entries to the file; if that raises OSError, they are kept for the next attempt."""
        if self._unwritten:
            if self._fd < 0:
                self._fd = self._disk.open(self.path)
            position = entry_position(self._written_count, self.shape.slots)
            write_whole(self._disk, self._fd, bytes(self._unwritten), position)
            self._written_count += len(self._unwritten) // INDEX_ENTRY_SIZE
            self._unwritten.clear()

    def changed_runs(self) -> Iterator[SlotRun]:
        """Return an iterator that copies, as it advances, the pages of hash slots that changed since the previous call."""
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
        # Anonymous memory returns to the system after the last copy. From the heap, up to 20 MB every second or two
        # would fragment and never be returned.
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
        """Return the position in the file of the slots of adjacent pages, and these slots as the file stores them."""
        assert self.slots is not None
        start = max(first_page * _SLOTS_A_PAGE - _SLOTS_BEFORE, 0)
        end = end_page * _SLOTS_A_PAGE - _SLOTS_BEFORE
        # Converting from bytes is one copy; from the view, numbers are copied one by one.
        values = array("i", self.slots[start:end].tobytes())
        if sys.byteorder == "little":
            values.byteswap()
        return INDEX_HEADER_SIZE + start * INDEX_SLOT_SIZE, values

    def settle(self) -> None:
        """Close an index file that is full and on the device, and free its slots: they are read from disk from now on."""
        self.slots = None
        self.close()

    def close(self) -> None:
        """Close the file if it is open; entries not written yet are kept, and `write_entries` opens it again."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


def blank_slots(count: int) -> "memoryview[int]":
    """Return a table of empty slots; its memory is allocated page by page on first use."""
    return memoryview(mmap.mmap(-1, count * INDEX_SLOT_SIZE)).cast("i")
