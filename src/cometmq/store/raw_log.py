"""The log as bytes, as a replica receives and sends them (docs/design/0036).

Received bytes consist of whole records, with the blank ends of files (BLANK_MAGIC_CODE) between them. Each record is
checked as in a recovery. An incomplete record at the end is left to the caller, because a log ending with one would
look torn. A blank end may be nearly as long as a file, so it is accepted in parts; the log ends before it until a record
follows.
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

# Larger than the longest record.
_RECORD_SIZE_MAX = 17 << 20
# Bytes checked after a place in total, and per read while records are not longer.
_LOOKED_AT_MAX = 4 << 20
_LOOK_SIZE = 64 << 10


class RawPiece(NamedTuple):
    """The accepted part of bytes of a log: the physical offset of its end, and its records; None if it has none."""

    end: int
    batch: Batch | None


class RawLog:
    """Appends and reads the log of a broker as bytes."""

    def __init__(self, log: CommitLog, settings: StoreSettings) -> None:
        self._log = log
        self._check = check_of(settings)
        # Starts of blank ends that no record followed yet; they are written with the next record.
        self._heads: list[Piece] = []

    def append(self, offset: int, content: Buffer) -> RawPiece:
        """Append the whole records with which the bytes begin, up to the file's end, or else a part of its blank end.

        Return what was accepted; bytes after it must be passed again.

        Args:
            offset: Physical offset of the first byte: the log's end, or the end of the accepted part of a blank end. A
                log without a file may begin at the start of any file.
            content: The bytes, which must not be changed before they are dispatched.

        Raises:
            RecordIllegal: The bytes do not belong at this offset or are not records; nothing was written.
            StoreFull: No other file can be created at present.
            OSError: The disk failed; nothing counts as written.
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
        """Write a part of a blank end; return the physical offset after that part."""
        self._log.write_behind(self._file_at(offset - 1), offset, content)
        return offset + len(content)

    def _file_at(self, offset: int) -> LogFile:
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
        """Raise RecordIllegal if bytes do not begin at the log's end or, for an empty log, where a file begins."""
        written = self._log.positions.written
        if self._log.chain.files or written:
            if offset != written:
                raise RecordIllegal(
                    f"the bytes start at physical offset {offset}, but the log ends at {written}; "
                    "send them from there"
                )
        elif offset < 0 or offset % self._size:
            raise RecordIllegal(
                f"a log cannot start at physical offset {offset}, because its files have {self._size} bytes"
            )

    def _check_end(self, offset: int, why: WalkEnd, rest: memoryview, *, left: int) -> None:
        """Raise RecordIllegal if bytes after whole records cannot be part of a record or a right blank end.

        `why` is the reason why the walk over records ended at them, `left` the number of bytes up to their file's end.
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
                f"there is no valid record at physical offset {offset} ({why.name.lower()}); nothing was stored"
            )

    def first_fault(self, offset: int) -> tuple[int, str] | None:
        """Return (physical offset, `WalkEnd` name) of the first invalid record from a record on; None if none is found.

        Examines about 4 MiB at most, with the checks of a replica. May block on the device, and raise OSError; any thread.
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
        """Return up to `size_max` bytes of one log file from an offset on, or None. May block; any thread."""
        file = self._log.chain.find(offset)
        end = self._log.positions.committed
        if file is None or offset >= end:
            return None
        return file.read(offset, min(size_max, file.end - offset, end - offset))
