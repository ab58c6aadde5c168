"""Determines a broker's delay levels from the queues of the delay topic.

An entry there normally contains the due time of its message (store time plus delay); the queue id is the level minus 1.
"""

from collections.abc import Sequence

from cometmq.codec.queue_entry import QUEUE_ENTRY
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Disk
from cometmq.store.log_end import record_at
from cometmq.store.queue_files import QueueFiles
from cometmq.store.settings import DELAY_LEVELS_MS

USUAL_LEVELS_MS = DELAY_LEVELS_MS  # Unless they were configured.
_ENTRIES_READ = 64  # The first entries of a queue may point to deleted files.


def find_delay_levels(
    disk: Disk,
    files: QueueFiles,
    log: CommitLog,
    known_ms: Sequence[int],
) -> tuple[int, ...]:
    """Return the delay in ms of each level; levels that no queue shows have the delay given in `known_ms`."""
    levels_ms = list(known_ms)
    for name in disk.list_names(f"{files.directory}/{SCHEDULE_TOPIC}"):
        if name.isdigit() and int(name) < len(levels_ms):
            queue = ConsumeQueue(SCHEDULE_TOPIC, int(name))
            delay_ms = _delay_of(disk, files, log, queue)
            if delay_ms is not None:
                levels_ms[int(name)] = delay_ms
    return tuple(levels_ms)


def _delay_of(disk: Disk, files: QueueFiles, log: CommitLog, queue: ConsumeQueue) -> int | None:
    """Return the delay in ms by the first entry of a level's queue whose record is found; None if there is none.

    Only the first 64 entries of each of its two oldest files are read.
    """
    names = disk.list_names(files.queue_directory(queue.topic, queue.queue_id))
    starts = [int(name) // QUEUE_ENTRY.size for name in names if name.isdigit()]
    for start in starts[:2]:
        for at, size, due_ms in QUEUE_ENTRY.iter_unpack(
            files.read(queue, start, _ENTRIES_READ)
        ):
            file = log.chain.find(at)
            record = record_at(file, at) if file is not None and size > 0 else None
            if record is not None and record.topic == queue.topic:
                return int(due_ms) - record.store_timestamp
    return None
