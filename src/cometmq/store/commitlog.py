"""The commitlog: all messages of all topics, appended one after the other.

Its offsets are in `cometmq.store.positions`. A batch of records is written as pieces, one per file. All its files are
created before the first byte is written, so a full disk refuses the whole batch. A write that fails half way may leave
bytes after `written`; `mend` zeroes them before the next write.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from cometmq.store.derived import Step
from cometmq.store.disk import Buffer, Disk
from cometmq.store.file_chain import FileChain
from cometmq.store.files_ahead import FilesAhead
from cometmq.store.log_file import LogFile
from cometmq.store.positions import Positions
from cometmq.store.settings import StoreSettings

# Bytes that are copied from the page cache at once; longer reads are for a thread.
AT_ONCE_SIZE_MAX = 64 << 10
# Bytes to write to one file: the file, their physical offset, and the bytes.
Piece = tuple[LogFile, int, Buffer]


class CommitLog:
    """The files and positions of the log.

    Attributes:
        positions: Offsets up to which the log is written, flushed and visible.
        is_flush_next: Whether a flush will soon follow each batch, so that the device may start writing immediately.
        warm_start: Offset from which this process wrote the log, so that it may still be in the page cache.
        ahead: Log files created in advance.
        passed: Physical offset of the end of the bytes last written by `write_behind`; -1 if none.
    """

    def __init__(self, disk: Disk, directories: Sequence[str], settings: StoreSettings) -> None:
        self._disk = disk
        self._settings = settings
        self.chain = FileChain(
            disk,
            directories,
            settings.commitlog_file_size,
            read_only_directories=settings.read_only_commitlog_paths,
            is_random=not settings.is_read_ahead,
        )
        self.positions = Positions(self.chain, needs_flush=settings.flush_sync)
        self.is_flush_next = False
        self.warm_start = 0
        self.ahead = FilesAhead(
            disk, settings, self.chain, is_flushed_warming=self.positions.needs_flush
        )
        self.passed = -1
        self._torn: list[Piece] = []

    def tail_file(self) -> LogFile:
        """Return the file that contains `written`, creating it if needed; raise StoreFull or OSError if that fails."""
        files, written = self.chain.files, self.positions.written
        if files and (last := files[-1]).start <= written < last.end:
            return last
        return self.chain.find(written) or self.file_from(written)

    def file_from(self, start: int) -> LogFile:
        """Return the file that begins at an offset: an existing one, one made ahead, or a new one.

        A new file joins the chain immediately; this is harmless even if nothing is written to it.

        Raises:
            StoreFull: There is no room, inode, descriptor or memory for it.
            OSError: The file could not be created.
        """
        file = self.chain.find(start)
        if file is not None:
            return file
        file = self.ahead.take(start)
        self.chain.append(file)
        return file

    def commit(self, pieces: list[Piece]) -> None:
        """Write a batch, which counts as a whole or not at all: after an OSError, `written` has not moved."""
        if self._torn:
            self.mend()
        for file, offset, content in pieces:
            try:
                file.write(content, offset)
            except OSError:
                self._torn = pieces
                raise
            if self.is_flush_next:
                file.begin_flush(offset, len(content))
        self.positions.wrote(offset + len(content))

    def write_behind(self, file: LogFile, offset: int, content: Buffer) -> None:
        """Write bytes past the log's end without making them part of the log; raise OSError if the write fails."""
        if self._torn:
            self.mend()
        file.write(content, offset)
        self.passed = offset + len(content)

    def clear_behind(self) -> None:
        """Zero the bytes that `write_behind` left past the log's end; raise OSError if the disk fails."""
        if self.passed > self.positions.written:
            self.tail_file().clear_from(self.positions.written)
        self.passed = -1

    def commit_staged(self) -> None:
        """Write batches that are staged in memory; does nothing here, as only `StagedLog` stages any."""

    def mend(self) -> None:
        """Zero the bytes that a failed write may have left after `written`; after an OSError a later call may succeed."""
        for file, offset, content in self._torn:
            file.write(bytes(len(content)), offset)
        self._torn = []

    def cut(self, end: int) -> Iterator[Step]:
        """Yield a step that removes everything from an offset on, in the log files and files made ahead; it may block.

        The zeros are on the device before a file is deleted, and newer files are deleted first. Wherever this stops,
        the log therefore never continues with a record after the first deleted one.
        """
        file = self.chain.find(end)
        assert file is not None
        assert not self._torn
        self.positions.go_back(end)
        self.warm_start = min(self.warm_start, end)
        self.passed = -1
        # Not closed, because readers may still use them.
        gone = self.chain.take_after(file)
        yield partial(self._clear_behind, file, end, gone)
        assert self.positions.written == end

    def _clear_behind(self, file: LogFile, end: int, gone: Sequence[LogFile]) -> None:
        file.clear_from(end)
        file.flush()
        self.ahead.close()
        for newer in reversed(gone):
            newer.unlink()

    def is_warm(self, offset: int) -> bool:
        """Return whether the log at an offset is so recent that its map can probably be read without blocking."""
        # Same as `warm_from`, which takes several times as long; runs for each piece sent to a slave.
        warm_size = self._settings.warm_tail_bytes
        return offset >= self.warm_start and offset >= self.positions.written - warm_size

    @property
    def warm_from(self) -> int:
        """Physical offset from which the log is so recent that its memory map can probably be read without blocking."""
        return max(self.positions.written - self._settings.warm_tail_bytes, self.warm_start)

    def read(self, offset: int, size: int, *, may_wait: bool = True) -> bytes | None:
        """Return bytes at a physical offset; None if they are not all within one file and before `positions.committed`.

        Raises:
            BlockingIOError: The read would wait for the device, or takes long, and `may_wait` is False.
            OSError: The disk failed.
        """
        if not self.chain.start <= offset <= self.positions.committed - size:
            return None
        file = self.chain.find(offset)
        if file is None or offset + size > file.end:
            return None
        if may_wait:
            return file.read(offset, size)
        if file.mapped is not None and size <= AT_ONCE_SIZE_MAX and self.is_warm(offset):
            place = offset - file.start
            return bytes(file.mapped[place : place + size])
        piece = file.read_nowait(offset, size) if size <= AT_ONCE_SIZE_MAX else None
        if piece is None:
            raise BlockingIOError
        return bytes(piece)

    def warm_rest(self, offset: int) -> memoryview | None:
        """Return the mapped bytes from a physical offset to the end of its file; None unless the map may be read there.

        What is at or after `positions.committed` is undefined.
        """
        file = self.chain.find(offset) if offset < self.positions.committed else None
        if file is None or file.mapped is None or not self.is_warm(offset):
            return None
        return file.mapped[offset - file.start :]

    def files_between(self, start: int, end: int) -> list[LogFile]:
        """Return the files that contain any byte of a range; any thread."""
        files = self.chain.files
        if files and files[-1].start <= start < min(end, files[-1].end):
            return files[-1:]  # The case of nearly every flush.
        return [file for file in files.copy() if file.start < end and file.end > start]

    def forget_cold_views(self) -> None:
        """Unmap the log files before `warm_from`, which are no longer read through a map; unlock their pages in memory."""
        warm_from = self.warm_from
        for file in self.chain.files:
            if file.end > warm_from:
                break
            file.forget_view()

    def close(self) -> None:
        """Close all files, and delete those made ahead, which are unused, if possible."""
        self.ahead.close()
        self.chain.close()
