"""Lets extended units go whose queue entries are gone.

A file of units goes when the oldest living entry that has an address points behind it, as
ConsumeQueueExt.truncateByMinAddress of RocketMQ 5.3.3 has it. Entries that we wrote have no address, and
those of a Java broker may lie before and behind them, so the first address is looked for.

Next: cometmq.store.extended_queues
"""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.codec.other_queues import extended_place, is_extended_address
from cometmq.codec.queue_entry import QueueEntry
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.queue_trimming import first_living

_PIECE = 4_096  # Entries at once: 80 KiB.

# Up to so many entries of a queue from an offset on; may wait.
Entries = Callable[[ConsumeQueue, int, int], list[QueueEntry]]


class UnitFile(NamedTuple):
    """A file of extended units."""

    path: str


class ExtendedTrimming:
    """Follows the log's start, in a thread that may wait (`cometmq.store.cleaner`)."""

    def __init__(
        self, disk: Disk, extended: ExtendedQueues, queues: ConsumeQueues, entries: Entries
    ) -> None:
        self._disk = disk
        self._extended = extended
        self._queues = queues
        self._entries = entries

    def delete_before(self, physical_offset: int) -> list[str]:
        """Remove the files that no living entry needs; gives their paths.

        Raises:
            OSError: a file could not be removed.
        """
        expired = self.files_before(physical_offset)
        for file in expired:
            self._disk.unlink(file.path)
            self._disk.sync_directory(file.path.rpartition("/")[0])
        return [file.path for file in expired]

    def files_before(self, physical_offset: int) -> list[UnitFile]:
        """What `delete_before` would remove."""
        return [
            UnitFile(path)
            for topic in self._extended.topics()
            for queue in self._queues.of_topic(topic)
            for path in self._expired(queue, physical_offset)
        ]

    def _expired(self, queue: ConsumeQueue, log_start: int) -> list[str]:
        """Files of a queue that are not needed, the oldest first; the newest always is."""
        paths = self._extended.paths(queue.topic, queue.queue_id)
        if len(paths) <= 1:
            return []
        first = self._first_place(queue, first_living(self._queues.files, queue, log_start))
        if first is None:
            return paths[:-1]
        # A file ends where the next begins, for which each is named.
        starts = [int(path.rpartition("/")[2]) for path in paths[1:]]
        return [path for path, end in zip(paths, starts, strict=False) if end <= first]

    def _first_place(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Where the first unit lies that an entry from an offset on points to; None: none does."""
        while offset < queue.max_offset:
            entries = self._entries(queue, offset, _PIECE)
            if not entries:
                return 0  # A hole: who knows what lies behind it.
            for _, _, code in entries:
                if is_extended_address(code):
                    return extended_place(code)
            offset += len(entries)
        return None
