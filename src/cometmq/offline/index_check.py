"""Compares the index with a part of the log: entries must be keys of their records, and keys must have entries.

Entries are in log order, so index and log are walked side by side. To check that the chains contain all their entries,
the chains are rebuilt and compared.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    IndexHeader,
    decode_entry,
    decode_header,
    entry_position,
)
from cometmq.kernel import stored_keys
from cometmq.kernel.wanted import KEY
from cometmq.model.text import plural
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_shape import find_shape
from cometmq.store.disk import Disk, opened
from cometmq.store.index_file import blank_slots
from cometmq.store.index_slots import EntryReader, read_slots

_WRONG_SIZE = "its size is not that of an index file"
_PIECE_ENTRIES = 4096  # About as many as a piece of the log requires.
_TWO_KEYS = 2 * KEY.size
_EVERYWHERE = 1 << 63


class IndexCount(NamedTuple):
    """The result of comparing the index with a part of the log.

    Attributes:
        matched: Entries that are keys of the part's records.
        missing: Keys without an entry, of the part's records from the first indexed one on.
        first_missing: Physical offset of the first such record; 0 without one.
        behind: Entries that point after the log's end; counted by the last part only.
        first_behind: Physical offset in the first such entry.
    """

    matched: int
    missing: int = 0
    first_missing: int = 0
    behind: int = 0
    first_behind: int = 0


class IndexCheck:
    """Comparison of all index files of a store with a part of its log; parts must have no gaps between them.

    Index files whose first record is in the part are checked completely, including their chains.
    """

    def __init__(self, store: FoundStore, findings: Findings, part: range) -> None:
        self._store = store
        self._disk = store.disk
        self._findings = findings
        chain = store.log.chain
        self._is_last = part.stop >= chain.end
        # Entries that point before the log belong to its first part, those that point after it to its last.
        self._low = 0 if part.start <= chain.start else part.start
        self._high = _EVERYWHERE if self._is_last else part.stop
        self._floor = max(part.start, chain.start)
        self._begin = _first_offset(store)
        self._stored = self._stored_keys(store.index_paths)
        self._ahead = bytearray()  # Keys read from the files that the log has not reached yet.
        self._matched = 0
        self._missing = 0
        self._first_missing = 0

    def take(self, wanted: bytearray, end: int) -> None:
        """Compare the index, if any, with `wanted`: keys that the next records, up to physical offset `end`, require.

        The keys are in log order, packed as `KEY`.
        """
        if not self._store.index_paths:
            return
        stored = self._stored_before(min(end, self._high))
        if stored == wanted:
            self._matched += len(stored) // KEY.size
        else:
            self._compare(stored, wanted)

    def _compare(self, stored: bytearray, wanted: bytearray) -> None:
        stored_counts = Counter(KEY.iter_unpack(stored))
        wanted_counts = Counter(key for key in KEY.iter_unpack(wanted) if key[0] >= self._begin)
        strays = stored_counts - wanted_counts
        missing = wanted_counts - stored_counts
        self._matched += stored_counts.total() - strays.total()
        for (offset, code), count in strays.items():
            what = f"{count} {plural(count, 'entry', 'entries')} of hash {code} {plural(count, 'does', 'do')} not match a key of the record at {offset}"
            self._findings.add("index", f"offset {offset}", what)
        if missing:
            if not self._missing:
                self._first_missing = min(missing)[0]
            self._missing += missing.total()

    def finish(self) -> IndexCount:
        """Compare the remaining index entries and return the part's counts."""
        behind = bytearray()
        if self._is_last:
            behind = self._stored_before(_EVERYWHERE)
        elif left := self._stored_before(self._high):
            self._compare(left, bytearray())  # They point to bytes that are not a record.
        for _ in self._stored:
            pass  # Checks the remaining chains.
        count = len(behind) // KEY.size
        first = _offset_at(behind, 0) if behind else 0
        return IndexCount(self._matched, self._missing, self._first_missing, count, first)

    def _stored_before(self, limit: int) -> bytearray:
        """Return the part's index keys that were not returned yet, up to the last one of a record before an offset."""
        ahead = self._ahead
        # Uses the last two, because a damaged one may seem to be far ahead.
        while len(ahead) < _TWO_KEYS or min(_last_offsets(ahead)) < limit:
            piece = next(self._stored, None)
            if piece is None:
                break
            if _offset_at(piece, 0) < self._floor:  # Deleted by retention, or of another part.
                keys = KEY.iter_unpack(piece)
                piece = b"".join(KEY.pack(*key) for key in keys if key[0] >= self._floor)
            ahead += piece
        size = len(ahead)
        while size and _offset_at(ahead, size - KEY.size) >= limit:
            size -= KEY.size
        found = ahead[:size]
        del ahead[:size]
        return found

    def _stored_keys(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Yield pieces of the keys of all index files that may point into the part, and report faults of files."""
        for path in paths:
            header = _header_of(self._disk, path)
            if header is None:
                self._findings.add("index", path, _WRONG_SIZE)
            elif self._low <= header.begin_offset < self._high:
                yield from file_keys(
                    self._disk, path, self._findings, is_clean=self._store.is_clean
                )
            elif header.begin_offset < self._low:
                yield from _keys_from(self._disk, path, self._floor)


def judge_index(
    store: FoundStore, counts: Sequence[IndexCount], findings: Findings, log_end: int
) -> int:
    """Report missing index entries and those that point after the log's end; return the number of matching ones.

    `counts` has the results of all parts of the log in log order, `log_end` is the physical offset of its end.
    """
    is_clean = store.is_clean
    behind = [count for count in counts if count.behind]
    if behind:
        what = f"{behind[0].behind} {plural(behind[0].behind, 'entry points', 'entries point')} beyond the end of the log at {log_end}"
        findings.add("index", f"offset {behind[0].first_behind}", what, is_error=is_clean)
    missing = [count for count in counts if count.missing]
    if missing:
        total = sum(count.missing for count in missing)
        what = f"{total} {plural(total, 'key has', 'keys have')} no entry"
        what += (
            "; `cometmq store repair` adds them"
            if is_clean
            else "; the next start of the broker may add them"
        )
        findings.add("index", f"offset {missing[0].first_missing}", what, is_error=is_clean)
    return sum(count.matched for count in counts)


def _header_of(disk: Disk, path: str) -> IndexHeader | None:
    """Return the header of an index file, or None if the file ends within it."""
    with opened(disk, path, write=False) as fd:
        content = disk.pread(fd, INDEX_HEADER_SIZE, 0)
    return decode_header(content) if len(content) == INDEX_HEADER_SIZE else None


def _first_offset(store: FoundStore) -> int:
    for path in store.index_paths:
        for piece in _keys_from(store.disk, path, 0):
            return _offset_at(piece, 0)
    return 0


def _keys_from(disk: Disk, path: str, floor: int) -> Iterator[bytes]:
    """Yield pieces of an index file's keys for records from physical offset `floor` on, without checking its chains."""
    header = _header_of(disk, path)
    if header is None or header.index_count <= 1:
        return
    with opened(disk, path, write=False) as fd:
        shape = find_shape(disk, fd, header)
        if shape is None:
            return

        def points_at(number: int) -> int:
            content = disk.pread(fd, INDEX_ENTRY_SIZE, entry_position(number, shape.slots))
            return decode_entry(content).physical_offset if content else _EVERYWHERE

        numbers = range(1, header.index_count)
        first = numbers[0] + bisect_left(numbers, floor, key=points_at)
        slots = blank_slots(shape.slots)
        for number in range(first, header.index_count, _PIECE_ENTRIES):
            count = min(_PIECE_ENTRIES, header.index_count - number)
            content = disk.pread(
                fd, count * INDEX_ENTRY_SIZE, entry_position(number, shape.slots)
            )
            yield stored_keys(slots, number, content)[0]


def file_keys(disk: Disk, path: str, findings: Findings, *, is_clean: bool) -> Iterator[bytes]:
    """Yield pieces of an index file's keys, packed as `KEY`, and report its faults; raises OSError if the disk fails.

    If the store was not closed cleanly, slots with wrong newest entries and a wrong number of used slots are no errors.
    """
    with opened(disk, path, write=False) as fd:
        header = decode_header(disk.pread(fd, INDEX_HEADER_SIZE, 0))
        shape = find_shape(disk, fd, header)
        if shape is None:
            findings.add("index", path, _WRONG_SIZE)
        elif header.index_count > 1:
            slots = blank_slots(shape.slots)
            used = yield from _chained_keys(disk, path, fd, header, slots, findings)
            if used != header.slots_used:
                what = f"its header has {header.slots_used} slots in use, but {used} are in use"
                findings.add("index", path, what, is_error=is_clean)
            if read_slots(EntryReader(disk, fd, shape), shape) != slots:
                what = "its slots do not point to their newest entries"
                findings.add("index", path, what, is_error=is_clean)


def _chained_keys(
    disk: Disk,
    path: str,
    fd: int,
    header: IndexHeader,
    slots: "memoryview[int]",
    findings: Findings,
) -> Generator[bytes, None, int]:
    """Yield the keys while rebuilding the chains in `slots`, and report wrong ones; return the number of used slots."""
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
        findings.add("index", path, "the chains of its slots do not contain all entries")
    return used


def _offset_at(keys: bytes | bytearray, place: int) -> int:
    offset: int = KEY.unpack_from(keys, place)[0]
    return offset


def _last_offsets(keys: bytearray) -> tuple[int, int]:
    return _offset_at(keys, -_TWO_KEYS), _offset_at(keys, -KEY.size)
