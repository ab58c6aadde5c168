"""The log as bytes, as a replica takes and gives them (docs/design/0036).

Bytes that come are whole records, and blank ends of files between them; each record is checked as a
start checks it. Half a record at their end is left to who brought it, for a log that ended with one
would look torn.

Next: cometmq.store.truncation
"""

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import WalkEnd
from cometmq.model.errors import RecordIllegal
from cometmq.store.batch import Batch, RawRecords, raw_batch
from cometmq.store.commitlog import CommitLog, Piece
from cometmq.store.disk import Buffer
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import check_of


class RawLog:
    """Appends and reads bytes of a log."""

    def __init__(self, log: CommitLog, settings: StoreSettings) -> None:
        self._log = log
        self._check = check_of(settings)

    def append(self, offset: int, content: Buffer) -> list[Batch]:
        """Write the whole records that bytes begin with.

        Args:
            offset: physical offset of the first byte: where the log ends. A log without a file may
                begin at the start of any.
            content: the bytes; they are copied nowhere but into the log, so nobody may change them before they are dispatched.

        Returns:
            The records, those of a file together.

        Raises:
            RecordIllegal: the bytes belong elsewhere, or are no records; nothing was written.
            StoreFull: no room for another file.
            OSError: the disk failed; nothing counts as written.
        """
        self._check_start(offset)
        content = memoryview(content)
        batches = self._whole(offset, content)
        if batches:
            end = batches[-1].end_offset
            pieces = [self._piece(offset, content[: end - offset])]
            while pieces[-1][1] + len(pieces[-1][2]) < end:
                start = pieces[-1][0].end
                pieces.append(self._piece(start, content[start - offset : end - offset]))
            self._log.commit(pieces)
        return batches

    def _piece(self, start: int, content: memoryview) -> Piece:
        """The first part of some bytes, up to the end of the file in which they begin."""
        file_start = start // self._size * self._size
        chain, is_first = self._log.chain, not self._log.chain.files
        file = chain.find(start) or self._log.file_from(file_start)
        if is_first:
            self._log.positions.begin_at(start)
        return file, start, content[: file.end - start]

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

    def _whole(self, offset: int, content: memoryview) -> list[Batch]:
        """The whole records in some bytes, those of a file together; blank ends of files are passed over."""
        batches: list[Batch] = []
        at = 0
        while at < len(content):
            room = self._size - (offset + at) % self._size
            chunk = content[at : at + room]
            walked, kinds, store_ms, why = self._check(chunk, offset + at)
            if walked:
                raw = RawRecords(offset + at, chunk[:walked], kinds)
                batches.append(raw_batch(raw, store_ms))
            place, left = offset + at + walked, room - walked
            if why is not WalkEnd.BLANK:
                self._check_end(place, why, chunk[walked:], left=left)
                break
            if int.from_bytes(chunk[walked : walked + 4]) != left:
                raise RecordIllegal(
                    f"the blank end at physical offset {place} does not reach the end of a file of "
                    f"{self._size} bytes: set mappedFileSizeCommitLog as the other broker has it"
                )
            at += room
        return batches

    def _check_end(self, offset: int, why: WalkEnd, rest: memoryview, *, left: int) -> None:
        """Refuse what stands behind the whole records, unless it is the half of one.

        Args:
            offset: where it stands.
            why: what it is.
            rest: its bytes.
            left: bytes up to the end of its file.
        """
        if why is WalkEnd.WHOLE:
            return
        size = int.from_bytes(rest[:4]) if len(rest) >= BLANK_TAIL_SIZE else 0
        if why is not WalkEnd.SHORT or size > left - BLANK_TAIL_SIZE or len(rest) == left:
            raise RecordIllegal(
                f"no valid record at physical offset {offset} ({why.name}); nothing was taken"
            )

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
