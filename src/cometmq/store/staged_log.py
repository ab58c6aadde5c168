"""A log that stages batches in memory, locked if possible, before they are written (transientStorePoolEnable).

A send usually only copies its bytes. Every commitIntervalCommitLog, or when the memory is full, all staged batches are
written with one write per file; only then can consumers see them and a flush include them. A busy page cache thus
delays few sends, but if the process dies, messages acknowledged since the last write may be lost. That is the trade-off of
RocketMQ's TransientStorePool (5.3.3), and the reason why it is off by default.
"""

import logging
import mmap
from collections.abc import Sequence
from typing import NamedTuple

from cometmq.store.commitlog import CommitLog, Piece
from cometmq.store.disk import Buffer, Disk
from cometmq.store.log_file import LogFile
from cometmq.store.page_lock import lock_memory
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

# RocketMQ's buffers have the size of a log file: 5 GiB of memory by default.
BUFFER_SIZE = 4 << 20


class _Staged(NamedTuple):
    """Bytes for one file at a physical offset, staged in memory from `start` to `end`."""

    file: LogFile
    offset: int
    start: int
    end: int


class StagedLog(CommitLog):
    """A log whose batches are staged in memory before they are written, unless one is larger than that memory."""

    def __init__(self, disk: Disk, directories: Sequence[str], settings: StoreSettings) -> None:
        super().__init__(disk, directories, settings)
        self._memory = mmap.mmap(-1, settings.pool_buffers * BUFFER_SIZE)
        try:
            lock_memory(self._memory)
        except OSError as error:
            logger.warning(
                "transientStorePool: its memory cannot be locked and may be swapped out: %s",
                error,
            )
        self._used = 0
        self._staged: list[_Staged] = []

    def commit(self, pieces: list[Piece]) -> None:
        """Stage a batch as a whole, or write it to its files at once if it is larger than the memory for all batches.

        Earlier batches are written if it does not fit beside them.

        Raises:
            OSError: Earlier batches, or the large one, could not be written; the given one does not count then.
        """
        size = sum(len(content) for _, _, content in pieces)
        if self._used + size > len(self._memory):
            self.commit_staged()
        if size > len(self._memory):
            super().commit(pieces)
            return
        for file, offset, content in pieces:
            self._stage(file, offset, content)
        _, offset, content = pieces[-1]
        self.positions.staged(offset + len(content))

    def _stage(self, file: LogFile, offset: int, content: Buffer) -> None:
        start, end = self._used, self._used + len(content)
        self._memory[start:end] = content
        self._used = end
        last = self._staged[-1] if self._staged else None
        if last is not None and last.file is file:
            self._staged[-1] = last._replace(end=end)
        else:
            self._staged.append(_Staged(file, offset, start, end))

    def commit_staged(self) -> None:
        """Write all staged batches to their files; on OSError all of them stay staged."""
        with memoryview(self._memory) as memory:
            for file, offset, start, end in self._staged:
                with memory[start:end] as content:
                    file.write(content, offset)
        self._staged.clear()
        self._used = 0
        self.positions.wrote_staged()
