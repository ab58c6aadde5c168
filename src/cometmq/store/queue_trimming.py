"""Trims queues after the log has lost its oldest files: hides their first entries, then deletes whole files.

Both steps read files and therefore run in a thread that may block; the owner of the store changes offsets in between
(`cometmq.store.derived`). The newest file of a queue is kept even if all its messages are gone, because it records the
offset at which the queue continues.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial

from cometmq.codec.queue_entry import QUEUE_ENTRY, place_of_entry
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.derived import Step
from cometmq.store.disk import Disk
from cometmq.store.queue_files import QueueFiles

QUEUES_PER_STEP = 256  # At least; about 5 ms of a thread if one entry of each is read.


class QueueTrimming:
    """Trims the consume queues (except batch queues) to the log's start."""

    def __init__(self, disk: Disk, queues: ConsumeQueues) -> None:
        self._disk = disk
        self._queues = queues
        self._files = queues.files

    def delete_before(self, log_start: int) -> Iterator[Step]:
        """Raise the queues' min offsets and delete older files, never a queue's newest, in steps (`store.derived`)."""
        for part in self._parts():
            yield from self._trim(part, log_start)

    def files_before(self, log_start: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete; may block and raise OSError."""
        return [
            path
            for queue in self._queues
            for path in self._files.names_before(
                queue, first_living(self._files, queue, log_start)
            )
        ]

    def _parts(self) -> Iterator[list[ConsumeQueue]]:
        part: list[ConsumeQueue] = []
        for topic in self._queues.table.topics():
            part += self._queues.of_topic(topic)
            if len(part) >= QUEUES_PER_STEP:
                yield part
                part = []
        if part:
            yield part

    def _trim(self, queues: Sequence[ConsumeQueue], log_start: int) -> Iterator[Step]:
        firsts: dict[ConsumeQueue, int] = {}
        yield partial(self._find_firsts, queues, log_start, firsts)
        for queue, first in firsts.items():
            queue.hide_before(first)
        # A queue that begins in its first file has none to delete.
        per_file = self._files.entries_per_file
        known = [queue for queue in queues if queue.min_offset >= per_file]
        removed: list[str] = []
        if known:
            yield partial(self._remove_files, known, removed)
            self._files.forget_paths(removed)

    def _find_firsts(
        self, queues: Sequence[ConsumeQueue], log_start: int, firsts: dict[ConsumeQueue, int]
    ) -> None:
        for queue in queues:
            first = first_living(self._files, queue, log_start)
            if first != queue.min_offset:
                firsts[queue] = first

    def _remove_files(self, queues: Sequence[ConsumeQueue], removed: list[str]) -> None:
        for queue in queues:
            if queue.deleted:
                # The topic may exist again with other messages in files of the same names.
                continue
            paths = self._files.names_before(queue, queue.min_offset)
            for path in paths:
                removed.append(path)
                self._disk.unlink(path)
                if path != paths[-1]:
                    # Otherwise a power cut could leave a hole, for which all queues would be rebuilt.
                    self._disk.sync_directory(path.rpartition("/")[0])


def first_living(files: QueueFiles, queue: ConsumeQueue, log_start: int) -> int:
    """Return the queue offset of the first entry whose record is at or after `log_start`, else the max offset.

    May block, and raise OSError; any thread.
    """
    offsets = range(queue.min_offset, queue.max_offset)

    def physical_offset_of(offset: int) -> int:
        return _physical_offset(files, queue, offset)

    # Of many queues, most have lost nothing, which the first entry shows.
    if not offsets or physical_offset_of(offsets.start) >= log_start:
        return offsets.start
    return offsets.start + bisect_left(offsets, log_start, key=physical_offset_of)


def end_before(files: QueueFiles, queue: ConsumeQueue, log_end: int) -> int:
    """Return the queue offset after the last entry whose record is before an offset of the log; may raise OSError."""
    low, high = queue.min_offset, queue.max_offset
    # Truncations are short: most queues have nothing after it, which the last entry shows.
    if low == high or _physical_offset(files, queue, high - 1) < log_end:
        return high
    offsets = range(low, high)
    return low + bisect_left(
        offsets, log_end, key=lambda offset: _physical_offset(files, queue, offset)
    )


def _physical_offset(files: QueueFiles, queue: ConsumeQueue, offset: int) -> int:
    """Return the `place_of_entry` of a queue's entry; -1 if the entry cannot be found."""
    try:
        entry = queue.tail_entry(offset) or files.read(queue, offset, 1)
    except FileNotFoundError:
        return -1
    if not entry:
        return -1
    return place_of_entry(*QUEUE_ENTRY.unpack(entry))
