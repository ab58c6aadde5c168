"""The log as bytes, as a replica takes and gives them (docs/design/0036).

Bytes that come are whole records, and blank ends of files between them; each record is checked as a
start checks it. Half a record at their end is left to who brought it, for a log that ended with one
would look torn. A blank end may be as long as a file: it is taken in parts, and the log ends before
it until a record comes behind it.
"""

from typing import NamedTuple

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import WalkEnd
from cometmq.model.errors import RecordIllegal
from cometmq.store.batch import Batch, RawRecords, raw_batch
from cometmq.store.commitlog import CommitLog, Piece
from cometmq.store.disk import Buffer
from cometmq.store.log_file import LogFile
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import check_of

# More than the longest record has.
_RECORD_SIZE_MAX = 17 << 20
# Bytes that are looked at behind a place, and at a time where no record is longer.
_LOOKED_AT_MAX = 4 << 20
_LOOK_SIZE = 64 << 10


class RawPiece(NamedTuple):
    """The part of some bytes of a log that was taken.

    Attributes:
        end: physical offset behind it.
        batch: the records in it; None: none, or a part of a blank end.
    """

    end: int
    batch: Batch | None


class RawLog:
    """Appends and reads bytes of a log."""

    def __init__(self, log: CommitLog, settings: StoreSettings) -> None:
        self._log = log
        self._check = check_of(settings)
        # Of blank ends behind which no record came yet; they are written with it.
        self._heads: list[Piece] = []

    def append(self, offset: int, content: Buffer) -> RawPiece:
        """Write the whole records of a file that bytes begin with, or what they begin with of its blank end.

        Args:
            offset: physical offset of the first byte: where the log ends, or behind what was taken last of a
                blank end. A log without a file may begin at the start of any.
            content: the bytes; they are copied nowhere but into the log, so nobody may change them before they are dispatched.

        Raises:
            RecordIllegal: the bytes belong elsewhere, or are no records; nothing was written.
            StoreFull: no room for another file.
            OSError: the disk failed; nothing counts as written.
        """
        content = memoryview(content)
        left = self._size - offset % self._size
        if not self._heads or offset != self._log.passed:
            self._check_start(offset)
            self._heads = []
        elif left < self._size:
            return RawPiece(self._fill(offset, content[:left]), None)
        chunk = content[:left]
        walked, kinds, store_ms, why = self._check(chunk, offset)
        self._check_end(offset + walked, why, chunk[walked:], left=left - walked)
        if walked:
            records = chunk[:walked]
            self._log.commit([*self._heads, (self._file_at(offset), offset, records)])
            self._heads = []
            batch = raw_batch(RawRecords(offset, records, kinds), store_ms)
            return RawPiece(offset + walked, batch)
        if why is not WalkEnd.BLANK:
            return RawPiece(offset, None)
        file, head = self._file_at(offset), bytes(chunk[:BLANK_TAIL_SIZE])
        end = self._fill(offset + BLANK_TAIL_SIZE, chunk[BLANK_TAIL_SIZE:])
        self._heads.append((file, offset, head))
        return RawPiece(end, None)

    def _fill(self, offset: int, content: memoryview) -> int:
        """Write what fills a blank end; gives the physical offset behind it."""
        self._log.write_behind(self._file_at(offset - 1), offset, content)
        return offset + len(content)

    def _file_at(self, offset: int) -> LogFile:
        """The file that holds an offset; a new one begins with it."""
        file = self._log.chain.find(offset)
        if file is None:
            is_first = not self._log.chain.files
            file = self._log.file_from(offset)
            if is_first:
                self._log.positions.begin_at(offset)
        return file

    @property
    def _size(self) -> int:
        return self._log.chain.file_size

    def _check_start(self, offset: int) -> None:
        """Refuse bytes that do not begin where the log ends."""
        written = self._log.positions.written
        if self._log.chain.files or written:
            if offset != written:
                raise RecordIllegal(
                    f"bytes of the log from physical offset {offset} on, and it ends at {written}; "
                    "send them from there"
                )
        elif offset < 0 or offset % self._size:
            raise RecordIllegal(
                f"a log cannot begin at physical offset {offset}: its files have {self._size} bytes"
            )

    def _check_end(self, offset: int, why: WalkEnd, rest: memoryview, *, left: int) -> None:
        """Refuse what stands behind the whole records, unless it is the half of one or a blank end.

        Args:
            offset: where it stands.
            why: what it is.
            rest: its bytes.
            left: bytes up to the end of its file.
        """
        if why is WalkEnd.WHOLE:
            return
        size = int.from_bytes(rest[:4]) if len(rest) >= BLANK_TAIL_SIZE else 0
        if why is WalkEnd.BLANK:
            if size != left:
                raise RecordIllegal(
                    f"the blank end at physical offset {offset} does not reach the end of a file of "
                    f"{self._size} bytes: set mappedFileSizeCommitLog as the other broker has it"
                )
        elif why is not WalkEnd.SHORT or size > left - BLANK_TAIL_SIZE or len(rest) == left:
            raise RecordIllegal(
                f"no valid record at physical offset {offset} ({why.name}); nothing was taken"
            )

    def first_fault(self, offset: int) -> tuple[int, str] | None:
        """Find the first place near an offset where no copy takes the log. May wait for the device; any thread.

        Args:
            offset: Physical offset of a record.

        Returns:
            The physical offset and what is wrong there; None if the next records are valid.

        Raises:
            OSError: the disk failed.
        """
        upto, size = offset + _LOOKED_AT_MAX, _LOOK_SIZE
        while offset < upto and (content := self.read(offset, size)) is not None:
            walked, _, _, why = self._check(content, offset)
            if why is WalkEnd.SHORT and not walked and len(content) == size < _RECORD_SIZE_MAX:
                size *= 2  # The record may be longer.
                continue
            offset, size = offset + walked, _LOOK_SIZE
            if why is WalkEnd.BLANK:
                offset = (offset // self._size + 1) * self._size
            elif why is WalkEnd.WHOLE or (why is WalkEnd.SHORT and walked):
                continue
            else:
                return offset, why.name
        return None

    def read(self, offset: int, size_max: int) -> Buffer | None:
        """Bytes of the log from an offset on, of one file, as many as there are; may wait. Any thread.

        Args:
            offset: physical offset of the first.
            size_max: most of them.

        Returns:
            None where the log has nothing: before its first file, or from its end on.
        """
        file = self._log.chain.find(offset)
        end = self._log.positions.committed
        if file is None or offset >= end:
            return None
        return file.read(offset, min(size_max, file.end - offset, end - offset))
