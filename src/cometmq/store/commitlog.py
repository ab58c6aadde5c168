"""The log: where every message of every topic is written, one behind the other.

Its positions are `cometmq.store.positions`. A batch of records comes as pieces, one for each file it
touches; all files are there before the first byte is written, so a full disk refuses a batch
whole. A write that fails half way leaves bytes behind `written`; they are zeroed before the next
one, so that no record which was refused can stand again after a restart (`mend`).
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

# Bytes to be written in one file: that file, their physical offset, and they themselves.
Piece = tuple[LogFile, int, Buffer]


class CommitLog:
    """The log's files and positions.

    Attributes:
        chain: its files.
        positions: how far it is written, on the device, visible.
        is_flush_next: whether a flush follows each batch, so that the device may begin with it at once.
        warm_start: offset from which it is this process that wrote, and the page cache has it.
        ahead: the files that come next.
        passed: physical offset behind what was last written behind the log's end (`write_behind`); -1: nothing was.
    """

    def __init__(self, disk: Disk, directories: Sequence[str], settings: StoreSettings) -> None:
        self._disk = disk
        self._settings = settings
        self.chain = FileChain(
            disk,
            directories,
            settings.commitlog_file_size,
            read_only_directories=settings.read_only_commitlog_paths,
            is_random=not settings.read_ahead,
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
        """The file that holds `written`, made if it is missing.

        Raises:
            StoreFull: no room for it.
            OSError: it could not be made.
        """
        files, written = self.chain.files, self.positions.written
        if files and (last := files[-1]).start <= written < last.end:
            return last
        return self.chain.find(written) or self.file_from(written)

    def file_from(self, start: int) -> LogFile:
        """The file that begins at an offset: of the chain, made ahead, or made now.

        A new one is part of the chain at once; that nothing is written to it harms nobody.

        Raises:
            StoreFull: no room for it.
            OSError: it could not be made.
        """
        file = self.chain.find(start)
        if file is not None:
            return file
        file = self.ahead.take(start)
        self.chain.append(file)
        return file

    def commit(self, pieces: list[Piece]) -> None:
        """Write a batch; all of it counts, or nothing.

        Raises:
            OSError: a write failed; `written` has not moved.
        """
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
        """Write behind the log's end, which does not move: what it holds there counts for nothing.

        Raises:
            OSError: the write failed.
        """
        if self._torn:
            self.mend()
        file.write(content, offset)
        self.passed = offset + len(content)

    def clear_behind(self) -> None:
        """Zero what was written behind the log's end and still stands there.

        Raises:
            OSError: the disk failed.
        """
        if self.passed > self.positions.written:
            self.tail_file().clear_from(self.positions.written)

    def commit_staged(self) -> None:
        """Write what waits in memory: nothing here (cometmq.store.staged_log).

        Raises:
            OSError: a write failed.
        """

    def mend(self) -> None:
        """Zero what a failed write may have left behind `written`.

        Raises:
            OSError: that failed too; the next try may not.
        """
        for file, offset, content in self._torn:
            file.write(bytes(len(content)), offset)
        self._torn = []

    def cut(self, end: int) -> Iterator[Step]:
        """Let nothing stand behind an offset, in the files and beside them; one step, which may wait.

        The zeros are on the device before a file goes, and newer files go first: whatever step this stops
        at, no record behind the first that went is found again as the log's next.
        """
        file = self.chain.find(end)
        assert file is not None
        assert not self._torn
        self.positions.go_back(end)
        self.warm_start = min(self.warm_start, end)
        self.passed = -1
        # They are not closed: somebody may be reading them.
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
        """Whether the map may be read there without waiting for the device."""
        # As `warm_from`, which costs several times as much on the way of each piece that a slave gets.
        warm_size = self._settings.warm_tail_bytes
        return offset >= self.warm_start and offset >= self.positions.written - warm_size

    @property
    def warm_from(self) -> int:
        """Physical offset from which the map may be read without waiting for the device."""
        return max(self.positions.written - self._settings.warm_tail_bytes, self.warm_start)

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes at a physical offset, waiting for the device; None where there are none."""
        if not self.chain.start <= offset <= self.positions.committed - size:
            return None
        file = self.chain.find(offset)
        if file is None or offset + size > file.end:
            return None
        return file.read(offset, size)

    def files_between(self, start: int, end: int) -> list[LogFile]:
        """The files that hold any byte of a range. Any thread."""
        files = self.chain.files
        if files and files[-1].start <= start < min(end, files[-1].end):
            return files[-1:]  # Nearly each flush.
        return [file for file in files.copy() if file.start < end and file.end > start]

    def forget_cold_views(self) -> None:
        """Let go the maps of files that are read with `pread` by now."""
        warm_from = self.warm_from
        for file in self.chain.files:
            if file.end > warm_from:
                break
            file.forget_view()

    def close(self) -> None:
        """Close every file; a spare that nothing was written to is removed."""
        self.ahead.close()
        self.chain.close()
