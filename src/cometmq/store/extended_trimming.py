"""Deletes extended units whose queue entries are gone.

A file of units, but never a queue's newest, is deleted if no existing entry with an address points into or before it, as
in ConsumeQueueExt.truncateByMinAddress of RocketMQ 5.3.3. Our own entries have no address and may come before or after
those of a Java broker, so the first entry with an address is searched.
"""

from collections.abc import Iterator
from functools import partial

from cometmq.codec.other_queues import extended_place, is_extended_address
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.derived import Step
from cometmq.store.disk import Disk
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.queue_trimming import first_living

_PIECE = 4_096  # Entries per read: 80 KiB.


class ExtendedTrimming:
    """Deletes files of extended units (tags codes in separate files) that no existing message needs; keeps each newest."""

    def __init__(self, disk: Disk, extended: ExtendedQueues, queues: ConsumeQueues) -> None:
        self._disk = disk
        self._extended = extended
        self._queues = queues

    def delete_before(self, log_start: int) -> Iterator[Step]:
        """Yield a step (if there are units) that deletes older files of units that no message from `log_start` on needs."""
        if self._extended.topics():
            yield partial(self._remove_files, log_start)

    def _remove_files(self, log_start: int) -> None:
        for path in self.files_before(log_start):
            self._disk.unlink(path)
            self._disk.sync_directory(path.rpartition("/")[0])

    def files_before(self, log_start: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete; may block and raise OSError."""
        return [
            path
            for topic in self._extended.topics()
            for queue in self._queues.of_topic(topic)
            for path in self._expired(queue, log_start)
        ]

    def _expired(self, queue: ConsumeQueue, log_start: int) -> list[str]:
        """Return the paths of the unneeded files of a queue, oldest first; the newest file never counts as unneeded."""
        paths = self._extended.paths(queue.topic, queue.queue_id)
        if len(paths) <= 1:
            return []
        first = self._first_place(queue, first_living(self._queues.files, queue, log_start))
        if first is None:
            return paths[:-1]
        # A file ends where the next one begins, and names are start offsets.
        starts = [int(path.rpartition("/")[2]) for path in paths[1:]]
        return [path for path, end in zip(paths, starts, strict=False) if end <= first]

    def _first_place(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return the byte position of the first unit of the entries from `offset` on; None without one, 0 if unknown."""
        while offset < queue.max_offset:
            entries = self._queues.read_entries(queue, offset, _PIECE)
            if not entries:
                return 0  # A hole: later entries are unknown.
            for _, _, code in entries:
                if is_extended_address(code):
                    return extended_place(code)
            offset += len(entries)
        return None
