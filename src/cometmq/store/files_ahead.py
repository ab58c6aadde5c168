"""Creates the next two log files before they are needed.

A thread of the store's owner creates them: the next one when half of the current file is written, the one after it at
three quarters. A write that needs one earlier waits for that thread or creates it itself. With warmMapedFileEnable every
page of a file is written before use, so that later `fdatasync` calls need not record new extents, and its pages are
locked in memory if the system allows it (MappedFile.warmMappedFile of RocketMQ 5.3.3).
"""

import logging
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from cometmq.model.errors import StoreFull
from cometmq.store.disk import Disk
from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile, make_log_file
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

FILES_AHEAD = 2  # As AllocateMappedFileService.
_PAGE_SIZE = 4096
_WARM_PIECE = bytes(1 << 20)


class FilePlan(NamedTuple):
    """A log file to create: its first physical offset, and the paths to try, the next one if there is no room at one."""

    paths: list[str]
    start: int


class FilesAhead:
    """Log files created before the log needs them (spare files)."""

    def __init__(
        self, disk: Disk, settings: StoreSettings, chain: FileChain, *, is_flushed_warming: bool
    ) -> None:
        """Create an empty list of spare files; with `is_flushed_warming`, files are flushed repeatedly while warmed."""
        self._disk = disk
        self._settings = settings
        self._chain = chain
        self._is_flushed_warming = is_flushed_warming
        self._spares: list[LogFile] = []
        self._is_planned = False
        # Held while a file is created: a put that needs one waits here for the thread that creates it, so that the two
        # never create or delete the same file at once.
        self._making = Lock()

    def take(self, start: int) -> LogFile:
        """Return the file that begins at an offset: one created ahead, or a new one; waits for a creation in another thread.

        Raises:
            StoreFull: There is no room, inode, descriptor or memory for it.
            OSError: The file could not be created.
        """
        with self._making:
            if self._spares and self._spares[0].start != start:
                self._drop()  # They were for an empty log, which now begins elsewhere.
            if self._spares:
                return self._spares.pop(0)
            return self._make(FilePlan(self._chain.paths(start), start))

    def needed(self, written: int) -> FilePlan | None:
        """Return the plan for the next file if it is time to create it for a log that ends at `written`, else None.

        After a plan was returned, none is until `plan_done` was called.
        """
        if self._is_planned:
            return None
        size, spares = self._chain.file_size, len(self._spares)
        end = (self._chain.end if self._chain.files else written) + spares * size
        left = size - written % size
        ahead = (end - (written + left)) // size
        if ahead >= FILES_AHEAD or (ahead >= 0 and left > size // (2 + 2 * ahead)):
            return None
        self._is_planned = True
        return FilePlan(self._chain.paths(end), end)

    def make(self, plan: FilePlan) -> Exception | None:
        """Create a planned file if it is still the next one; return the StoreFull or OSError if that failed. Any thread."""
        with self._making:
            end = self._spares[-1].end if self._spares else self._chain.end
            if plan.start != end:
                return None
            try:
                self._spares.append(self._make(plan))
            except (StoreFull, OSError) as error:
                return error
        return None

    def plan_done(self) -> None:
        """Allow the next plan after one was carried out or given up."""
        self._is_planned = False

    def _make(self, plan: FilePlan) -> LogFile:
        *others, last = plan.paths
        for path in others:
            with suppress(StoreFull):
                return self._make_at(path, plan.start)
        return self._make_at(last, plan.start)

    def _make_at(self, path: str, start: int) -> LogFile:
        settings = self._settings
        file = make_log_file(
            self._disk,
            path,
            start=start,
            size=settings.commitlog_file_size,
            reserve=settings.file_reserve,
        )
        if settings.is_warmed:
            try:
                self._warm(file)
            except OSError as error:
                logger.warning("%s is used without preparing its pages: %s", file.path, error)
        return file

    def _warm(self, file: LogFile) -> None:
        """Write every page of a file with zeros, flush it, and lock it in memory; raise OSError if the system refuses."""
        step = self._settings.warm_flush_pages * _PAGE_SIZE
        flushed = file.start
        for offset in range(file.start, file.end, len(_WARM_PIECE)):
            file.write(_WARM_PIECE[: file.end - offset], offset)
            if self._is_flushed_warming and offset - flushed >= step:
                file.flush()
                flushed = offset
        file.flush()
        file.keep_in_memory()

    def close(self) -> None:
        """Close the spare files, which are unused, and delete them if possible."""
        with self._making:
            self._drop()

    def _drop(self) -> None:
        for file in reversed(self._spares):
            file.close()
            # If it remains, the next start treats it as the log's last file.
            with suppress(OSError):
                self._disk.unlink(file.path)
        self._spares.clear()
