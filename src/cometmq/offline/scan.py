"""Walks a split of the log: yields windows of valid records, and the damage between them.

The walk goes from record to record by their sizes. The physical offset and the inner lengths of records are checked for
all records of a piece at once. Other bytes, but for end marks and the log's unused end, are reported as `Damage`.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from cometmq.codec.record import BLANK_TAIL_SIZE, MAGIC_AT, PHYSICAL_OFFSET_AT, blank_tail
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.kernel import MAGIC_V1, MAGIC_V2, record_places
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.offline.columns.window import Longs, RecordWindow, elements_at
from cometmq.offline.damage import Damage
from cometmq.offline.folder import OpenFile, StoreFolder
from cometmq.offline.splits import PROOF_SIZE, Split, proven_places
from cometmq.store.zeros import is_zeros

READ_BYTES = 8 << 20
REMOTE_READ_BYTES = 64 << 20  # One request to an object store costs as much as some megabytes.
# A longer record is damage: 16 times the message that a broker accepts by default (maxMessageSize).
RECORD_SIZE_MAX = (64 << 20) + (64 << 10)


@dataclass(frozen=True)
class SoundRecords:
    """Valid records of a log file or an archive; the CRCs of their bodies were not checked.

    Attributes:
        base: Physical offset of the first byte of the window's buffer; 0 for a file of an archive.
        path: Their file.
        start: Physical offset of the first byte of that log file; 0 for a file of an archive.
    """

    window: RecordWindow
    base: int
    path: str
    start: int = 0


def scan(folder: StoreFolder, split: Split) -> Iterator[SoundRecords | Damage]:
    """Yield the records that start in a split (range of the log) as windows in log order, and the damage between them.

    Raises:
        StoreDamaged: The last record contains bytes that look like a record, at which the next split would begin.
        OSError: The file cannot be read.
    """
    with folder.opened(split.file.path) as read_at:
        walk = SplitWalk(read_at, split, READ_BYTES if folder.is_local else REMOTE_READ_BYTES)
        yield from walk.run()


def first_stored_ms(folder: StoreFolder, split: Split) -> int | None:
    """Return the store time of a split's first record, ms since 1970; None if it has none."""
    for found in scan(folder, split):
        if not isinstance(found, Damage):
            return int(found.window.stored_ms()[0])
    return None


class SplitWalk:
    """One walk over one split (range of the log), usually reading at most `read_bytes` at once."""

    def __init__(self, read_at: OpenFile, split: Split, read_bytes: int) -> None:
        self._read_at = read_at
        self._split = split
        self._file = split.file
        self._read_bytes = read_bytes
        self._seen = split.lo  # End of the non-zero bytes that the last search has found.

    def run(self) -> Iterator[SoundRecords | Damage]:
        """Walk over the whole split; yield its records and the damage between them."""
        split = self._split
        position = split.lo if split.is_whole_begin else self._next_record(split.lo, split.hi)
        while position is not None and not self._is_over(position):
            wanted = max(split.hi - position, 0) + PROOF_SIZE
            piece = self._read(position, min(self._read_bytes, wanted))
            if wanted > len(piece):
                self._read_at.will_need(
                    position - self._file.start + len(piece), self._read_bytes
                )
            starts, walked = _walk(piece, position, split.hi)
            if not walked and self._is_long(piece, position):
                piece = self._read(position, int.from_bytes(piece[:4]))
                starts, walked = np.zeros(1, np.int64), len(piece)
            if walked:
                yield from self._checked(piece, position, starts)
                position += walked
            else:
                damage, position = self._gap(position, piece)
                if damage is not None:
                    yield damage
            # Freed before the next is read, which then gets the same memory: new pages cost as much as reading.
            del piece

    # --- where a split ends

    def _is_over(self, position: int) -> bool:
        split, file = self._split, self._file
        if position >= (file.end if split.stop is None else split.stop):
            return True
        head = self._read(position, PROOF_SIZE)
        if _is_blank(head, file.end - position):
            self._check_neighbour(position)
            return True
        if position < split.hi:
            return False
        if 0 in proven_places(head, position, file.end):
            self._check_neighbour(position)
            return True
        return False

    def _check_neighbour(self, position: int) -> None:
        """Raise StoreDamaged if the last record has bytes that look like a record, at which the next split would begin.

        A sender that knows where a message will be stored could put a record into its body.
        """
        lo = self._split.hi
        if not lo < position or lo == self._file.end:
            return
        piece = self._read(lo, position - lo + PROOF_SIZE)
        for place in proven_places(piece, lo, self._file.end):
            if lo + place < position:
                raise StoreDamaged(
                    f"{self._file.path}: the record before byte {position - self._file.start} contains "
                    f"bytes that look like another record at byte {lo + place - self._file.start}; read with "
                    f"splitBytes={self._file.end - self._file.start}, which makes one split of each file"
                )

    # --- records

    def _checked(
        self, piece: bytes, base: int, starts: Longs
    ) -> Iterator[SoundRecords | Damage]:
        path, file_start = self._file.path, self._file.start
        with suppress(CodecError):
            window = RecordWindow(piece, starts)
            yield SoundRecords(window, base, path, file_start)
            return
        first = 0
        for row, start in enumerate(starts.tolist()):
            try:
                check_record(piece, start, is_crc_checked=False)
            except NoRecordError as error:
                if row > first:
                    window = RecordWindow(piece, starts[first:row])
                    yield SoundRecords(window, base, path, file_start)
                size = int.from_bytes(piece[start : start + 4])
                why = str(error).replace(f" at byte {start}", "")
                yield self._damage(base + start, base + start + size, why)
                first = row + 1
        if first < len(starts):
            yield SoundRecords(RecordWindow(piece, starts[first:]), base, path, file_start)

    def _is_long(self, piece: bytes, position: int) -> bool:
        size = int.from_bytes(piece[:4])
        proven = 0 in proven_places(piece[:PROOF_SIZE], position, self._file.end)
        rest = self._file.start + self._file.size - position
        return proven and len(piece) < size <= min(rest, RECORD_SIZE_MAX)

    # --- gaps

    def _gap(self, position: int, piece: bytes) -> tuple[Damage | None, int | None]:
        """Return the damage where no record starts, and the offset of the next record; None each if there is none."""
        split, file = self._split, self._file
        following = self._next_record(position + 1)
        if following is not None:
            return self._damage(position, following, _why_none(piece, position)), following
        limit = file.end if split.stop is None else min(split.stop, file.end)
        is_cut_off = file.start + file.size < limit
        if file.is_last and split.stop is None and not is_cut_off:
            limit = self._written_end(position)
            if limit == position:
                return None, None  # The log ends.
        why = _why_none(piece, position)
        if is_cut_off:
            why = f"{why}; the file has {file.size} of {file.end - file.start} bytes"
        return self._damage(position, limit, f"{why}; no record follows in this file"), None

    def _damage(self, start: int, end: int, why: str) -> Damage:
        return Damage(start, end, self._file.path, start - self._file.start, why)

    def _next_record(self, position: int, limit: int | None = None) -> int | None:
        """Return the first offset from `position` on, before stop and `limit`, that proves to be a record, or None."""
        file, stop = self._file, self._split.stop
        limit = min(each for each in (limit, stop, file.start + file.size) if each is not None)
        while (written := self._written_at(position)) is not None and written[0] < limit:
            position, hole = written
            # Reading a hole would make it count as written, and then no search would end there.
            wanted = min(self._read_bytes, limit - position + PROOF_SIZE, hole - position)
            piece = self._read(position, wanted)
            if not is_zeros(piece):  # This check is ten times faster than a search.
                self._seen = position + len(piece)
                for place in proven_places(piece, position, file.end):
                    return position + place if position + place < limit else None
            if len(piece) < wanted:
                return None
            position += len(piece)
            if position < hole:
                # A record may begin in this piece and continue after it.
                position -= PROOF_SIZE - 1
        return None

    def _written_end(self, position: int) -> int:
        """Return the offset after the last non-zero byte at or after `position`; `position` itself if there is none.

        Apart from the byte at `position`, only those before `_seen` are read, because the preceding search
        (`_next_record`) found nothing but zeros from there on.
        """
        end, stop = position, max(self._seen, position + 1)
        while position < stop and (
            piece := self._read(position, min(self._read_bytes, stop - position))
        ):
            written = len(piece.rstrip(b"\0"))
            end = position + written if written else end
            position += len(piece)
        return end

    def _written_at(self, position: int) -> tuple[int, int] | None:
        """Return the first range (start, end) from an offset on that is not a hole; None if there is none."""
        start = self._file.start
        found = self._read_at.written(position - start)
        return None if found is None else (found[0] + start, found[1] + start)

    def _read(self, position: int, size: int) -> bytes:
        left = self._file.start + self._file.size - position
        return self._read_at(position - self._file.start, max(min(size, left), 0))


def _walk(piece: bytes, position: int, hi: int) -> tuple[Longs, int]:
    """Return the starts of a piece's records before `hi`, up to the first wrong one, and the number of bytes walked.

    A record is wrong if its size, magic number or physical offset is.
    """
    places, at = record_places(piece, 0, min(len(piece) - PROOF_SIZE, hi - position - 1))
    starts = np.frombuffer(places, np.int64)
    magics = elements_at(piece, starts + MAGIC_AT, ">u4")
    said = elements_at(piece, starts + PHYSICAL_OFFSET_AT, ">i8")
    known = (magics == MAGIC_V1) | (magics == MAGIC_V2)
    wrong = np.flatnonzero(~known | (said != starts + position))
    if len(wrong):
        return starts[: wrong[0]], int(starts[wrong[0]])
    return starts, at


def _is_blank(head: bytes, left: int) -> bool:
    """Return whether the end mark of a file is here, `left` bytes before its end."""
    return left >= BLANK_TAIL_SIZE and head[:BLANK_TAIL_SIZE] == blank_tail(left)


def _why_none(piece: bytes, position: int) -> str:
    try:
        check_record(piece, 0, is_crc_checked=False)
    except NoRecordError as error:
        return str(error).replace(" at byte 0", "")
    said = int.from_bytes(piece[PHYSICAL_OFFSET_AT:PROOF_SIZE])
    return f"a record with the physical offset {said}"
