"""The log: where every message of every topic is written, one behind the other.

    start ........ flushed ........ written ........ end of the newest file
                   on the device    in the page cache

Invariant: start <= flushed <= written. A batch of records comes as pieces, one for each file it
touches; all files are there before the first byte is written, so a full disk refuses a batch
whole. A write that fails half way leaves bytes behind `written`; they are zeroed before the next
one, so that no record which was refused can stand again after a restart (`mend`).

Next: cometmq.store.group_flush
"""

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from cometmq.model.errors import StoreFull
from cometmq.store.disk import Buffer, Disk
from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile, make_log_file
from cometmq.store.settings import StoreSettings


class FilePlan(NamedTuple):
    """A file to be made ahead.

    Attributes:
        path: its name.
        start: its first physical offset.
    """

    path: str
    start: int


class Piece(NamedTuple):
    """Bytes to be written in one file, at a physical offset."""

    file: LogFile
    offset: int
    content: Buffer


class CommitLog:
    """The log's files and positions.

    Attributes:
        chain: its files.
        written: physical offset behind the last record.
        flushed: how far the log is known to be on the device.
        warm_start: offset from which it is this process that wrote, and the page cache has it.
    """

    def __init__(self, disk: Disk, directories: Sequence[str], settings: StoreSettings) -> None:
        self._disk = disk
        self._settings = settings
        self.chain = FileChain(
            disk,
            directories,
            settings.commitlog_file_size,
            read_only_directories=settings.read_only_commitlog_paths,
        )
        self.written = 0
        self.flushed = 0
        self.warm_start = 0
        self._spare: LogFile | None = None
        self._is_planned = False
        # Held while a file is made: a put that cannot wait for the thread that was lent for it
        # waits for this, and the two never make or remove one file at once.
        self._making = Lock()
        self._torn: list[Piece] = []

    def tail_file(self) -> LogFile:
        """The file that holds `written`, made if it is missing.

        Raises:
            StoreFull: no room for it.
            OSError: it could not be made.
        """
        return self.chain.find(self.written) or self.file_from(self.written)

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
        with self._making:
            file, self._spare = self._spare, None
            if file is None:
                file = self._make(FilePlan(self.chain.path(start), start))
            self.chain.append(file)
            return file

    def _make(self, plan: FilePlan) -> LogFile:
        size, reserve = self._settings.commitlog_file_size, self._settings.file_reserve
        return make_log_file(
            self._disk, plan.path, start=plan.start, size=size, reserve=reserve
        )

    def file_ahead_needed(self) -> FilePlan | None:
        """The next file, once the present one is half full; None while it is there or made."""
        if self._spare is not None or self._is_planned:
            return None
        end = self.chain.end if self.chain.files else self.written
        if end - self.written > self._settings.commitlog_file_size // 2:
            return None
        self._is_planned = True
        return FilePlan(self.chain.path(end), end)

    def make_file(self, plan: FilePlan) -> Exception | None:
        """Make a planned file, unless a put was faster; gives why it could not. Any thread."""
        with self._making:
            if self._spare is None and self.chain.find(plan.start) is None:
                try:
                    self._spare = self._make(plan)
                except (StoreFull, OSError) as error:
                    return error
        return None

    def plan_done(self) -> None:
        """The plan has been carried out, or given up."""
        self._is_planned = False

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
        _, offset, content = pieces[-1]
        self.written = offset + len(content)

    def mend(self) -> None:
        """Zero what a failed write may have left behind `written`.

        Raises:
            OSError: that failed too; the next try may not.
        """
        for file, offset, content in self._torn:
            file.write(bytes(len(content)), offset)
        self._torn = []

    @property
    def warm_from(self) -> int:
        """Physical offset from which the map may be read without waiting for the device."""
        return max(self.written - self._settings.warm_tail_bytes, self.warm_start)

    def read(self, offset: int, size: int) -> bytes | None:
        """Bytes at a physical offset, waiting for the device; None where there are none."""
        if not self.chain.start <= offset <= self.written - size:
            return None
        file = self.chain.find(offset)
        if file is None or offset + size > file.end:
            return None
        return file.read(offset, size)

    def files_between(self, start: int, end: int) -> list[LogFile]:
        """The files that hold any byte of a range. Any thread."""
        files = self.chain.files.copy()
        return [file for file in files if file.start < end and file.end > start]

    def forget_cold_views(self) -> None:
        """Let go the maps of files that are read with `pread` by now."""
        warm_from = self.warm_from
        for file in self.chain.files:
            if file.end > warm_from:
                break
            file.forget_view()

    def close(self) -> None:
        """Close every file; a spare that nothing was written to is removed."""
        with self._making:
            if self._spare is not None:
                self._spare.close()
                with suppress(OSError):  # Left over, it is dropped by the next start.
                    self._disk.unlink(self._spare.path)
                self._spare = None
        self.chain.close()
