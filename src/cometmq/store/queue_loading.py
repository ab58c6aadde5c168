"""Loads the consume queues (except batch queues) from their files: which exist, and where each begins and ends.

The files of a queue contain, in this order: blank entries, entries of deleted messages, entries of existing messages,
and zeros. The borders are found by bisection. After an unclean stop only entries of records before `dispatched` are
known to be in order (see cometmq.store.checkpoint), so only these are used; the log provides the rest again.
"""

from bisect import bisect_left
from collections.abc import Callable

from cometmq.codec.queue_entry import (
    BLANK_SIZE,
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    place_of_entry,
)
from cometmq.model.errors import StoreDamaged
from cometmq.model.frozen import dataclass
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk
from cometmq.store.file_chain import NAME_DIGITS
from cometmq.store.queue_table import say_set_aside

# (physical offset, size) -> whether the entry is before the border
IsBefore = Callable[[int, int], bool]

# First read of each file: one page. Stores with very many queues have mostly short ones.
FIRST_ENTRIES = 4096 // QUEUE_ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """A queue found in the directory.

    Attributes:
        queue: The queue; its offsets are set if its files are usable.
        stored_end: Queue offset after the last entry on disk; 0 without usable files.
            Above `queue.max_offset` if entries were rejected.
        physical_end: Physical offset of the end of its last message; 0 if none is left.
        has_gap: Whether a file has a wrong size or is missing between two others, or, if all entries were loaded
            (`dispatched` is None), other bytes than zeros follow soon after the last one.
    """

    queue: ConsumeQueue
    stored_end: int
    physical_end: int
    has_gap: bool = False


class EntryFile:
    """One queue file, read while its queue is loaded; `start` is its first queue offset."""

    __slots__ = ("_disk", "_fd", "_head", "path", "start")

    def __init__(self, disk: Disk, path: str, start: int) -> None:
        self._disk = disk
        self.path = path
        self._fd = -1
        self._head = b""
        self.start = start

    def open(self) -> None:
        """Open the file and read its first entries, 204 at most, unless it is open."""
        if self._fd < 0:
            self._fd = self._disk.open(self.path, write=False)
            self._head = self._disk.pread(self._fd, FIRST_ENTRIES * QUEUE_ENTRY_SIZE, 0)

    def size(self) -> int:
        """Return the file's size in bytes; -1 for a directory in its place."""
        try:
            self.open()
        except IsADirectoryError:
            return -1
        return self._disk.size(self._fd)

    def entry(self, index: int) -> tuple[int, int]:
        """Return (`place_of_entry`, size) of an entry by its index in the file; (0, 0) after the file's end."""
        self.open()
        at = index * QUEUE_ENTRY_SIZE
        if at + QUEUE_ENTRY_SIZE <= len(self._head):
            offset, size, code = QUEUE_ENTRY.unpack_from(self._head, at)
            return place_of_entry(offset, size, code), size
        entry = self._disk.pread(self._fd, QUEUE_ENTRY_SIZE, at)
        if len(entry) < QUEUE_ENTRY_SIZE:
            return 0, 0
        offset, size, code = QUEUE_ENTRY.unpack(entry)
        return place_of_entry(offset, size, code), size

    def is_written_behind(self, index: int) -> bool:
        """Return whether a byte from an entry on, within a page, is not zero; after a queue's end that indicates damage."""
        self.open()
        at = index * QUEUE_ENTRY_SIZE
        if at + QUEUE_ENTRY_SIZE > len(self._head):
            return any(self._disk.pread(self._fd, FIRST_ENTRIES * QUEUE_ENTRY_SIZE, at))
        return any(memoryview(self._head)[at:])

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


class QueueLoader:
    """Loads all queues of a store but batch queues; `wrong` maps file paths to their wrong size (-1: a directory)."""

    def __init__(self, disk: Disk, queues: ConsumeQueues) -> None:
        self._disk = disk
        self._queues = queues
        self._per_file = queues.files.entries_per_file
        self._is_any_right = False
        self.wrong: dict[str, int] = {}

    def load(self, *, log_start: int, dispatched: int | None) -> list[LoadedQueue]:
        """Load and return all queues but batch queues; one with the id of a batch queue is not added to the table.

        Args:
            log_start: Physical offset at which the oldest log file begins.
            dispatched: Use only entries of records before this physical offset; None for all.

        Raises:
            StoreDamaged: All non-empty queue files, more than one, have the same size, but not that of the setting.
            OSError: The disk failed.
        """
        root = self._queues.files.directory
        loaded = []
        for topic in self._disk.list_names(root):
            for name in self._disk.list_names(f"{root}/{topic}"):
                if name.isdigit():
                    queue_id = int(name)
                    one = self.load_queue(
                        topic, queue_id, log_start=log_start, dispatched=dispatched
                    )
                    loaded.append(one)
        self._check_setting()
        return loaded

    def load_queue(
        self, topic: str, queue_id: int, *, log_start: int, dispatched: int | None
    ) -> LoadedQueue:
        """Load one queue, whose offsets are set if its files exist and have the right size; raise OSError if the disk fails."""
        queue = self._queue(topic, queue_id)
        files = self._files_of(queue)
        try:
            loaded = self._load_queue(queue, files, log_start, dispatched)
        finally:
            for file in files:
                file.close()
        if queue.deleted:
            say_set_aside(queue)
        return loaded

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue of a directory; add a new one to the table unless a batch queue has its id."""
        table = self._queues.table
        there = table.find(topic, queue_id)
        if there is not None and not there.is_batch:
            return there
        queue = ConsumeQueue(topic, queue_id)
        queue.deleted = there is not None
        if there is None:
            table.add(queue)
        return queue

    def check_sizes(self) -> None:
        """Raise StoreDamaged if a file has a wrong size; the broker's next start would move it away and rebuild it."""
        for path, size in self.wrong.items():
            raise StoreDamaged(
                f"{path} has {size} bytes, but the setting mappedFileSizeConsumeQueue is "
                f"{self._per_file * QUEUE_ENTRY_SIZE}; the next start of the broker moves it to the "
                "folder damaged and rebuilds it"
            )

    def _check_setting(self) -> None:
        """Raise StoreDamaged if all non-empty files, more than one, have the same size, but not that of the setting."""
        sizes = set(self.wrong.values())
        if (
            not self._is_any_right
            and len(self.wrong) > 1
            and len(sizes) == 1
            and -1 not in sizes
        ):
            path, size = next(iter(self.wrong.items()))
            raise StoreDamaged(
                f"{path} and all other queue files have {size} bytes, but the setting mappedFileSizeConsumeQueue is "
                f"{self._per_file * QUEUE_ENTRY_SIZE}; set it to the size with which this store was written"
            )

    def _is_right(self, file: EntryFile) -> bool:
        """Return whether a file has the right size, or 0, which an interrupted creation leaves; add others to `wrong`."""
        size = file.size()
        if size not in (self._per_file * QUEUE_ENTRY_SIZE, 0):
            self.wrong[file.path] = size
            return False
        self._is_any_right |= size > 0
        return True

    def _files_of(self, queue: ConsumeQueue) -> list[EntryFile]:
        directory = self._queues.files.queue_directory(queue.topic, queue.queue_id)
        return [
            EntryFile(self._disk, f"{directory}/{name}", int(name) // QUEUE_ENTRY_SIZE)
            for name in self._disk.list_names(directory)
            if len(name) == NAME_DIGITS and name.isdigit()
        ]

    def _load_queue(
        self,
        queue: ConsumeQueue,
        files: list[EntryFile],
        log_start: int,
        dispatched: int | None,
    ) -> LoadedQueue:
        """Set a queue's offsets; without files or with one of a wrong size they do not change. A wrong size counts as a gap."""
        if not files:
            return LoadedQueue(queue, 0, 0)
        are_right = True
        for file in files:
            are_right &= self._is_right(file)
            if file is not files[-1]:
                file.close()  # A long queue may have more files than a process can open.
        if not are_right:
            return LoadedQueue(queue, 0, 0, has_gap=True)
        # A negative size is damage, not the end.
        stored_end = end = self._border(files, lambda place, size: size != 0 or place != 0)
        if dispatched is not None:
            limit = dispatched
            end = self._border(files, lambda offset, size: size > 0 and offset < limit)
        start = self._border(
            files,
            lambda offset, size: (
                size > 0 and (offset < log_start or (size == BLANK_SIZE and not offset))
            ),
        )
        queue.begin_at(end)
        queue.min_offset = min(start, end)
        has_gap = files[-1].start - files[0].start != self._per_file * (len(files) - 1)
        if dispatched is None:
            last = next(file for file in reversed(files) if file.start <= stored_end)
            has_gap |= last.is_written_behind(stored_end - last.start)
        return LoadedQueue(queue, stored_end, self._physical_end(queue, files), has_gap)

    def _border(self, files: list[EntryFile], is_before: IsBefore) -> int:
        """Return the queue offset of the first entry for which `is_before` is false; the end if there is none.

        It must be false for all entries after that one, too.
        """
        for file in reversed(files):
            # If the first entry of a file is after the border, so is the whole file.
            if is_before(*file.entry(0)):

                def is_behind(index: int, file: EntryFile = file) -> bool:
                    return not is_before(*file.entry(index))

                # For a short queue, the page that was read decides.
                known = min(FIRST_ENTRIES, self._per_file)
                low, high = (0, known) if is_behind(known - 1) else (known, self._per_file)
                return file.start + bisect_left(range(high), 1, lo=low, key=is_behind)
        return files[0].start

    def _physical_end(self, queue: ConsumeQueue, files: list[EntryFile]) -> int:
        last = queue.max_offset - 1
        if last < queue.min_offset:
            return 0
        file = next(file for file in reversed(files) if file.start <= last)
        offset, size = file.entry(last - file.start)
        return offset if size == BLANK_SIZE else offset + size
