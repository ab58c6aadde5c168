"""Files of the consume queues: sparse, opened on demand; at most 256 stay open.

    consumequeue/TOPIC/QUEUE_ID/00000000000006000000    name = first byte's place in the queue

A file has its full size from the start, but its unwritten part is a hole: 80,000 queues of 6 MB could be neither
allocated nor all kept open. Java reads up to the first entry of size 0, so a queue that begins in the middle of a
file is filled up to there with blank entries (ConsumeQueue.fillPreBlank of RocketMQ 5.3.3;
docs/format/store-directory.md).
"""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from cometmq.codec.queue_entry import BLANK_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.kernel.rows import KeptEntries, PlacedEntries
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Disk, opened, write_whole

# Open descriptors: the part of the default limit of 1024 that connections and log files leave.
OPEN_FILES_MAX = 256
# Cached reads: number of queues, and bytes per queue (a page, or slightly more than one read wants).
KEPT_MAX, KEPT_SIZE_MAX = 256, 20 << 10
_PAGE_SIZE = 4096  # Unit of the page cache.


class ClearedQueue(NamedTuple):
    """File paths of a truncated queue: the one zeroed from its new end on (None if missing), and the deleted later ones."""

    path: str | None
    removed: list[str]


class QueueFiles:
    """Reads and writes queue entries by queue offset.

    Attributes:
        kept: Entries that `read_nowait` has cached, for up to 256 queues; only entries that were in files.
        unsynced: Paths of files that the next checkpoint job must sync.
        fresh_directories: Paths of directories whose changed names it must sync.
    """

    def __init__(
        self, disk: Disk, directory: str, entries_per_file: int, *, read_only: bool = False
    ) -> None:
        self._disk = disk
        self._read_only = read_only
        self.directory = directory
        self.entries_per_file = entries_per_file
        self._file_size = entries_per_file * QUEUE_ENTRY_SIZE
        self._open: OrderedDict[str, int] = OrderedDict()
        # Any thread that changes files replaces this dict; a read that began before stores its result in the old one.
        self.kept: dict[ConsumeQueue, KeptEntries] = {}
        self.unsynced: set[str] = set()
        self.fresh_directories: set[str] = set()

    def queue_directory(self, topic: str, queue_id: int) -> str:
        """Return the path of the directory of a queue's files."""
        return f"{self.directory}/{topic}/{queue_id}"

    def path(self, queue: ConsumeQueue, offset: int) -> str:
        """Return the path of the file that contains a queue offset."""
        start = offset // self.entries_per_file * self._file_size
        return f"{self.directory}/{queue.topic}/{queue.queue_id}/{start:020d}"

    def write(
        self, queue: ConsumeQueue, offset: int, entries: bytes, *, is_kept: bool = True
    ) -> None:
        """Write encoded entries from a queue offset on; after an OSError, a part of them may be written.

        With `is_kept`, a newly opened file stays open, and beyond 256 another one is closed; pass False to write to very many.
        """
        index = offset % self.entries_per_file
        room = (self.entries_per_file - index) * QUEUE_ENTRY_SIZE
        if len(entries) > room:
            self.write(queue, offset, entries[:room], is_kept=is_kept)
            rest = offset - index + self.entries_per_file
            self.write(queue, rest, entries[room:], is_kept=is_kept)
            return
        path = self.path(queue, offset)
        fd = self._open.get(path)
        if fd is not None:
            self._open.move_to_end(path)
        else:
            fd = self._writable(path, index)
            if is_kept:
                self._remember(path, fd)
            else:
                self._write_and_close(path, fd, entries, index)
                return
        self.unsynced.add(path)
        write_whole(self._disk, fd, entries, index * QUEUE_ENTRY_SIZE)

    def _write_and_close(self, path: str, fd: int, entries: bytes, index: int) -> None:
        self.unsynced.add(path)
        try:
            write_whole(self._disk, fd, entries, index * QUEUE_ENTRY_SIZE)
        finally:
            self._disk.close(fd)

    def _writable(self, path: str, index: int) -> int:
        """Open a file for writing, creating it if needed for a first entry at `index`; return its descriptor."""
        try:
            fd = self._disk.open(path)
            if self._disk.size(fd):
                return fd
            self._disk.close(fd)  # The process stopped while creating it.
        except FileNotFoundError:
            pass
        self._make(path, index)
        return self._disk.open(path)

    def _make(self, path: str, index: int) -> None:
        """Create a file with blank entries before its first one at `index`; if that fails, try to remove it."""
        directory = path.rpartition("/")[0]
        topic_directory = directory.rpartition("/")[0]
        if not self._disk.exists(directory):
            self._disk.make_directory(directory)
            self.fresh_directories.update((self.directory, topic_directory))
        fd = self._disk.open(path, create=True)
        try:
            self._disk.resize(fd, self._file_size)
            if index:
                write_whole(self._disk, fd, BLANK_ENTRY * index, 0)
        except OSError:
            with suppress(OSError):
                self._disk.unlink(path)
            raise
        finally:
            self._disk.close(fd)
        self.fresh_directories.add(directory)

    def _remember(self, path: str, fd: int) -> int:
        """Keep a descriptor open for later and return it; if there are too many, close another one.

        The file closed is the one whose opening or last write is longest ago; reads do not count.
        """
        self._open[path] = fd
        if len(self._open) > OPEN_FILES_MAX:
            _, oldest = self._open.popitem(last=False)
            self._disk.close(oldest)
        return fd

    def read_nowait(self, queue: ConsumeQueue, offset: int, count: int) -> PlacedEntries | None:
        """Return up to `count` entries of one file as (bytes, entries' start in them, end); None if that may block.

        The caller asks only for entries that are in files. The page in which they end is read as far as it was written;
        the result is cached for later calls unless it has more than 20 KiB.

        Raises:
            FileNotFoundError: The file is gone.
            OSError: The disk failed.
        """
        kept = self.kept
        piece = kept.get(queue)
        if piece is not None:
            first, stop, entries = piece
            if first <= offset and offset + count <= stop:
                start = (offset - first) * QUEUE_ENTRY_SIZE
                return entries, start, start + count * QUEUE_ENTRY_SIZE
        number, index = divmod(offset, self.entries_per_file)
        known = queue.read_file
        if known is None or known[0] != number:
            known = queue.read_file = number, self.path(queue, offset)
        path = known[1]
        fd = self._open.get(path)
        if fd is None:
            # Opened for writing, so that the next write to the queue uses the same descriptor.
            fd = self._remember(path, self._disk.open(path, write=not self._read_only))
        end = index + min(count, self.entries_per_file - index)
        # Never read unwritten entries: holes read as zeros.
        stop = min(_end_of_page(end), self.entries_per_file, index + queue.tail_start - offset)
        size = (stop - index) * QUEUE_ENTRY_SIZE
        found = self._disk.pread_nowait(fd, size, index * QUEUE_ENTRY_SIZE)
        if found is None:
            return None
        if size <= KEPT_SIZE_MAX:
            if piece is None and len(kept) >= KEPT_MAX:
                del kept[next(iter(kept))]
            kept[queue] = offset, offset + stop - index, found
        return found, 0, (end - index) * QUEUE_ENTRY_SIZE

    def read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Return up to `count` encoded entries of one file as bytes; may block on the device; any thread.

        Raises:
            FileNotFoundError: The file is gone.
            OSError: The disk failed.
        """
        with opened(self._disk, self.path(queue, offset), write=False) as fd:
            index = offset % self.entries_per_file
            size = min(count, self.entries_per_file - index) * QUEUE_ENTRY_SIZE
            return self._disk.pread(fd, size, index * QUEUE_ENTRY_SIZE)

    def rewrite(self, queue: ConsumeQueue, offset: int, entries: bytes) -> None:
        """Replace written entries of one file; may raise OSError, also if the file is gone. Any thread.

        The change need not be synced: if a power cut undoes it, a later read of the entries repairs them again.
        """
        fd = self._disk.open(self.path(queue, offset))
        try:
            at = offset % self.entries_per_file * QUEUE_ENTRY_SIZE
            write_whole(self._disk, fd, entries, at)
        finally:
            self.kept = {}
            self._disk.close(fd)

    def clear_from(self, queue: ConsumeQueue, offset: int) -> None:
        """Remove all entries from an offset on: zero the rest of its file and delete later files."""
        self.forget(queue)
        self.cleared(self.clear_end(queue, offset))

    def clear_end(self, queue: ConsumeQueue, offset: int) -> ClearedQueue:
        """Do the file work of `clear_from` for files that are not open; pass the result to `cleared`. Any thread."""
        path = self.path(queue, offset)
        directory, _, wanted = path.rpartition("/")
        removed = [
            f"{directory}/{name}" for name in self._disk.list_names(directory) if name > wanted
        ]
        for newer in removed:
            self._disk.unlink(newer)
        if not self._disk.exists(path):
            return ClearedQueue(None, removed)
        fd = self._disk.open(path)
        try:
            self._disk.clear_from(fd, offset % self.entries_per_file * QUEUE_ENTRY_SIZE)
        finally:
            self.kept = {}
            self._disk.close(fd)
        return ClearedQueue(path, removed)

    def cleared(self, end: ClearedQueue) -> None:
        """Note the files changed by `clear_end` for the next checkpoint."""
        self.unsynced.difference_update(end.removed)
        if end.path is not None:
            self.unsynced.add(end.path)

    def names_before(self, queue: ConsumeQueue, offset: int) -> list[str]:
        """Return the paths of a queue's files that end at or before a queue offset, except the newest; any thread."""
        directory = self.queue_directory(queue.topic, queue.queue_id)
        names = [name for name in self._disk.list_names(directory) if name.isdigit()]
        return [
            f"{directory}/{name}"
            for name in names[:-1]
            if (int(name) + self._file_size) <= offset * QUEUE_ENTRY_SIZE
        ]

    def forget_paths(self, paths: Iterable[str]) -> None:
        """Close the descriptors of deleted files, and drop the cached entries of all queues."""
        self.kept = {}
        for path in paths:
            fd = self._open.pop(path, None)
            if fd is not None:
                self._disk.close(fd)

    def forget(self, *queues: ConsumeQueue) -> None:
        """Close the open files of queues that are about to change or be deleted; drop cached entries of all queues."""
        self.kept = {}
        directories = {self.queue_directory(queue.topic, queue.queue_id) for queue in queues}
        for path in [path for path in self._open if path.rpartition("/")[0] in directories]:
            self._disk.close(self._open.pop(path))

    def remove(self, queue: ConsumeQueue) -> None:
        """Delete a queue's files and directory; raise OSError if one cannot be removed."""
        self.forget(queue)
        directory = self.queue_directory(queue.topic, queue.queue_id)
        remove_tree(self._disk, directory)
        self.unsynced = {path for path in self.unsynced if not path.startswith(directory + "/")}
        self.fresh_directories.discard(directory)

    def topic_names(self) -> list[str]:
        """Return the names in the directory of all queues: normally one directory for each topic."""
        return self._disk.list_names(self.directory)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the numbers among the names in a topic's directory, which are its queue ids; empty if it is missing."""
        names = self._disk.list_names(f"{self.directory}/{topic}")
        return [int(name) for name in names if name.isdigit()]

    def remove_topic(self, topic: str) -> None:
        """Remove the directory of a topic if it is empty."""
        directory = f"{self.directory}/{topic}"
        self.fresh_directories.discard(directory)
        if not self._disk.list_names(directory) and self._disk.exists(directory):
            with suppress(NotADirectoryError):  # A file of somebody else in its place.
                self._disk.remove_directory(directory)
                self._disk.sync_directory(self.directory)

    def close(self) -> None:
        """Close all descriptors."""
        while self._open:
            self._disk.close(self._open.popitem()[1])


def _end_of_page(end: int) -> int:
    """Return the index after the last entry that is wholly before the end of the 4 KiB page in which entry `end - 1` ends."""
    return -(-end * QUEUE_ENTRY_SIZE // _PAGE_SIZE) * _PAGE_SIZE // QUEUE_ENTRY_SIZE


def remove_tree(disk: Disk, directory: str) -> None:
    """Remove a directory, if it exists, with the files in it; it must contain nothing else."""
    if disk.exists(directory):
        for name in disk.list_names(directory):
            disk.unlink(f"{directory}/{name}")
        disk.remove_directory(directory)


def remove_topic(disk: Disk, directory: str) -> None:
    """Remove the directory of a topic, if it exists, with the directories of its queues and their files."""
    if disk.exists(directory):
        for name in disk.list_names(directory):
            remove_tree(disk, f"{directory}/{name}")
        disk.remove_directory(directory)
