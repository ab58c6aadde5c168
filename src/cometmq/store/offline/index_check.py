"""Compares the index with the log: every entry is a key of its record, every key has its entry.

Entries stand in the order of the log, so both are walked side by side. That every chain leads
through its entries shows when the chains are made again, and are the same.

Next: cometmq.codec.index_file
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from cometmq.codec.index_file import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    IndexHeader,
    decode_header,
    entry_position,
)
from cometmq.codec.record import Record
from cometmq.kernel import index_insert, record_keys
from cometmq.store.index_file import IndexShape, blank_slots
from cometmq.store.offline.findings import Findings
from cometmq.store.offline.found import FoundStore
from cometmq.store.offline.index_shape import find_shape, read_slots

_PIECE_ENTRIES = 50_000
_INT_MIN, _INT_MAX = -0x80000000, 0x7FFFFFFF

Key = tuple[int, int]  # (physical offset, hash)


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
        self._ahead: list[Key] = []  # Read from the files and not reached by the log yet.
        self._begin: int | None = None  # Physical offset from which on there is an index.
        self._missing = 0
        self._first_missing = 0
        self.entries = 0

    @property
    def has_files(self) -> bool:
        """Whether there is an index at all."""
        return bool(self._store.index_paths)

    def take(self, records: Sequence[Record]) -> None:
        """Records of the log, in their order."""
        if not self.has_files or not records:
            return
        wanted: list[Key] = []
        if found := record_keys(records):
            hashes, offsets, _ = zip(*found, strict=True)
            wanted = list(zip(offsets, index_hashes(hashes), strict=True))
        stored = self._stored_before(records[-1][6] + 1)
        if stored == wanted:
            self.entries += len(stored)
        else:
            self._compare(stored, wanted)

    def _compare(self, stored: list[Key], wanted: list[Key]) -> None:
        """The same, where they are not alike."""
        begin = self._begin or 0
        stored_counts = Counter(stored)
        wanted_counts = Counter(key for key in wanted if key[0] >= begin)
        strays = stored_counts - wanted_counts
        missing = wanted_counts - stored_counts
        self.entries += len(stored) - strays.total()
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
            what = f"{len(behind)} entries point behind the log's end at {log_end}"
            self._findings.add("index", f"offset {behind[0][0]}", what, is_error=is_clean)
        if self._missing:
            what = f"{self._missing} keys have no entry"
            what += (
                "; `cometmq store repair` makes them" if is_clean else "; a start may make them"
            )
            where = f"offset {self._first_missing}"
            self._findings.add("index", where, what, is_error=is_clean)

    def _stored_before(self, limit: int) -> list[Key]:
        """The entries of records before an offset that have not been taken yet."""
        while not self._ahead or self._ahead[-1][0] < limit:
            piece = next(self._stored, None)
            if piece is None:
                break
            if self._begin is None:
                self._begin = piece[0][0]
            if piece[0][0] < self._log_start:  # Of messages that retention has deleted.
                piece = [key for key in piece if key[0] >= self._log_start]
            self._ahead += piece
        count = len(self._ahead)
        while count and self._ahead[count - 1][0] >= limit:
            count -= 1
        found, self._ahead = self._ahead[:count], self._ahead[count:]
        return found

    def _stored_keys(self, paths: Sequence[str]) -> Iterator[list[Key]]:
        """All entries of all files, a piece at a time; their chains are checked on the way."""
        for path in paths:
            fd = self._disk.open(path, write=False)
            try:
                header = decode_header(self._disk.pread(fd, INDEX_HEADER_SIZE, 0))
                shape = find_shape(self._disk, fd, header)
                if shape is None:
                    self._findings.add("index", path, "its size is none of an index file")
                elif header.index_count > 1:
                    yield from self._file_keys(path, fd, header, shape)
            finally:
                self._disk.close(fd)

    def _file_keys(
        self, path: str, fd: int, header: IndexHeader, shape: IndexShape
    ) -> Iterator[list[Key]]:
        """The same for one file."""
        slots = blank_slots(shape.slots)
        used = 0
        is_chain_right = True
        for number in range(1, header.index_count, _PIECE_ENTRIES):
            count = min(_PIECE_ENTRIES, header.index_count - number)
            at = entry_position(number, shape.slots)
            content = self._disk.pread(fd, count * INDEX_ENTRY_SIZE, at)
            hashes, offsets, seconds, _ = zip(*INDEX_ENTRY.iter_unpack(content), strict=True)
            entries, fresh = index_insert(slots, number, hashes, offsets, seconds)
            used += fresh
            is_chain_right &= entries == content
            yield list(zip(offsets, hashes, strict=True))
        if not is_chain_right:
            self._findings.add("index", path, "its chains do not lead through their entries")
        if used != header.slots_used:
            what = f"its header counts {header.slots_used} slots in use, there are {used}"
            self._findings.add("index", path, what, is_error=self._store.is_clean)
        if read_slots(self._disk, fd, shape) != slots:
            what = "its slots do not lead to the newest entries"
            self._findings.add("index", path, what, is_error=self._store.is_clean)


def index_hashes(codes: Sequence[int]) -> list[int]:
    """Hashes as the index has them (IndexFile.indexKeyHashMethod of RocketMQ 5.3.3)."""
    hashes = list(map(abs, codes))
    # The least int has no absolute value in Java, and is 0 there.
    return hashes if _INT_MIN not in codes else [code & _INT_MAX for code in hashes]
