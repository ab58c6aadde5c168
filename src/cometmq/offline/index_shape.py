"""Determines the numbers of slots and entries of an index file from the file itself.

A size may fit many combinations. RocketMQ's default is recognized by its size. Another one is accepted if the first
entry is that of the first record and its slot leads to an entry of that slot; one whose last entry is that of the last
record is preferred. A file without entries may get any. (Zeros look like a first entry if the log begins at 0.)
"""

from collections.abc import Iterator

from cometmq.codec.index_file import (
    ENTRIES_DEFAULT,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    SLOTS_DEFAULT,
    IndexHeader,
    slot_position,
)
from cometmq.store.disk import Disk
from cometmq.store.index_file import IndexShape
from cometmq.store.index_slots import EntryReader
from cometmq.store.zeros import is_zeros

_PIECE_SIZE = 1 << 20


def find_shape(disk: Disk, fd: int, header: IndexHeader) -> IndexShape | None:
    """Return the numbers of slots and entries of an open index file; None if none fit its size and content."""
    size = disk.size(fd)
    default = IndexShape(SLOTS_DEFAULT, ENTRIES_DEFAULT)
    if size == default.file_size:
        return default
    for shape in _shapes_by_last_entry(disk, fd, header, size):
        if _fits(disk, fd, header, shape) and _ends(disk, fd, header, shape):
            return shape
    # After a kill, the header may be ahead of the last entry.
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
    """Yield the numbers of slots and entries that fit the size of an index file and the end of its content.

    The numbers fit if the last entry that the header counts would contain the file's last non-zero byte.
    """
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
    last = EntryReader(disk, fd, shape).entry(header.index_count - 1)
    return last.physical_offset == header.end_offset


def _fits(disk: Disk, fd: int, header: IndexHeader, shape: IndexShape) -> bool:
    """Return whether the first entry, and the newest entry of its slot, are plausible."""
    reader = EntryReader(disk, fd, shape)
    first = reader.entry(1)
    if first.key_hash < 0 or first.previous or first.seconds:
        return False
    if first.physical_offset != header.begin_offset:
        return False
    slot = first.key_hash % shape.slots
    newest = int.from_bytes(disk.pread(fd, INDEX_SLOT_SIZE, slot_position(slot)))
    if not 0 < newest < header.index_count:
        return False
    return reader.entry(newest).key_hash % shape.slots == slot
