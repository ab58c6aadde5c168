"""Walks a log, or a part of it, record by record, and continues after damage."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from cometmq.codec.record import BLANK_TAIL_SIZE, Record, blank_tail
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.kernel import MAGIC_V1, MAGIC_V2, WalkEnd
from cometmq.offline.damage import Damage
from cometmq.offline.findings import Finding
from cometmq.offline.found import FoundStore
from cometmq.store.log_end import record_at
from cometmq.store.log_file import LogFile
from cometmq.store.whole_records import walk_of
from cometmq.store.zeros import is_zeros

CHUNK_SIZE = 1 << 22

_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_END = 8  # Bytes from a record's start to the end of its magic number.

Piece = TypeVar("Piece")  # The result for the records of a piece of the log.

# (a piece of the log, its physical offset) -> result for the valid records at its start, their number, their end position, and why.
Walk = Callable[[bytes, int], tuple[Piece, int, int, WalkEnd]]

OnProgress = Callable[[int], None]  # Called with the total number of bytes walked.


class PieceScan(Generic[Piece]):
    """One walk over a log or a part of it, piece by piece.

    With `start`, a record's offset, the walk starts there. With `part`, it starts at the first valid record in that
    range, or at its start if a file begins there; the last record, and damage after it, may end after the range.

    Attributes:
        begin: Physical offset at which the walk began; None until it has found a valid record.
        end: After the walk, physical offset of the end of the log, or of the range's last record and damage after that.
        tail: If no valid record follows `end`, number of bytes from there to the file's last non-zero byte; else 0.
        damages: The skipped bytes before valid records.
        records: Number of valid records.
    """

    def __init__(
        self,
        store: FoundStore,
        walk: Walk[Piece],
        *,
        start: int | None = None,
        part: range | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._disk = store.disk
        self._chain = store.log.chain
        self._log = store.log
        self._on_progress = on_progress
        self._walk = walk
        self._is_clean = store.is_clean
        self._is_whole_checked = store.settings.is_whole_crc_checked
        self._part = part
        self._limit = self._chain.end if part is None else part.stop
        self.begin: int | None = None
        self.end = self._chain.start if start is None else start
        self.tail = 0
        self.damages: list[Damage] = []
        self.records = 0

    def __iter__(self) -> Iterator[Piece]:
        """Walk, and yield the results of the pieces that have valid records."""
        if self._part is not None and not self._is_begun(self._part):
            return
        begin = self.end
        while (file := self._chain.find(self.end)) is not None and not self._is_over(file):
            limit = max(self._limit, self.end + _MAGIC_END)
            piece, count, self.end, why = _take(file, self.end, limit, self._walk)
            self.records += count
            if count:
                self.begin = begin if self.begin is None else self.begin
                yield piece
            if why is WalkEnd.BLANK:
                self.end = file.end
            elif why is not None and not self._pass_over(file):
                break
            if self._on_progress is not None:
                self._on_progress(self.end - begin)

    def passed_over(self) -> Iterator[Finding]:
        """Yield damaged bytes as findings; those after the log's end are no error if the last stop was unclean."""
        for damage in self.damages:
            where = f"{damage.path} at {damage.at}"
            what = f"{damage.end - damage.start} bytes are not a record: {damage.why}"
            yield Finding("log", where, what)
        if self.tail:
            what = f"{self.tail} bytes follow the end of the log"
            yield Finding("log", f"offset {self.end}", what, is_error=self._is_clean)

    def _is_begun(self, part: range) -> bool:
        """Go to the range's first valid record, or to its start if a file begins there; return False without either."""
        file = self._chain.find(part.start)
        self.end = part.start
        if file is not None and part.start == file.start:
            return True
        following = self._next_valid(part.start, part.stop)
        self.end = part.start if following is None else following
        return following is not None

    def _is_over(self, file: LogFile) -> bool:
        """Return whether the walk ends here: not before the range's limit, and at a record, file start or end mark."""
        if self.end < self._limit:
            return False
        return (
            self.end == file.start
            or self._is_valid(file, self.end)
            or _is_blank(file, self.end)
        )

    def _pass_over(self, file: LogFile) -> bool:
        """Record the bytes before the next valid record as damage and continue there; return False if none follows."""
        following = self._next_valid(self.end)
        if following is None:
            self.tail = self._tail_size(file)
            return False
        at = self.end - file.start
        why = _why_invalid(file, self.end)
        self.damages.append(Damage(self.end, following, file.path, at, why))
        self.end = following
        return True

    def _tail_size(self, file: LogFile) -> int:
        """Return the number of bytes after the end, up to the last non-zero byte of its file."""
        for first, stop in reversed(self._disk.written(file.fd, self.end - file.start)):
            for at in reversed(range(first, stop, CHUNK_SIZE)):
                piece = file.read(file.start + at, min(CHUNK_SIZE, stop - at))
                if not is_zeros(piece):
                    return file.start + at + len(piece.rstrip(b"\0")) - self.end
        return 0

    def _next_valid(self, offset: int, limit: int | None = None) -> int | None:
        """Return the offset of the first valid record that starts from an offset on and before a limit, or None."""
        end = self._chain.end if limit is None else min(limit, self._chain.end)
        for file in self._log.files_between(offset, end):
            begin = max(offset - file.start, 0)
            for first, stop in self._disk.written(file.fd, begin):
                for at in range(first, min(stop, end - file.start), CHUNK_SIZE):
                    piece = file.read(file.start + at, min(CHUNK_SIZE, stop - at) + _MAGIC_END)
                    if is_zeros(piece):
                        continue
                    for place in _magic_places(piece):
                        candidate = file.start + at + place - 4
                        if candidate >= offset and self._is_valid(file, candidate):
                            return candidate if candidate < end else None
        return None

    def _is_valid(self, file: LogFile, offset: int) -> bool:
        return record_at(file, offset, is_whole_checked=self._is_whole_checked) is not None


class LogScan(PieceScan[list[Record]]):
    """A walk over a log that yields lists of valid records, one for each piece of the log that has any."""

    def __init__(
        self,
        store: FoundStore,
        *,
        start: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        valid_records = walk_of(store.settings)

        def walk(chunk: bytes, offset: int) -> tuple[list[Record], int, int, WalkEnd]:
            records, walked, why = valid_records(chunk, offset)
            return records, len(records), walked, why

        super().__init__(store, walk, start=start, on_progress=on_progress)


def _is_blank(file: LogFile, offset: int) -> bool:
    """Return whether the end mark of a log file is at a physical offset, or too few bytes for one are left."""
    left = file.end - offset
    return left < BLANK_TAIL_SIZE or file.read(offset, BLANK_TAIL_SIZE) == blank_tail(left)


def _take(
    file: LogFile, position: int, limit: int, walk: Walk[Piece]
) -> tuple[Piece, int, int, WalkEnd | None]:
    """Walk a chunk of a log file; return (result, number of valid records, their end, why the walk ended there).

    The chunk ends at `limit` at the latest, unless one record is longer. The reason is None if the walk can continue in
    the file.
    """
    size = min(CHUNK_SIZE, limit - position)
    while True:
        chunk = file.read(position, min(size, file.end - position))
        piece, count, walked, why = walk(chunk, position)
        is_whole_rest = position + len(chunk) == file.end
        if why is WalkEnd.WHOLE:
            return piece, count, position + walked, WalkEnd.BLANK if is_whole_rest else None
        if why is not WalkEnd.SHORT or is_whole_rest:
            return piece, count, position + walked, why
        if walked:
            return piece, count, position + walked, None
        size = int.from_bytes(chunk[:4])  # One record that is longer than a piece.


def _magic_places(piece: bytes) -> list[int]:
    places = []
    for magic in _MAGICS:
        at = piece.find(magic)
        while at >= 0:
            places.append(at)
            at = piece.find(magic, at + 1)
    return sorted(places)


def _why_invalid(file: LogFile, offset: int) -> str:
    head = file.read(offset, 4)
    size = min(max(int.from_bytes(head), _MAGIC_END), file.end - offset, 1 << 26)
    try:
        check_record(file.read(offset, size), 0)
    except NoRecordError as error:
        return str(error).replace(" at byte 0", "")
    return "its physical offset is wrong, a sector of its properties is lost, or its property __CRC32# does not match"
