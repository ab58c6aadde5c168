"""Compares the index with the log: every entry is a key of its record, every key has its entry.

Entries stand in the order of the log, so both are walked side by side. That every chain leads
through its entries shows when the chains are made again, and are the same.

Next: cometmq.codec.index_file
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    IndexHeader,
    decode_header,
    entry_position,
)
from cometmq.kernel import stored_keys
from cometmq.kernel.wanted import KEY
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_shape import find_shape, read_slots
from cometmq.store.disk import Disk
from cometmq.store.index_file import blank_slots

_PIECE_ENTRIES = 4096  # About as many as a piece of the log asks for.
_TWO_KEYS = 2 * KEY.size


class IndexCheck:
    """One comparison of all index files of a store.

    Attributes:
        entries: how many entries are keys of their records.
    """

    def __init__(self, store: FoundStore, findings: Findings) -> None:
        self._store = store
        self._disk = store.disk
        self._findings = findings
        self._log_start = store.log.chain.start
        self._stored = self._stored_keys(store.index_paths)
        self._ahead = bytearray()  # Keys read from the files and not reached by the log yet.
        self._begin: int | None = None  # Physical offset from which on there is an index.
        self._missing = 0
        self._first_missing = 0
        self.entries = 0

    @property
    def has_files(self) -> bool:
        """Whether there is an index at all."""
        return bool(self._store.index_paths)

    def take(self, wanted: bytearray, end: int) -> None:
        """The keys that records ask for, in their order; each as `KEY` packs it.

        Args:
            wanted: they.
            end: physical offset behind the last record.
        """
        if not self.has_files:
            return
        stored = self._stored_before(end)
        if stored == wanted:
            self.entries += len(stored) // KEY.size
        else:
            self._compare(stored, wanted)

    def _compare(self, stored: bytearray, wanted: bytearray) -> None:
        """The same, where they are not alike."""
        begin = self._begin or 0
        stored_counts = Counter(KEY.iter_unpack(stored))
        wanted_counts = Counter(key for key in KEY.iter_unpack(wanted) if key[0] >= begin)
        strays = stored_counts - wanted_counts
        missing = wanted_counts - stored_counts
        self.entries += stored_counts.total() - strays.total()
        for (offset, code), count in strays.items():
            what = f"{count} entries of hash {code} are no keys of the record at {offset}"
            self._findings.add("index", f"offset {offset}", what)
        if missing:
            self._first_missing = self._first_missing or min(missing)[0]
            self._missing += missing.total()

    def finish(self, log_end: int) -> None:
        """The log has been walked.

        Args:
            log_end: physical offset at which it ends.
        """
        is_clean = self._store.is_clean
        behind = self._stored_before(1 << 63)
        if behind:
            what = f"{len(behind) // KEY.size} entries point behind the log's end at {log_end}"
            where = f"offset {_offset_at(behind, 0)}"
            self._findings.add("index", where, what, is_error=is_clean)
        if self._missing:
            what = f"{self._missing} keys have no entry"
            what += (
                "; `cometmq store repair` makes them" if is_clean else "; a start may make them"
            )
            where = f"offset {self._first_missing}"
            self._findings.add("index", where, what, is_error=is_clean)

    def _stored_before(self, limit: int) -> bytearray:
        """The keys of records before an offset that have not been taken yet."""
        ahead = self._ahead
        # Of the two last ones, because one may be damaged and seem to lie far ahead.
        while len(ahead) < _TWO_KEYS or min(_last_offsets(ahead)) < limit:
            piece = next(self._stored, None)
            if piece is None:
                break
            first = _offset_at(piece, 0)
            if self._begin is None:
                self._begin = first
            if first < self._log_start:  # Of messages that retention has deleted.
                keys = KEY.iter_unpack(piece)
                piece = b"".join(KEY.pack(*key) for key in keys if key[0] >= self._log_start)
            ahead += piece
        size = len(ahead)
        while size and _offset_at(ahead, size - KEY.size) >= limit:
            size -= KEY.size
        found = ahead[:size]
        del ahead[:size]
        return found

    def _stored_keys(self, paths: Sequence[str]) -> Iterator[bytes]:
        """All entries of all files, a piece at a time; their chains are checked on the way."""
        for path in paths:
            yield from file_keys(
                self._disk, path, self._findings, is_clean=self._store.is_clean
            )


def file_keys(disk: Disk, path: str, findings: Findings, *, is_clean: bool) -> Iterator[bytes]:
    """The keys of an index file as `KEY` packs them, a piece at a time; what is wrong with it is added.

    Args:
        disk: all files.
        path: the file.
        findings: where it goes.
        is_clean: whether the store was closed in order; else a start puts slots and header right.

    Raises:
        OSError: the disk failed.
    """
    fd = disk.open(path, write=False)
    try:
        header = decode_header(disk.pread(fd, INDEX_HEADER_SIZE, 0))
        shape = find_shape(disk, fd, header)
        if shape is None:
            findings.add("index", path, "its size is none of an index file")
        elif header.index_count > 1:
            slots = blank_slots(shape.slots)
            used = yield from _chained_keys(disk, path, fd, header, slots, findings)
            if used != header.slots_used:
                what = f"its header counts {header.slots_used} slots in use, there are {used}"
                findings.add("index", path, what, is_error=is_clean)
            if read_slots(disk, fd, shape) != slots:
                what = "its slots do not lead to the newest entries"
                findings.add("index", path, what, is_error=is_clean)
    finally:
        disk.close(fd)


def _chained_keys(
    disk: Disk,
    path: str,
    fd: int,
    header: IndexHeader,
    slots: "memoryview[int]",
    findings: Findings,
) -> Generator[bytes, None, int]:
    """The keys, while the chains are made again in `slots`; gives how many slots are in use."""
    used = 0
    is_chain_right = True
    for number in range(1, header.index_count, _PIECE_ENTRIES):
        count = min(_PIECE_ENTRIES, header.index_count - number)
        content = disk.pread(fd, count * INDEX_ENTRY_SIZE, entry_position(number, len(slots)))
        keys, fresh, is_right = stored_keys(slots, number, content)
        used += fresh
        is_chain_right &= is_right
        yield keys
    if not is_chain_right:
        findings.add("index", path, "its chains do not lead through their entries")
    return used


def _offset_at(keys: bytes | bytearray, place: int) -> int:
    """The physical offset of the key at a place; a negative one counts from the end."""
    offset: int = KEY.unpack_from(keys, place)[0]
    return offset


def _last_offsets(keys: bytearray) -> tuple[int, int]:
    """The physical offsets of the two last keys."""
    return _offset_at(keys, -_TWO_KEYS), _offset_at(keys, -KEY.size)
