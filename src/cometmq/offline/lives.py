"""Distinguishes the messages of a topic from those of a deleted topic of the same name.

Deleting a topic removes its queue files, not its records: these stay in the log until their log file is deleted. A
topic that is created again under the same name begins with new, empty queues, so the log may hold two records with the
same topic, queue and queue offset. The time from the creation of a queue to its deletion is a life of the queue, and
each life begins at queue offset 0. Only the records of a life that has not ended are messages; others are dead.

Two sources show which records are dead. `KnownQueues` is usually derived from the queue files. If these are
missing, damaged or not dispatched yet, `living_runs` finds the lives in the log: a record with queue offset 0 that
follows others of its queue usually begins a new life, as in a broker that rebuilds its queues. A record that goes back
to any other offset is damage: then two records of one life claim one place.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby

from cometmq.codec.queue_entry import BLANK_SIZE, GAP_CODE, QUEUE_ENTRY
from cometmq.codec.record import Record
from cometmq.model.errors import StoreDamaged
from cometmq.offline.found import FoundStore
from cometmq.offline.known_queues import FirstEntry, KnownQueues, QueueId
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.log_end import record_at
from cometmq.store.queue_files import QueueFiles
from cometmq.store.queue_loading import LoadedQueue, QueueLoader
from cometmq.store.queue_table import QueueTable
from cometmq.store.stored_record import places_of

# Searched for the first one that stands for a message; those before it are of lost ones.
_ENTRIES_READ = 3200


def queue_loader(store: FoundStore) -> tuple[QueueLoader, QueueFiles]:
    """Return a loader of a store's queues, which changes no files, and the files that it reads."""
    root = f"{store.root}/consumequeue"
    files = QueueFiles(store.disk, root, store.settings.queue_entries_per_file)
    queues = ConsumeQueues(QueueTable(), files, read_only=True)
    return QueueLoader(store.disk, queues), files


def loaded_queues(store: FoundStore) -> tuple[list[LoadedQueue], QueueFiles]:
    """Load a store's queues without changing their files; return the queues, and the `QueueFiles` that reads them.

    Raises:
        StoreDamaged: A queue file has a wrong size.
        OSError: The disk failed.
    """
    loader, files = queue_loader(store)
    loaded = loader.load(log_start=store.log.chain.start, dispatched=None)
    loader.check_sizes()
    return loaded, files


def first_entry(store: FoundStore, loaded: LoadedQueue, files: QueueFiles) -> FirstEntry | None:
    """Return a queue's oldest entry that is no blank or gap; None without one, or if its record is not in the log.

    At most 3,200 entries, all of one file, are searched.

    Raises:
        OSError: The disk failed.
    """
    queue = loaded.queue
    count = min(queue.max_offset - queue.min_offset, _ENTRIES_READ)
    try:
        content = files.read(queue, queue.min_offset, count) if count > 0 else b""
    except FileNotFoundError:
        return None
    whole = content[: len(content) // QUEUE_ENTRY.size * QUEUE_ENTRY.size]
    for offset, (place, size, code) in enumerate(
        QUEUE_ENTRY.iter_unpack(whole), queue.min_offset
    ):
        if size != BLANK_SIZE and code != GAP_CODE:
            found = its_record(store, QueueId(queue.topic, queue.queue_id), offset, place)
            return FirstEntry(offset, place) if found is not None else None
    return None


def its_record(store: FoundStore, queue_id: QueueId, offset: int, place: int) -> Record | None:
    """Return the record at physical offset `place` if it is the queue's message at `offset`, otherwise None.

    Raises:
        OSError: The disk failed.
    """
    file = store.log.chain.find(place)
    record = record_at(file, place) if file is not None else None
    if record is None:
        return None
    places = places_of(record, store.settings.delay_levels_ms)
    return record if any((*queue_id, offset) == found[:3] for found in places) else None


def known_queues(store: FoundStore) -> KnownQueues | None:
    """Return the queues that a store's queue files show; None if they are seen to be damaged or incomplete.

    Raises:
        OSError: The disk failed.
    """
    try:
        return queues_of(store, *loaded_queues(store))
    except StoreDamaged:
        return None


def queues_of(
    store: FoundStore, loaded: Iterable[LoadedQueue], files: QueueFiles
) -> KnownQueues | None:
    """Return the queues that loaded files show; None if these seem incomplete, or a first entry has no record.

    CometMQ's checkpoint counts the entries that must exist. Without it, as after a Java broker, a queue without files
    may be missing or deleted, so it counts as unknown. Raises OSError if the disk fails.
    """
    loaded, progress = list(loaded), store.checkpoints.progress
    if any(each.has_gap for each in loaded):
        return None
    dispatched = 0
    if progress is not None and progress.log_ms == store.checkpoints.times.log_timestamp:
        if sum(each.stored_end for each in loaded) < progress.entries:
            return None
        dispatched = min(progress.dispatched, progress.flushed)
    firsts = {}
    for each in loaded:
        queue = each.queue
        if queue.min_offset < queue.max_offset:
            first = first_entry(store, each, files)
            if first is None:
                return None
            firsts[QueueId(queue.topic, queue.queue_id)] = first
    batch_topics = frozenset(store.disk.list_names(f"{store.root}/batchconsumequeue"))
    return KnownQueues(store.log.chain.start, dispatched, firsts, batch_topics)


# --- lives in the log


@dataclass(frozen=True)
class WrittenRun:
    """A description of consecutive entries of a queue.

    Attributes:
        first: Queue offset of the first entry.
        end: Queue offset after the last entry.
        place: Physical offset of the first entry's record.
        size: Size of that record in bytes.
        last_place: Physical offset of the last entry's record; -1 if unknown.
        is_named: Whether messages list the queue in INNER_MULTI_DISPATCH, besides their own; False for light queues.
    """

    topic: str
    queue_id: int
    first: int
    end: int
    place: int
    size: int
    last_place: int = -1
    is_named: bool = False

    def to_dict(self) -> dict[str, str | int]:
        """Return the run as a dict for a manifest."""
        return asdict(self)


@dataclass(frozen=True)
class QueueLives:
    """The runs of entries of one queue in log order: `living` ones, and `dead` ones of deleted topics of its name."""

    living: list[WrittenRun]
    dead: list[WrittenRun]


class _Life:
    """Consecutive runs of one queue, in log order, from its creation to its deletion, if it was deleted."""

    def __init__(self) -> None:
        self.runs: list[WrittenRun] = []
        self.clash: tuple[WrittenRun, WrittenRun] | None = None

    @property
    def end(self) -> int:
        return self.runs[-1].end if self.runs else 0


def living_runs(
    runs: Iterable[WrittenRun], known: KnownQueues | None = None
) -> Iterator[QueueLives]:
    """Yield the runs of each queue, separated from runs of deleted topics of the same name.

    Args:
        runs: Runs of entries of the whole log, in any order.
        known: Queues as the queue files show them; None if unknown.

    Raises:
        StoreDamaged: Two records claim one queue offset, and no deletion of their topic between or after them is known.
    """
    queues: list[list[_Life]] = []
    # Physical offset of a record after which the topic was deleted.
    floors: dict[str, int] = {}
    ordered = sorted(runs, key=lambda run: (run.topic, run.queue_id, run.place))
    for (topic, _), of_queue in groupby(ordered, key=lambda run: (run.topic, run.queue_id)):
        lives = _lives(of_queue)
        queues.append(lives)
        if len(lives) > 1:
            floors[topic] = max(floors.get(topic, 0), _last_place(lives[-2].runs[-1]))
    for lives in queues:
        last = lives.pop()
        dead = [run for life in lives for run in life.runs]
        if _is_over(last.runs[-1], floors, known):
            yield QueueLives([], [*dead, *last.runs])
            continue
        if last.clash is not None:
            raise _two_records(*last.clash)
        yield QueueLives(last.runs, dead)


def _lives(runs: Iterable[WrittenRun]) -> list[_Life]:
    lives: list[_Life] = [_Life()]
    for run in runs:
        if run.first < lives[-1].end:
            if run.first or run.is_named:
                lives[-1].clash = lives[-1].clash or (lives[-1].runs[-1], run)
            else:
                lives.append(_Life())
        lives[-1].runs.append(run)
    return lives


def _is_over(last: WrittenRun, floors: Mapping[str, int], known: KnownQueues | None) -> bool:
    place = _last_place(last)
    if known is not None and known.is_dead(last.topic, last.queue_id, last.end - 1, place):
        return True
    return place < floors.get(last.topic, 0)


def _last_place(run: WrittenRun) -> int:
    return max(run.place, run.last_place)


def _two_records(before: WrittenRun, after: WrittenRun) -> StoreDamaged:
    return StoreDamaged(
        f"two records of the log have the queue offset {after.first} of {after.topic}/{after.queue_id}: one at "
        f"physical offset {after.place}, another between {before.place} and {_last_place(before)}; `cometmq store "
        "repair` keeps the later one, as a broker does"
    )
