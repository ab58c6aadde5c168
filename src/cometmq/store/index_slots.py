"""The hash slots of an index file that is continued: read, set back to valid entries, or rebuilt."""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cometmq.codec.index_file import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    IndexEntry,
    decode_entry,
    entry_position,
)
from cometmq.store.disk import Disk, opened
from cometmq.store.index_file import IndexShape, blank_slots

_PIECE_SIZE = 1 << 20
_ENTRIES_A_PIECE = _PIECE_SIZE // INDEX_ENTRY_SIZE
_SLOTS_A_PIECE = _PIECE_SIZE // INDEX_SLOT_SIZE


class LoadedSlots(NamedTuple):
    """The slots of an index file.

    Attributes:
        table: Newest entry number of each slot; 0 without one.
        used: Number of slots with an entry.
        are_mended: Whether they may differ from those in the file.
    """

    table: "memoryview[int]"
    used: int
    are_mended: bool


class EntryReader:
    """Reads the entries and slots of an open index file."""

    def __init__(self, disk: Disk, fd: int, shape: IndexShape) -> None:
        self._disk = disk
        self._fd = fd
        self._slot_count = shape.slots

    def entry(self, number: int) -> IndexEntry:
        """Return the index entry with this number."""
        position = entry_position(number, self._slot_count)
        return decode_entry(self._disk.pread(self._fd, INDEX_ENTRY_SIZE, position))

    def hashes(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield (number, key hash) of the entries with numbers below `count`, in order."""
        for first in range(1, count, _ENTRIES_A_PIECE):
            size = min(_ENTRIES_A_PIECE, count - first) * INDEX_ENTRY_SIZE
            piece = self._disk.pread(self._fd, size, entry_position(first, self._slot_count))
            for number, entry in enumerate(INDEX_ENTRY.iter_unpack(piece), first):
                yield number, entry[0]

    def count_before(self, physical_offset: int, count: int) -> int:
        """Return the first entry number below `count` whose record is not before an offset; `count` if there is none."""
        numbers = range(1, count)
        return 1 + bisect_left(
            numbers, physical_offset, key=lambda number: self.entry(number).physical_offset
        )

    def slots(self) -> Iterator[tuple[int, "array[int]"]]:
        """Yield (first slot number, slots) for each MiB of slots, skipping parts without any entry."""
        size = self._slot_count * INDEX_SLOT_SIZE
        for start in range(0, size, _PIECE_SIZE):
            content = self._disk.pread(
                self._fd, min(_PIECE_SIZE, size - start), INDEX_HEADER_SIZE + start
            )
            if content != bytes(len(content)):
                piece = array("i", content)
                if sys.byteorder == "little":
                    piece.byteswap()
                yield start // INDEX_SLOT_SIZE, piece


@contextmanager
def entry_reader(disk: Disk, path: str, shape: IndexShape) -> Iterator[EntryReader]:
    """Open an index file, provide a reader of its entries to a `with` block, and close the file afterwards."""
    with opened(disk, path, write=False) as fd:
        yield EntryReader(disk, fd, shape)


def read_slots(reader: EntryReader, shape: IndexShape) -> "memoryview[int]":
    """Return the slots of an index file as they are stored."""
    table = blank_slots(shape.slots)  # Empty pieces use no memory.
    for start, piece in reader.slots():
        table[start : start + len(piece)] = memoryview(piece)
    return table


def mend_slots(
    reader: EntryReader,
    shape: IndexShape,
    count: int,
    table: "memoryview[int] | None" = None,
) -> LoadedSlots:
    """Return the slots, set back to entries with numbers below `count`; a given `table` is changed in place.

    A slot whose newest entry has a larger number is set back along its chain. If a power cut broke the chain, all slots
    are rebuilt from the entries in a new table, which takes seconds for a full file.

    Args:
        reader: Reader of the file.
        shape: Sizes of the file.
        count: Number of the next entry.
        table: Slots to change; None to read them from the file.
    """
    if table is None:
        table = read_slots(reader, shape)
    # Negative numbers, which no broker writes, become large ones.
    unsigned = table.cast("B").cast("I")
    newer: list[int] = []
    for start in range(0, shape.slots, _SLOTS_A_PIECE):
        piece = unsigned[start : start + _SLOTS_A_PIECE]
        if max(piece) >= count:
            newer += [start + at for at, number in enumerate(piece) if number >= count]
    for slot in newer:
        number = _led_back(reader, slot, table[slot], count, shape)
        if number is None:
            return rebuild_slots(reader, shape, count)
        table[slot] = number
    return LoadedSlots(table, sum(map(bool, table)), bool(newer))


def _led_back(
    reader: EntryReader, slot: int, number: int, count: int, shape: IndexShape
) -> int | None:
    """Return the number of a slot's newest entry below `count`, 0 without one; None if the chain is broken."""
    while not 0 <= number < count:
        if not 0 <= number < shape.entries:
            return None
        entry = reader.entry(number)
        # An entry of zeros was never written, although 0 is a valid hash for the first slot.
        is_there = any(entry) and entry.key_hash % shape.slots == slot
        if not is_there or not 0 <= entry.previous < number:
            return None
        number = entry.previous
    return number


def rebuild_slots(reader: EntryReader, shape: IndexShape, count: int) -> LoadedSlots:
    """Return the slots of an index file, computed from its entries with numbers below `count`."""
    table = blank_slots(shape.slots)
    used = 0
    for number, key_hash in reader.hashes(count):
        slot = key_hash % shape.slots
        used += table[slot] == 0
        table[slot] = number
    return LoadedSlots(table, used, are_mended=True)
