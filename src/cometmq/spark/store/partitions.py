"""Tasks of a read of a store, as picklable objects.

Modules for views other than messages are imported on use: Spark starts several new processes per query, in
sequence, and most queries read messages.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from cometmq.offline.folder import INDEX_NAME_DIGITS, StoreFolder
from cometmq.offline.plan import Task, plan_tasks
from cometmq.offline.pruning import narrowed
from cometmq.spark.store.schema import MESSAGES
from cometmq.spark.store.settings import StoreReadSettings

if TYPE_CHECKING:
    from cometmq.offline.known_queues import KnownQueues
    from cometmq.offline.queue_reader import QueueFile

# Queue files per task: they are small, and a store may have very many.
_QUEUE_FILES_A_TASK = 16


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """Input of one task of a read of a store.

    Attributes:
        log: Splits of the log, for the views (option `view`) messages and packed-cq.
        queues: Queue files, for the view consumequeue.
        path: Path of an index file, for the view index.
        delay_levels_ms: Delay of each level in ms, for packed-cq, which computes the delay topic's queue entries.
        known: Queues of the store, to leave out records of deleted topics; None to read all records.
    """

    log: Task = ()
    queues: "tuple[QueueFile, ...]" = ()
    path: str = ""
    delay_levels_ms: tuple[int, ...] = ()
    known: "KnownQueues | None" = None


def plan(settings: StoreReadSettings) -> list[StorePartition]:
    """Return the tasks of a batch read of a view of a store.

    Raises:
        StoreDamaged: The view reads the log (`messages`, `packed-cq`), and the store has, for example, no log file.
        SettingsError: The view reads the log, and the range starts after the last log file in use, or a folder of the
            option `commitLogPath` does not exist.
        OSError: A file or folder cannot be read.
    """
    folder = settings.folder
    if settings.view in (MESSAGES, "packed-cq"):
        levels: tuple[int, ...] = ()
        if settings.view == MESSAGES:
            known = living_queues(settings)
        else:
            levels = _delay_levels_ms(folder)
            known = _known_queues(folder, levels)
        tasks = plan_tasks(folder, settings.range, split_bytes=settings.split_bytes)
        if settings.view == MESSAGES:
            conditions = settings.rules.conditions
            tasks = narrowed(folder, tasks, conditions, split_bytes=settings.split_bytes)
        return [StorePartition(log=task, delay_levels_ms=levels, known=known) for task in tasks]
    if settings.view == "consumequeue":
        from cometmq.offline.queue_reader import queue_files

        wanted = settings.rules.topics
        files = [each for each in queue_files(folder) if not wanted or each.topic in wanted]
        step = _QUEUE_FILES_A_TASK
        return [
            StorePartition(queues=tuple(files[at : at + step]))
            for at in range(0, len(files), step)
        ]
    if settings.view == "index":
        found = folder.numbered(folder.path("index"), INDEX_NAME_DIGITS)
        return [StorePartition(path=each.path) for each in found]
    return [StorePartition()]


def living_queues(settings: StoreReadSettings) -> "KnownQueues | None":
    """Return the queues that exist according to the store's queue files, to leave out records of deleted topics.

    If the read names topics, only their queues are returned. The result is None, so that all records are read, if the
    option `deletedTopics` is true, or if files are seen to be damaged or missing. Raises OSError if a file cannot be
    read.
    """
    if settings.with_deleted:
        return None
    from cometmq.offline.folder_queues import known_queues_in

    known = known_queues_in(settings.folder)
    topics = settings.rules.topics
    return known.of_topics(topics) if known is not None and topics else known


def _known_queues(folder: StoreFolder, levels_ms: tuple[int, ...]) -> "KnownQueues | None":
    """Return the store's queues from their files, or else from the log; None if its records contradict each other."""
    from cometmq.offline.folder_queues import known_queues_in
    from cometmq.offline.rebuild import logged_queues

    return known_queues_in(folder) or logged_queues(folder, levels_ms)


def _delay_levels_ms(folder: StoreFolder) -> tuple[int, ...]:
    """Return the delay of each level in ms: determined from a local store, or else the brokers' default."""
    from cometmq.offline.delay_levels import USUAL_LEVELS_MS
    from cometmq.offline.rebuild import found_settings

    return (
        found_settings(folder.root, log_paths=folder.log_paths).delay_levels_ms
        if folder.is_local
        else USUAL_LEVELS_MS
    )
