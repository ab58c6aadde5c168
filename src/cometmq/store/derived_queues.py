"""Builds the consume queues (except batch queues) from the log: recovers them at start, extends and truncates them.

A message from a sender (a put) brings its queue entries along; for records received as bytes they are computed here. A
start works as follows:

1. Determine `dispatched`, the physical offset before which queue entries count as stored: from our own checkpoint
   file, or after a clean stop the end of the newest message in any queue (as RocketMQ 5.x), if later. Without a usable
   one, after an unclean stop, it is the start of the newest log file whose first record is not later than RocketMQ's
   checkpoint allows (CommitLog.recoverAbnormally), else the log's start.
2. Load the queues; after an unclean stop, drop the entries of records after `dispatched`.
3. Feed the log from `dispatched` on; if queue files are missing or do not fit the log, rebuild all from its start.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from weakref import WeakSet

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.queue_entry import QUEUE_OFFSET_MAX, QueueEntry
from cometmq.codec.record import Record, decode_record
from cometmq.kernel import show_columns, show_entries, show_records
from cometmq.model.names import LMQ_PREFIX
from cometmq.model.text import plural, printable
from cometmq.store.batch import Batch, RawRecords
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.derived import Derived, FeedPut, Step
from cometmq.store.disk import Disk
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.extended_trimming import ExtendedTrimming
from cometmq.store.log_end import start_before
from cometmq.store.put_aside import put_away
from cometmq.store.queue_files import ClearedQueue, remove_tree
from cometmq.store.queue_loading import LoadedQueue, QueueLoader
from cometmq.store.queue_sync import QueueSync
from cometmq.store.queue_trimming import QUEUES_PER_STEP, QueueTrimming, end_before
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import UNUSUAL, is_directory_name, places_of

logger = logging.getLogger(__name__)

OnArrival = Callable[[ConsumeQueue, list[int]], None]

TAIL_SIZE_MAX = 4096  # A tail of one page is written out; see consume_queues.
# Tails of records received as bytes grow larger, because a write costs the same for four pages as for one.
_TAIL_SIZE_MAX_OF_RAW = 16 << 10
_TAIL_SIZE_MAX_AT_START = 64 << 10
_HIDDEN_AT_ONCE = 2048  # Queues; about 3 ms of the loop.
_UNQUEUED_MAX = 1000  # Topics without a queue that are counted by name.


def _wrong_size(size: int) -> str:
    return (
        "is a directory"
        if size < 0
        else f"has {size} bytes, which is not the size of a queue file"
    )


def _rest() -> None:
    """Do nothing; a step that lets the loop run."""


def _raise(error: OSError) -> None:
    raise error


class DerivedQueues(Derived):
    """The consume queues, except batch queues, as a structure derived from the log.

    Attributes:
        on_arrival: If set, called with (queue, tags codes of its new messages) for each watched queue that has some.
        on_error: Called with the OSError if the disk failed or was full when feeding wrote entries to files; they are kept.
    """

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        *,
        log: CommitLog,
        queues: ConsumeQueues,
        extended: ExtendedQueues,
        checkpoints: CheckpointFiles,
        read_only: bool,
    ) -> None:
        self.on_arrival: OnArrival | None = None
        self.on_error: Callable[[OSError], None] = _raise
        self._disk = disk
        self._log = log
        self._queues = queues
        self._checkpoints = checkpoints
        self._read_only = read_only
        self._trimming = QueueTrimming(disk, queues)
        self._unit_trimming = ExtendedTrimming(disk, extended, queues)
        self._levels_ms = settings.delay_levels_ms
        self._tail_size_max = _TAIL_SIZE_MAX_AT_START
        self._fed_to = 0  # Records before it have their queue entries.
        self._begun: WeakSet[ConsumeQueue] = WeakSet()  # Queues with at least one known entry.
        # Queues with the offset from which their files still hold hidden entries.
        self._hidden: list[tuple[ConsumeQueue, int]] = []
        # The end of the queue at the time, the unconfirmed offset of a record, and its entry.
        self._doubted: dict[ConsumeQueue, tuple[int, int, QueueEntry]] = {}
        self._unqueued: Counter[str] = Counter()  # Records of topics that cannot have a queue.

    # --- feeding

    def feed(self, batch: Batch) -> None:
        """Append the queue entries of a batch, unless they are there already, and notify the watchers of their queues."""
        if batch.raw is None:
            self._feed_put(batch)
            return
        watched: dict[ConsumeQueue, list[int]] = {}
        self._feed_raw(batch.raw, watched)
        self._fed_to = batch.end_offset
        if watched:
            self._tell(watched)

    @property
    def feed_put(self) -> FeedPut:
        """Function that appends the queue entries of a batch of new messages and notifies their queues' watchers."""
        return self._feed_put

    def _feed_put(self, batch: Batch) -> None:
        watched: dict[ConsumeQueue, list[int]] = {}
        full: list[ConsumeQueue] = []
        queues = self._queues
        self._fed_to, _, _, _, arrivals, _, columns = batch
        if columns is not None:
            show_columns(columns, queues.dirty, TAIL_SIZE_MAX, full, watched)
            queues.entries += columns.count
        else:
            show_entries(arrivals, queues.dirty, TAIL_SIZE_MAX, full, watched)
            queues.entries += len(arrivals)
        if full:
            self._write_full(full)
        if watched:
            self._tell(watched)

    def _tell(self, watched: dict[ConsumeQueue, list[int]]) -> None:
        if self.on_arrival is not None:
            for queue, tags_codes in watched.items():
                self.on_arrival(queue, tags_codes)

    def _write_full(self, full: list[ConsumeQueue]) -> None:
        try:
            self._queues.write_tails(full)
        except OSError as error:
            self.on_error(error)

    def _feed_raw(self, raw: RawRecords, watched: dict[ConsumeQueue, list[int]]) -> None:
        """Append the queue entries of records received as bytes, without those before the end of what was already fed."""
        queues, content = self._queues, raw.content
        position = raw.place_of(self._fed_to)
        while position < len(content):
            full: list[ConsumeQueue] = []
            position, count = show_records(
                content, position, raw.start, UNUSUAL, queues.table.queues_of, ConsumeQueue,
                queues.dirty, self._tail_size_max, full, watched,
            )  # fmt: skip
            queues.entries += count
            if full and not self._read_only:
                self._write_full(full)
            if position < len(content):
                record = decode_record(content, position)
                self._feed_one(record, watched)
                position += record.store_size

    def _feed_one(self, record: Record, watched: dict[ConsumeQueue, list[int]]) -> None:
        """Append the valid queue entries of a record that `show_records` does not handle, such as a delayed one."""
        topic = record.topic
        if not is_directory_name(topic) and (
            topic in self._unqueued or len(self._unqueued) < _UNQUEUED_MAX
        ):
            self._unqueued[topic] += 1
        places = places_of(record, self._levels_ms)
        for number, (topic, queue_id, offset, code) in enumerate(places):
            if queue_id < 0 or not 0 <= offset < QUEUE_OFFSET_MAX:
                # Logged for the first queue only, since a sender can name very many others.
                if not number:
                    logger.warning(
                        "The record at %d has the wrong offset %d of queue %d of topic %.300s and is skipped",
                        record.physical_offset, offset, queue_id, printable(topic),
                    )  # fmt: skip
                continue
            queue = self._queue_of(topic, queue_id)
            if queue is None:
                continue
            before = queue.max_offset
            if number and offset < before and not topic.startswith(LMQ_PREFIX):
                # Any message can name a topic, so it must not truncate that topic's queue.
                continue
            entry = QueueEntry(record.physical_offset, record.store_size, code)
            if queue not in self._begun and not before:
                self._begun.add(queue)
                queue.begin_at(offset)
                self._append(queue, entry)
            elif offset == before:
                self._append(queue, entry)
            else:
                self._go_on_elsewhere(queue, offset, entry)
            self._queues.entries += queue.max_offset - before
            self._appended(queue, code, watched)

    def _queue_of(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue to append a record's entry to, creating it if it does not exist; None for a batch queue.

        A record with a single message gets no entry in a batch queue; it stays in the log.
        """
        table = self._queues.table
        queue = table.find(topic, queue_id)
        if queue is None:
            return table.open_for_append(topic, queue_id)
        return None if queue.is_batch else queue

    def _append(self, queue: ConsumeQueue, entry: QueueEntry) -> None:
        if not queue.tail:
            self._queues.dirty[queue] = None
        queue.append(*entry)

    def _appended(
        self, queue: ConsumeQueue, code: int, watched: dict[ConsumeQueue, list[int]]
    ) -> None:
        if queue.watched:
            watched.setdefault(queue, []).append(code)
        if len(queue.tail) >= self._tail_size_max and not self._read_only:
            self._write_full([queue])

    def _go_on_elsewhere(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> None:
        """Handle a record whose queue offset, which the CRC of its body does not cover, is not its queue's next one.

        A step ahead leaves a gap (`ConsumeQueues.align`); an offset of 0 counts as that of a topic created again. Any
        other step back waits for the queue's next record that is out of order. If the queue has grown meanwhile, the
        waiting record is dropped. If that next record has the following offset, the step back counts; if it leaves a
        gap of one, the waiting record fills that; else it is dropped.
        """
        end, place, doubted = self._doubted.pop(queue, (-1, -1, entry))
        # Unless the queue went on normally since then.
        is_next = end == queue.max_offset
        if is_next and offset == end + 1:
            self._append(queue, doubted)
        elif is_next and offset == place + 1:
            if self._queues.align(queue, place, doubted):
                self._append(queue, doubted)
        elif 0 < offset < queue.max_offset:
            logger.warning("%s: a record has the wrong queue offset %d", queue, offset)
            self._doubted[queue] = queue.max_offset, offset, entry
            return
        if self._queues.align(queue, offset, entry):
            self._append(queue, entry)

    # --- a start

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Load queues (not batch queues) from files, and return the physical offset from which the log must be fed.

        Moves each non-empty file of a wrong size away. Then, or if entries are missing or point beyond the log, deletes
        all queues, to be rebuilt from the log's start; else, after an unclean stop, removes entries it cannot trust.
        If the log has no files, deletes these queues and returns None. A read-only store's files do not change.

        Raises:
            StoreDamaged: All non-empty queue files, more than one, have the same size, but not that of the setting.
            OSError: The disk failed.
        """
        if not self._log.chain.files:
            self._forget_queues()
            if self._checkpoints.progress is None and not self._read_only:
                # Offsets that are committed from now on belong to no log (store.opening).
                self._checkpoints.write(self._checkpoints.times, NOTHING_DONE)
            return None
        self._fed_to = self._load(is_clean=is_clean, log_start=log_start)
        self._queues.entries = sum(queue.max_offset for queue in self._queues)
        return self._fed_to

    def _load(self, *, is_clean: bool, log_start: int) -> int:
        log_end = self._log.chain.end
        wanted = None if is_clean else self._dispatched_before_stop()
        loader = QueueLoader(self._disk, self._queues)
        loaded = loader.load(log_start=log_start, dispatched=wanted)
        for path, size in () if self._read_only else loader.wrong.items():
            kept = put_away(self._disk, self._checkpoints.root, path)
            logger.warning("%s %s; it was moved to %s", path, _wrong_size(size), kept)
        dispatched = wanted
        progress = self._checkpoints.progress
        if dispatched is None:
            dispatched = max((entry.physical_end for entry in loaded), default=log_start)
            if progress is not None and progress.dispatched <= log_end:
                # Else the newest messages of a deleted topic would reappear. A Java broker may have cut the unflushed part.
                dispatched = max(dispatched, min(progress.dispatched, progress.flushed))
        entries = sum(entry.stored_end for entry in loaded)
        is_short = progress is not None and entries < progress.entries
        if progress is not None and wanted == progress.dispatched:
            # Fewer entries than the checkpoint counted: the bisection met a damaged entry.
            is_short |= sum(entry.queue.max_offset for entry in loaded) < progress.entries
        if dispatched > log_end or is_short or any(entry.has_gap for entry in loaded):
            logger.warning(
                "Queue files are missing or extend beyond the log; all are rebuilt from physical offset %d",
                log_start,
            )
            self._forget_queues()
            return log_start
        if not is_clean and not self._read_only:
            self._drop_untrusted(loaded, dispatched)
        self._begun = WeakSet(entry.queue for entry in loaded if entry.stored_end)
        return max(dispatched, log_start)

    def _drop_untrusted(self, loaded: list[LoadedQueue], dispatched: int) -> None:
        """Write a checkpoint of the loaded entries, then remove all entries after them from the queue files."""
        entries = sum(entry.queue.max_offset for entry in loaded)
        known = self._checkpoints.progress or NOTHING_DONE
        flushed = max(dispatched, known.flushed)
        progress = known._replace(dispatched=dispatched, flushed=flushed, entries=entries)
        self._checkpoints.write(self._checkpoints.times, progress)
        files = self._queues.files
        for entry in loaded:
            files.clear_from(entry.queue, entry.queue.max_offset)
            # A killed process may have created them without syncing their names.
            self._is_fresh(entry.queue)
        files.fresh_directories.add(files.directory)

    def _dispatched_before_stop(self) -> int:
        """Return the physical offset before which queue entries count as being on the device after an unclean stop."""
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None:
            known = min(progress.dispatched, progress.flushed)
            if chain.start <= known <= chain.end:
                return known
        return start_before(chain, self._checkpoints.times.recovery_timestamp(with_index=False))

    def _forget_queues(self) -> None:
        """Forget all queues but batch queues; unless read-only, reset the checkpoint (not its index time), delete the files."""
        root = self._queues.files.directory
        topics = self._disk.list_names(root)
        if not self._read_only and (topics or self._checkpoints.progress is not None):
            # First, so that a stop in between does not make the remaining files look complete.
            times = Checkpoint(index_timestamp=self._checkpoints.times.index_timestamp)
            self._checkpoints.write(times, NOTHING_DONE)
            for queue in list(self._queues):
                self._queues.files.forget(queue)
            for topic in topics:
                for name in self._disk.list_names(f"{root}/{topic}"):
                    remove_tree(self._disk, f"{root}/{topic}/{name}")
        self._queues.clear()

    # --- truncation

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Drop the entries of records from an offset on, in memory only, between yielded steps (see `store.derived`)."""
        self._tail_size_max = _TAIL_SIZE_MAX_OF_RAW
        if offset >= self._fed_to:
            return
        ends: list[tuple[ConsumeQueue, int]] = []
        yield partial(self._find_ends, offset, ends)
        self._fed_to = offset
        self._doubted.clear()
        for at in range(0, len(ends), _HIDDEN_AT_ONCE):
            for queue, end in ends[at : at + _HIDDEN_AT_ONCE]:
                if end < queue.tail_start:
                    self._hidden.append((queue, end))
                self._queues.cut(queue, end)
                if not queue.max_offset:
                    self._begun.discard(queue)
            yield _rest

    def _find_ends(self, offset: int, ends: list[tuple[ConsumeQueue, int]]) -> None:
        """Append to `ends` each queue with entries of records from an offset on, with the queue offset of the first."""
        for queue in self._queues:
            end = end_before(self._queues.files, queue, offset)
            if end < queue.max_offset:
                ends.append((queue, end))

    def truncate(self, offset: int) -> Iterator[Step]:
        """Yield steps that remove from the queue files the entries that `hide_from` has dropped in memory."""
        files = self._queues.files
        hidden, self._hidden = self._hidden, []
        for at in range(0, len(hidden), QUEUES_PER_STEP):
            part = hidden[at : at + QUEUES_PER_STEP]
            files.forget(*(queue for queue, _ in part))
            cleared: list[ClearedQueue] = []
            yield partial(self._clear, part, cleared)
            for (queue, _), rest in zip(part, cleared, strict=True):
                files.cleared(rest)
                self._is_fresh(queue)
        assert self._fed_to <= offset

    def _clear(
        self, hidden: Sequence[tuple[ConsumeQueue, int]], cleared: list[ClearedQueue]
    ) -> None:
        for queue, end in hidden:
            cleared.append(self._queues.files.clear_end(queue, end))

    def _is_fresh(self, queue: ConsumeQueue) -> None:
        """Note that names in a queue's directory may have changed, so that the next checkpoint syncs them."""
        files = self._queues.files
        directory = files.queue_directory(queue.topic, queue.queue_id)
        files.fresh_directories.update((directory, directory.rpartition("/")[0]))

    # --- following the log's start, and to the device

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Raise the queues' min offsets, and delete files of entries or extended units that only serve earlier records.

        Each queue's newest files stay. The work is in yielded steps and between them (see `cometmq.store.derived`).
        """
        yield from self._trimming.delete_before(offset)
        yield from self._unit_trimming.delete_before(offset)

    def files_before(self, offset: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete; may block and raise OSError."""
        return self._trimming.files_before(offset) + self._unit_trimming.files_before(offset)

    def sync(self) -> QueueSync:
        """Return a job that syncs the queue files written to, and the names changed, since the last call."""
        files = self._queues.files
        unsynced, files.unsynced = files.unsynced, set()
        directories, files.fresh_directories = files.fresh_directories, set()
        return QueueSync(self._disk, self._checkpoints.root, unsynced, directories)

    def say_unqueued(self) -> None:
        """Log the topics, 1000 at most, whose fed records are in no queue because their names cannot be directories."""
        for topic, count in self._unqueued.items():
            logger.error(
                "In the log but in no queue: %d %s of topic %.300s. A topic of this name cannot have a "
                "directory; delete the topic", count, plural(count, "record"), printable(topic),
            )  # fmt: skip
