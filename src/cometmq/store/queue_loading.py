"""Finds what queues there are in the files, and where each begins and ends.

A queue's files hold, one behind the other: blank entries, entries whose messages are deleted,
living ones, and zeros. Each border is found by bisection over what is known to be in order. After
an unclean stop the order holds only for entries of records before `dispatched` (see
cometmq.store.checkpoint), so only these are taken; the log gives the rest again.

Next: cometmq.store.recovery
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from cometmq.codec.queue_entry import BLANK_ENTRY, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.model.errors import StoreDamaged
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk
from cometmq.store.file_chain import NAME_DIGITS

BLANK_SIZE = QUEUE_ENTRY.unpack(BLANK_ENTRY)[1]

# (physical offset, size) -> whether the entry is before the border
IsBefore = Callable[[int, int], bool]

_FIRST_READ = 4096  # Most queues of a broker with very many are short.


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """A queue of the directory.

    Attributes:
        queue: it, positions set.
        stored_end: queue offset behind the last entry on disk; more than `queue.max_offset`
            where entries were not taken.
        physical_end: physical offset behind its last message; 0 without one.
    """

    queue: ConsumeQueue
    stored_end: int
    physical_end: int


class QueueLoader:
    """Loads every queue below a directory."""

    def __init__(self, disk: Disk, queues: ConsumeQueues) -> None:
        self._disk = disk
        self._queues = queues
        self._per_file = queues.files.entries_per_file

    def load(self, *, log_start: int, dispatched: int | None) -> list[LoadedQueue]:
        """Fill the table of queues.

        Args:
            log_start: physical offset of the oldest record.
            dispatched: take only entries of records before it; None: all there are.

        Raises:
            StoreDamaged: a queue file has another size than the setting says.
            OSError: the disk failed.
        """
        root = self._queues.files.directory
        return [
            self._load_queue(topic, int(name), log_start=log_start, dispatched=dispatched)
            for topic in self._disk.list_names(root)
            for name in self._disk.list_names(f"{root}/{topic}")
            if name.isdigit()
        ]

    def _load_queue(
        self, topic: str, queue_id: int, *, log_start: int, dispatched: int | None
    ) -> LoadedQueue:
        queue = self._queues.find_or_make(topic, queue_id)
        starts = self._file_starts(topic, queue_id)
        if not starts:
            return LoadedQueue(queue, 0, 0)
        stored_end = end = self._border(queue, starts, lambda _, size: size > 0)
        if dispatched is not None:
            limit = dispatched
            end = self._border(queue, starts, lambda offset, size: size > 0 and offset < limit)
        start = self._first_living(queue, starts, log_start)
        queue.begin_at(end)
        queue.min_offset = min(start, end)
        return LoadedQueue(queue, stored_end, self._physical_end(queue))

    def _file_starts(self, topic: str, queue_id: int) -> list[int]:
        """Queue offset at which each file begins; the newest must have the right size."""
        directory = self._queues.files.queue_directory(topic, queue_id)
        names = [
            name
            for name in self._disk.list_names(directory)
            if len(name) == NAME_DIGITS and name.isdigit()
        ]
        if not names:
            return []
        self._check_size(f"{directory}/{names[-1]}")
        return [int(name) // QUEUE_ENTRY_SIZE for name in names]

    def _check_size(self, path: str) -> None:
        fd = self._disk.open(path, write=False)
        try:
            size = self._disk.size(fd)
        finally:
            self._disk.close(fd)
        wanted = self._per_file * QUEUE_ENTRY_SIZE
        if size not in (wanted, 0):  # 0: a stop while it was made.
            raise StoreDamaged(
                f"{path} has {size} bytes, the setting mappedFileSizeConsumeQueue says "
                f"{wanted}; set it to the size this store was written with"
            )

    def _border(self, queue: ConsumeQueue, starts: list[int], is_before: IsBefore) -> int:
        """The first offset whose entry is not before the border; files beyond are passed over."""
        for start in reversed(starts):
            head = self._queues.files.read(queue, start, _FIRST_READ // QUEUE_ENTRY_SIZE)
            if head and _holds(is_before, head, 0):
                return start + self._border_in_file(queue, start, head, is_before)
        return starts[0]

    def _border_in_file(
        self, queue: ConsumeQueue, start: int, head: bytes, is_before: IsBefore
    ) -> int:
        count = len(head) // QUEUE_ENTRY_SIZE
        if not _holds(is_before, head, count - 1):
            return bisect_left(range(count), 1, key=lambda n: not _holds(is_before, head, n))
        read = self._queues.files.read

        def is_behind(index: int) -> bool:
            entry = read(queue, start + index, 1)
            return not entry or not _holds(is_before, entry, 0)

        return bisect_left(range(self._per_file), 1, lo=count, key=is_behind)

    def _first_living(self, queue: ConsumeQueue, starts: list[int], log_start: int) -> int:
        """The first offset whose message is still in the log."""
        first = self._queues.files.read(queue, starts[0], 1)
        if first and not _is_dead(first, log_start):
            return starts[0]
        return self._border(
            queue,
            starts,
            lambda offset, size: size == BLANK_SIZE or (size > 0 and offset < log_start),
        )

    def _physical_end(self, queue: ConsumeQueue) -> int:
        """Behind the last message of the queue."""
        if queue.max_offset == queue.min_offset:
            return 0
        entry = self._queues.files.read(queue, queue.max_offset - 1, 1)
        offset, size, _ = QUEUE_ENTRY.unpack(entry)
        return int(offset + size)


def _holds(is_before: IsBefore, entries: bytes, index: int) -> bool:
    """Whether the entry at an index is before the border."""
    offset, size, _ = QUEUE_ENTRY.unpack_from(entries, index * QUEUE_ENTRY_SIZE)
    return is_before(offset, size)


def _is_dead(entry: bytes, log_start: int) -> bool:
    """Whether an entry's message is gone, or it never had one."""
    offset, size, _ = QUEUE_ENTRY.unpack(entry)
    return bool(size == BLANK_SIZE or offset < log_start)
