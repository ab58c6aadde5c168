"""Judges the end of the log: a clean end, a torn tail that may be cut, or damage that must not be cut.

After the last valid record there may be zeros (an end), a part of a record, or what a power cut left of several. Only
such a tail is cut, after it was copied:

    cut/00000000001073745920.0     name = physical offset of its first byte, and a number

If the log was known to be on the device beyond that record, or a record follows that probably was, nothing is cut. The
log is damaged then, and the store accepts no messages until it is repaired. RocketMQ differs: it cuts there silently.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress

from cometmq.codec.record import BLANK_TAIL_SIZE, Record
from cometmq.kernel import MAGIC_V1, MAGIC_V2, WalkEnd
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.disk import Disk, open_anew, write_whole
from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile
from cometmq.store.stored_record import valid_record
from cometmq.store.zeros import is_zeros

logger = logging.getLogger(__name__)

CUT_DIRECTORY = "cut"
PLAIN_ENDS = (WalkEnd.EMPTY, WalkEnd.BLANK)

# Range after the end in which valid records are searched: the largest message and a little more.
_LOOK_BEHIND_SIZE = 5 << 20
_PIECE_SIZE = 1 << 20
_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))


class LogEnd:
    """The end of a log whose records have been walked: describes damage after it, and copies and removes a torn tail.

    `checkpoints` have the physical offset up to which the log was flushed. With `is_whole_checked`, a record with a CRC of
    the whole record is only valid if that is right.

    Attributes:
        is_cut: Whether `cut` has removed bytes other than zeros.
    """

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        checkpoints: CheckpointFiles,
        *,
        is_whole_checked: bool = False,
    ) -> None:
        self._is_whole_checked = is_whole_checked
        self._disk = disk
        self._log = log
        self._checkpoints = checkpoints
        self.is_cut = False

    def damage_behind(self, end: int, why: WalkEnd, *, is_clean: bool) -> str | None:
        """Describe the damage at the end of the last valid record; return None if the end is clean or may be cut.

        Args:
            end: Physical offset of the end of the last valid record.
            why: Reason why the walk ended there.
            is_clean: Whether the last stop was clean.
        """
        progress, times = self._checkpoints.progress, self._checkpoints.times
        is_known = progress is not None and end < progress.flushed
        if is_clean and why in PLAIN_ENDS and not is_known:
            return None
        file = self._log.chain.find(end)
        behind = self.valid_behind(end)
        if is_known and (file is None or behind is None):
            assert progress is not None
            return (
                f"the log in {self._log.chain.directories[0]} ends at physical offset {end}, but it "
                f"was flushed to the device up to {progress.flushed}; the store accepts no messages until its "
                "files are restored, or `cometmq store repair` has accepted the loss"
            )
        if file is None or behind is None:
            return None
        # Times only count if Java wrote them, because a clock that was set back makes later records look older. A
        # record of the same millisecond may have been written after the flush.
        is_java_last = progress is None or progress.log_ms != times.log_timestamp
        if is_known or (is_java_last and behind.store_timestamp < times.log_timestamp):
            return (
                f"{file.path} is damaged at byte {end - file.start} (physical offset {end}): "
                f"it has no valid record there, but one at {behind.physical_offset}; nothing was removed, "
                "and the store accepts no messages until `cometmq store repair` has repaired it"
            )
        logger.warning(
            "The log is incomplete at %d (%s); the bytes after it were never flushed to the device and are removed",
            end,
            file.path,
        )
        return None

    def valid_behind(self, end: int) -> Record | None:
        """Return a valid record in the 5 MiB after an offset in its file, or at the next file's start; None without one."""
        file = self._log.chain.find(end)
        if file is None:
            return None
        piece = file.read(end, min(_LOOK_BEHIND_SIZE, file.end - end))
        for magic in _MAGICS:
            at = piece.find(magic, 8)
            while at >= 0:
                record = valid_record(
                    piece, at - 4, end + at - 4, is_whole_checked=self._is_whole_checked
                )
                if record is not None:
                    return record
                at = piece.find(magic, at + 1)
        following = self._log.chain.find(file.end)
        if following is None:
            return None
        start, is_whole_checked = following.start, self._is_whole_checked
        return record_at(following, start, is_whole_checked=is_whole_checked)

    def cut(self, end: int, *, walked_from: int, is_torn: bool) -> str | None:
        """Remove everything after the end; if that is not done because no copy can be kept, return the reason in words.

        If `is_torn`, bytes that are not zeros are copied first. Then they are zeroed and, with all from `walked_from`
        on, synced before a later file is deleted, so that a stop at any step never brings a cut record back (RocketMQ
        only remembers the end). If not torn, only the later files are deleted.

        Args:
            end: Physical offset of the end of the last valid record.
            walked_from: Physical offset from which records may not be on the device.
            is_torn: Whether anything but zeros may follow the end.

        Raises:
            OSError: The disk failed.
        """
        chain = self._log.chain
        file = chain.find(end)
        if file is None:
            return None
        if is_torn:
            try:
                is_kept = self.keep_copies(end, chain.end)
            except OSError as error:
                return (
                    f"{file.path} has an invalid tail at byte {end - file.start}, of which no "
                    f"copy can be kept ({error.strerror}); nothing was removed, and the store accepts no "
                    "messages until there is free space and it is opened again"
                )
            if is_kept:
                file.clear_from(end)
                self.is_cut = True
            for walked in self._log.files_between(walked_from, end + 1):
                walked.flush()
        chain.drop_after(file.end)
        return None

    def keep_copies(self, start: int, stop: int) -> bool:
        """Copy the bytes between two physical offsets into the folder `cut`; return False if there are only zeros.

        Each log file with other bytes there gets one copy.

        Raises:
            OSError: There is no room, or the disk failed; copies of some files may remain.
        """
        is_any = False
        for file in self._log.files_between(start, stop):
            first = max(start, file.start)
            pieces = self._data_between(file, first, min(stop, file.end))
            beginning = next(pieces, None)
            if beginning is not None:
                is_any = True
                self._keep_copy(first, itertools.chain((beginning,), pieces))
        return is_any

    def _data_between(
        self, file: LogFile, start: int, stop: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (physical offset, bytes) of the pieces of a file that are not all zeros, without trailing zeros."""
        for first, last in self._disk.written(file.fd, start - file.start):
            end = min(file.start + last, stop)
            for at in range(file.start + first, end, _PIECE_SIZE):
                piece = file.read(at, min(_PIECE_SIZE, end - at))
                if not is_zeros(piece):
                    yield at, piece.rstrip(b"\0")

    def _keep_copy(self, start: int, pieces: Iterable[tuple[int, bytes]]) -> None:
        directory = f"{self._checkpoints.root}/{CUT_DIRECTORY}"
        self._disk.make_directory(directory)
        taken = set(self._disk.list_names(directory))
        numbers = (f"{start:020d}.{number}" for number in itertools.count())
        path = f"{directory}/{next(name for name in numbers if name not in taken)}"
        fd = open_anew(self._disk, path + ".tmp")
        try:
            for offset, piece in pieces:
                write_whole(self._disk, fd, piece, offset - start)
            self._disk.fdatasync(fd)
        except OSError:
            with suppress(OSError):
                self._disk.unlink(path + ".tmp")
            raise
        finally:
            self._disk.close(fd)
        self._disk.rename(path + ".tmp", path)
        self._disk.sync_directory(directory)
        self._disk.sync_directory(self._checkpoints.root)
        logger.warning("The bytes after the end of the log at %d are kept in %s", start, path)


def record_at(file: LogFile, offset: int, *, is_whole_checked: bool = False) -> Record | None:
    """Return the valid record at a physical offset of a log file, or None (see `valid_record`)."""
    head = file.read(offset, BLANK_TAIL_SIZE)
    size = int.from_bytes(head[:4], signed=True)
    if head[4:] not in _MAGICS or not 0 < size <= file.end - offset:
        return None
    return valid_record(file.read(offset, size), 0, offset, is_whole_checked=is_whole_checked)


def start_before(chain: FileChain, time_ms: int) -> int:
    """Return the offset at which a Java broker's recovery begins (CommitLog.recoverAbnormally of RocketMQ 5.3.3).

    It is the start of the newest log file whose first record was stored at or before a time (ms), else of the oldest.
    """
    for file in reversed(chain.files):
        record = record_at(file, file.start)
        if record is not None and 0 < record.store_timestamp <= time_ms:
            return file.start
    return chain.start
