"""After a stop, clean or not: where the log ends, and what the queues still lack.

1. `dispatched`, the offset before which every record is in its queue for certain: what our own
   checkpoint file says; after a clean stop the end of the newest message that any queue knows (as
   RocketMQ 5.x), where that is later; without our file the start of the newest log file that
   begins before RocketMQ's checkpoint (CommitLog.recoverAbnormally); else the oldest record.
2. The queues are loaded, and entries of records behind `dispatched` are dropped.
3. The log is walked from there, every record checked, its entry made again.
4. Where no valid record follows the log ends (cometmq.store.log_end).

The index is a `Follower`: where it lacks records from an earlier offset on, the walk begins there.

Next: cometmq.store.log_end
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.queue_entry import QueueEntry
from cometmq.codec.record import Record
from cometmq.kernel import WalkEnd
from cometmq.model.errors import StoreDamaged
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk
from cometmq.store.log_end import PLAIN_ENDS, LogEnd, start_before
from cometmq.store.log_file import LogFile
from cometmq.store.put_aside import put_away
from cometmq.store.queue_files import remove_tree
from cometmq.store.queue_loading import LoadedQueue, QueueLoader
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import is_directory_name, is_plain, places_of, tag_hash
from cometmq.store.whole_records import walk_of

logger = logging.getLogger(__name__)

_CHUNK_SIZE = 1 << 20
_TAIL_SIZE_MAX = 64 << 10  # A queue's entries are written in pieces of this size meanwhile.


def _wrong_size(size: int) -> str:
    """What is wrong with a file of a wrong size, for people."""
    return "is a directory" if size < 0 else f"has {size} bytes, which is no queue file"


class Follower(Protocol):
    """What is built from the log beside the queues, and is given what it lacks: the index."""

    def begin(self, *, is_clean: bool, log_start: int) -> int | None:
        """Read what is there and drop what cannot be trusted.

        Args:
            is_clean: the last stop was clean.
            log_start: physical offset of the oldest log file.

        Returns:
            Physical offset of a record from which on it lacks some; None: the records that the
            queues lack are enough. One that it has already may be given again.
        """
        ...

    def take(self, records: Sequence[Record]) -> None:
        """Records of the log, in their order."""
        ...

    def end(self, offset: int) -> None:
        """The log ends at this physical offset; what lies behind goes."""
        ...


class Recovered(NamedTuple):
    """What recovery found.

    Attributes:
        end: physical offset behind the last record.
        store_ms: store time of the last record walked over; 0 if none was.
        damage: what is wrong, for people; None when the store may be written.
    """

    end: int
    store_ms: int
    damage: str | None


class Recovery:
    """One recovery of a directory that is locked, or opened for reading only."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        *,
        log: CommitLog,
        queues: ConsumeQueues,
        checkpoints: CheckpointFiles,
        followers: Sequence[Follower] = (),
        read_only: bool,
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._checkpoints = checkpoints
        self._followers = followers
        self._read_only = read_only
        self._levels_ms = settings.delay_levels_ms
        self._is_whole_checked = settings.verify_property_crc
        self._valid_records = walk_of(settings)
        self._store_ms = 0
        self._doubted: dict[ConsumeQueue, tuple[int, QueueEntry]] = {}
        self._dispatched = 0  # Records before it have their queue entries.
        self._begun: set[ConsumeQueue] = set()  # Queues of which an entry is known.
        self._walked: dict[tuple[str, int], ConsumeQueue] = {}  # Queues met on the walk.
        self._unqueued: Counter[str] = Counter()  # Records of topics that can have no queue.

    def run(self, *, is_clean: bool) -> Recovered:
        """Bring log and queues into step.

        Args:
            is_clean: the last stop was clean.

        Raises:
            StoreDamaged: files of a wrong size, or missing at the log's end.
            OSError: the disk failed.
        """
        chain = self._log.chain
        if not chain.files:
            self._follow(is_clean=is_clean)
            self._forget_queues()
            if self._checkpoints.progress is None and not self._read_only:
                # From now on offsets that are committed here speak of no log (store.opening).
                self._checkpoints.write(self._checkpoints.times, NOTHING_DONE)
            self._end_followers(0)
            return Recovered(0, 0, None)
        self._check_end()
        # The followers first: forgetting the queues takes back what the checkpoint says.
        lacked = self._follow(is_clean=is_clean)
        self._dispatched = self._load_queues(is_clean=is_clean)
        end, why = self._walk(min([self._dispatched, *lacked]))
        log_end = LogEnd(
            self._disk, self._log, self._checkpoints, is_whole_checked=self._is_whole_checked
        )
        damage = log_end.damage_behind(end, why, is_clean=is_clean)
        if damage is None and not self._read_only:
            is_torn = not is_clean or why not in PLAIN_ENDS
            damage = log_end.cut(end, walked_from=self._dispatched, is_torn=is_torn)
            self._end_followers(end)
        self._queues.entries = sum(queue.max_offset for queue in self._queues)
        for topic, count in self._unqueued.items():
            logger.error(
                "%d records of the topic %.300r are in the log and in no queue: a topic of this name "
                "can have no directory; delete it", count, topic,
            )  # fmt: skip
        return Recovered(end, self._store_ms, damage)

    def _check_end(self) -> None:
        """Refuse a log whose newest files are missing.

        Raises:
            StoreDamaged: it was on the device beyond the end of the newest file.
        """
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None and progress.flushed > chain.end:
            raise StoreDamaged(
                f"{chain.directories[0]}: log files are missing at the end: the newest ends at "
                f"{chain.end}, and the log was on the device up to {progress.flushed}; put them "
                "back, or let `cometmq store repair` build queues and index from what is left"
            )

    def _follow(self, *, is_clean: bool) -> list[int]:
        """Begin the followers; gives from where on they lack records."""
        log_start = self._log.chain.start
        begun = [
            follower.begin(is_clean=is_clean, log_start=log_start)
            for follower in self._followers
        ]
        return [max(offset, log_start) for offset in begun if offset is not None]

    def _end_followers(self, end: int) -> None:
        for follower in self._followers:
            follower.end(end)

    def _load_queues(self, *, is_clean: bool) -> int:
        """Fill the table of queues; gives `dispatched`."""
        log_start, log_end = self._log.chain.start, self._log.chain.end
        wanted = None if is_clean else self._dispatched_before_stop()
        loader = QueueLoader(self._disk, self._queues)
        loaded = loader.load(log_start=log_start, dispatched=wanted)
        for path, size in () if self._read_only else loader.wrong.items():
            kept = put_away(self._disk, self._checkpoints.root, path)
            logger.warning("%s %s; it is kept as %s", path, _wrong_size(size), kept)
        dispatched = wanted
        progress = self._checkpoints.progress
        if dispatched is None:
            dispatched = max((entry.physical_end for entry in loaded), default=log_start)
            if progress is not None and progress.dispatched <= log_end:
                # Else the newest messages of a topic that was deleted would come back. A Java
                # broker in between may have cut what was not flushed.
                dispatched = max(dispatched, min(progress.dispatched, progress.flushed))
        entries = sum(entry.stored_end for entry in loaded)
        is_short = progress is not None and entries < progress.entries
        if progress is not None and wanted == progress.dispatched:
            # Fewer than the checkpoint counted: bisection met an entry that is damaged.
            is_short |= sum(entry.queue.max_offset for entry in loaded) < progress.entries
        if dispatched > log_end or is_short or any(entry.has_gap for entry in loaded):
            logger.warning(
                "Queue files are missing or run ahead of the log; all are built again from %d",
                log_start,
            )
            self._forget_queues()
            return log_start
        if not is_clean and not self._read_only:
            self._drop_untrusted(loaded, dispatched)
        self._begun = {entry.queue for entry in loaded if entry.stored_end}
        return max(dispatched, log_start)

    def _drop_untrusted(self, loaded: list[LoadedQueue], dispatched: int) -> None:
        """Remove what stands behind the entries taken, in files; first say that it is gone."""
        entries = sum(entry.queue.max_offset for entry in loaded)
        known = self._checkpoints.progress or NOTHING_DONE
        flushed = max(dispatched, known.flushed)
        progress = known._replace(dispatched=dispatched, flushed=flushed, entries=entries)
        self._checkpoints.write(self._checkpoints.times, progress)
        files = self._queues.files
        for entry in loaded:
            files.clear_from(entry.queue, entry.queue.max_offset)
            # Who was killed may have made them, and not brought their names to the device.
            directory = files.queue_directory(entry.queue.topic, entry.queue.queue_id)
            files.fresh_directories.update((directory, directory.rpartition("/")[0]))
        files.fresh_directories.add(files.directory)

    def _dispatched_before_stop(self) -> int:
        """Before which offset every entry is on the device, after an unclean stop."""
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None:
            known = min(progress.dispatched, progress.flushed)
            if chain.start <= known <= chain.end:
                return known
        return start_before(chain, self._checkpoints.times.recovery_timestamp(with_index=False))

    def _forget_queues(self) -> None:
        """Begin with no queue at all; on disk too, unless that must not be touched.

        The checkpoint goes first: a stop in between must not make the rest look whole.
        """
        root = self._queues.files.directory
        topics = self._disk.list_names(root)
        if not self._read_only and (topics or self._checkpoints.progress is not None):
            times = Checkpoint(index_timestamp=self._checkpoints.times.index_timestamp)
            self._checkpoints.write(times, NOTHING_DONE)
            for queue in list(self._queues):
                self._queues.files.forget(queue)
            for topic in topics:
                for name in self._disk.list_names(f"{root}/{topic}"):
                    remove_tree(self._disk, f"{root}/{topic}/{name}")
        self._queues.clear()

    def _walk(self, start: int) -> tuple[int, WalkEnd]:
        """Check every record from an offset on; gives where the log ends, and how."""
        chain, position = self._log.chain, start
        why = WalkEnd.EMPTY
        while (file := chain.find(position)) is not None:
            position, why = self._walk_file(file, position)
            if why is not WalkEnd.BLANK or chain.find(file.end) is None:
                break
            position = file.end
        return position, why

    def _walk_file(self, file: LogFile, position: int) -> tuple[int, WalkEnd]:
        """The same for the rest of one file."""
        size = _CHUNK_SIZE
        while True:
            chunk = file.read(position, min(size, file.end - position))
            walked, why = self._take_chunk(chunk, position)
            position += walked
            if why not in (WalkEnd.WHOLE, WalkEnd.SHORT):
                return position, why
            # The chunk's end cut a record: read on from its start, at least all of it.
            left = chunk[walked : walked + 4]
            size = max(_CHUNK_SIZE, int.from_bytes(left) if len(left) == 4 else 0)
            if size > file.end - position and len(chunk) - walked == file.end - position:
                return position, WalkEnd.SHORT

    def _take_chunk(self, chunk: bytes, offset: int) -> tuple[int, WalkEnd]:
        """Dispatch the records of a piece; gives the bytes walked over, and why not further."""
        records, walked, why = self._valid_records(chunk, offset)
        if records:
            self._store_ms = records[-1].store_timestamp
            self._dispatch(records)
            for follower in self._followers:
                follower.take(records)
        return walked, why

    def _dispatch(self, records: Sequence[Record]) -> None:
        """Make the queue entries of records again."""
        first, walked = self._dispatched, self._walked
        for record in records:
            if record[6] < first:
                continue
            queue = walked.get((record[15], record[3]))
            if queue is not None and queue.max_offset == record[5] and is_plain(record):
                if not queue.tail:
                    self._queues.dirty[queue] = None
                queue.append(record[6], record[0], tag_hash(record[16]))
            else:
                self._dispatch_one(record)
                continue
            if len(queue.tail) >= _TAIL_SIZE_MAX and not self._read_only:
                self._queues.write_tails((queue,))

    def _dispatch_one(self, record: Record) -> None:
        """The same for a record that is not plain, or not the next of its queue."""
        if not is_directory_name(record.topic):
            self._unqueued[record.topic] += 1
        for topic, queue_id, offset, code in places_of(record, self._levels_ms):
            queue = self._queues.find_or_make(topic, queue_id)
            self._walked[topic, queue_id] = queue
            entry = QueueEntry(record.physical_offset, record.store_size, code)
            if queue not in self._begun:
                self._begun.add(queue)
                queue.begin_at(offset)
                self._append(queue, entry)
            elif offset == queue.max_offset:
                self._append(queue, entry)
            else:
                self._go_on_elsewhere(queue, offset, entry)

    def _go_on_elsewhere(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> None:
        """A record whose queue offset is not the next one.

        No CRC covers it. That a queue begins again at 0 is what a deleted topic leaves, but that it
        goes back to somewhere else needs a second record that says so: one alone was damaged, and
        has the place that is empty when the queue goes on as before.
        """
        doubted = self._doubted.pop(queue, None)
        if doubted is not None and offset == queue.max_offset + 1:
            self._append(queue, doubted[1])
        elif doubted is not None and offset == doubted[0] + 1:
            if self._queues.align(queue, *doubted):
                self._append(queue, doubted[1])
        elif 0 < offset < queue.max_offset:
            logger.warning("%r: a record says it has queue offset %d", queue, offset)
            self._doubted[queue] = offset, entry
            return
        if self._queues.align(queue, offset, entry):
            self._append(queue, entry)

    def _append(self, queue: ConsumeQueue, entry: QueueEntry) -> None:
        if not queue.tail:
            self._queues.dirty[queue] = None
        queue.append(*entry)
