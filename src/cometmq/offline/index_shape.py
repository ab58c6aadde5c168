"""Finds the numbers of slots and entries of an index file from the file itself.

Its size fits many shapes. RocketMQ's default is known by its size; of the others that one is
right in which the first entry is the first record's, its slot leads to an entry of that slot, and
the last entry is the last record's. (Zeros look like a first entry where the log begins at 0.)
"""

import sys
from array import array
from collections.abc import Iterator

from cometmq.codec.index_file import (
    ENTRIES_DEFAULT,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    SLOTS_DEFAULT,
    IndexHeader,
    decode_entry,
    entry_position,
    slot_position,
)
from cometmq.store.disk import Disk
from cometmq.store.index_file import IndexShape
from cometmq.store.zeros import is_zeros

_PIECE_SIZE = 1 << 20


def find_shape(disk: Disk, fd: int, header: IndexHeader) -> IndexShape | None:
    """The shape of an index file; None where no shape fits its size and content.

    Args:
        disk: all files.
        fd: the file.
        header: its header.
    """
    size = disk.size(fd)
    default = IndexShape(SLOTS_DEFAULT, ENTRIES_DEFAULT)
    if size == default.file_size:
        return default
    for shape in _shapes_by_last_entry(disk, fd, header, size):
        if _fits(disk, fd, header, shape) and _ends(disk, fd, header, shape):
            return shape
    # The header may be ahead of the last entry after a kill.
    for entries in range(header.index_count, size // INDEX_ENTRY_SIZE + 1):
        left = size - INDEX_HEADER_SIZE - entries * INDEX_ENTRY_SIZE
        shape = IndexShape(left // INDEX_SLOT_SIZE, entries)
        if left <= 0 or shape.file_size != size:
            continue
        if header.index_count <= 1 or _fits(disk, fd, header, shape):
            return shape
    return None


def _shapes_by_last_entry(
    disk: Disk, fd: int, header: IndexHeader, size: int
) -> Iterator[IndexShape]:
    """The shapes in which the file's last byte that is not zero belongs to its last entry."""
    last = _last_byte(disk, fd)
    number = header.index_count - 1
    for start in range(last - INDEX_ENTRY_SIZE + 1, last + 1):
        slots, rest = divmod(
            start - INDEX_HEADER_SIZE - number * INDEX_ENTRY_SIZE, INDEX_SLOT_SIZE
        )
        entries = (size - INDEX_HEADER_SIZE - slots * INDEX_SLOT_SIZE) // INDEX_ENTRY_SIZE
        shape = IndexShape(slots, entries)
        if not rest and slots > 0 and number > 0 and shape.file_size == size:
            yield shape


def _last_byte(disk: Disk, fd: int) -> int:
    """The position of the last byte that is not zero."""
    for first, stop in reversed(disk.written(fd, 0)):
        end = stop
        while end > first:
            begin = max(end - _PIECE_SIZE, first)
            piece = disk.pread(fd, end - begin, begin)
            if not is_zeros(piece):
                return begin + len(piece.rstrip(b"\0")) - 1
            end = begin
    return 0


def _ends(disk: Disk, fd: int, header: IndexHeader, shape: IndexShape) -> bool:
    """Whether the last entry is the last record's."""
    place = entry_position(header.index_count - 1, shape.slots)
    last = decode_entry(disk.pread(fd, INDEX_ENTRY_SIZE, place))
    return last.physical_offset == header.end_offset


def _fits(disk: Disk, fd: int, header: IndexHeader, shape: IndexShape) -> bool:
    """Whether the first entry looks like one, and its chain like a chain."""
    content = disk.pread(fd, INDEX_ENTRY_SIZE, entry_position(1, shape.slots))
    first = decode_entry(content)
    if first.key_hash < 0 or first.previous or first.seconds:
        return False
    if first.physical_offset != header.begin_offset:
        return False
    slot = first.key_hash % shape.slots
    newest = int.from_bytes(disk.pread(fd, INDEX_SLOT_SIZE, slot_position(slot)))
    if not 0 < newest < header.index_count:
        return False
    content = disk.pread(fd, INDEX_ENTRY_SIZE, entry_position(newest, shape.slots))
    return decode_entry(content).key_hash % shape.slots == slot


def read_slots(disk: Disk, fd: int, shape: IndexShape) -> "memoryview[int]":
    """All slots of a file."""
    values = array("i", disk.pread(fd, shape.slots * INDEX_SLOT_SIZE, INDEX_HEADER_SIZE))
    if sys.byteorder == "little":
        values.byteswap()
    return memoryview(values)
