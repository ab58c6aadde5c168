"""After a stop, clean or not: where the log ends, and what the queues still lack.

1. `dispatched`, the offset before which every record is in its queue for certain: after a clean
   stop the end of the newest message that any queue knows (as RocketMQ 5.x); else what our own
   checkpoint file says; without one the start of the newest log file that begins before
   RocketMQ's checkpoint (CommitLog.recoverAbnormally); else the oldest record.
2. The queues are loaded, and entries of records behind `dispatched` are dropped.
3. The log is walked from there, every record checked, its entry made again.
4. Where no valid record follows the log ends. Only an invalid tail is cut. Where valid records
   follow that were known to be on the device, nothing is: the store is damaged and opens for
   reading only (differs from RocketMQ, which cuts there in silence).

Next: cometmq.store.message_store
"""

import logging
from typing import NamedTuple
from zlib import crc32

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.properties import find_property
from cometmq.codec.record import BLANK_TAIL_SIZE, Record, decode_record
from cometmq.kernel import MAGIC_V1, MAGIC_V2, WalkEnd, walk_records
from cometmq.model.errors import CodecError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.java_hash import java_hash
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.model.properties import DELAY, TAGS
from cometmq.store.appender import delay_of_level
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles, Progress
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk
from cometmq.store.log_file import LogFile
from cometmq.store.queue_files import remove_tree
from cometmq.store.queue_loading import LoadedQueue, QueueLoader
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

_CHUNK_SIZE = 1 << 20
_TAIL_SIZE_MAX = 64 << 10  # A queue's entries are written in pieces of this size meanwhile.
# How far behind the end valid records are looked for: the largest message and a little more.
_LOOK_BEHIND_SIZE = 5 << 20

_IN_A_QUEUE = (0, TRANSACTION_COMMIT)
_PLAIN_ENDS = (WalkEnd.EMPTY, WalkEnd.BLANK)
_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_TAGS_NAME = TAGS.encode()
_DELAY_NAME = DELAY.encode()


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
        read_only: bool,
    ) -> None:
        self._disk = disk
        self._settings = settings
        self._log = log
        self._queues = queues
        self._checkpoints = checkpoints
        self._read_only = read_only
        self._store_ms = 0
        self._begun: set[ConsumeQueue] = set()  # Queues of which an entry is known.
        self._walked: dict[tuple[str, int], ConsumeQueue] = {}  # Queues met on the walk.

    def run(self, *, is_clean: bool) -> Recovered:
        """Bring log and queues into step.

        Args:
            is_clean: the last stop was clean.

        Raises:
            StoreDamaged: files of a wrong size.
            OSError: the disk failed.
        """
        chain = self._log.chain
        if not chain.files:
            self._forget_queues()
            return Recovered(0, 0, None)
        dispatched = self._load_queues(is_clean=is_clean)
        end, why = self._walk(dispatched)
        damage = self._damage_behind(end, why, is_clean=is_clean)
        if damage is None and not self._read_only:
            is_torn = not is_clean or why not in _PLAIN_ENDS
            self._cut(end, walked_from=dispatched, is_torn=is_torn)
        self._queues.entries = sum(queue.max_offset for queue in self._queues)
        return Recovered(end, self._store_ms, damage)

    def _load_queues(self, *, is_clean: bool) -> int:
        """Fill the table of queues; gives `dispatched`."""
        log_start, log_end = self._log.chain.start, self._log.chain.end
        wanted = None if is_clean else self._dispatched_before_stop()
        loader = QueueLoader(self._disk, self._queues)
        loaded = loader.load(log_start=log_start, dispatched=wanted)
        dispatched = wanted
        if dispatched is None:
            dispatched = max((entry.physical_end for entry in loaded), default=log_start)
        progress = self._checkpoints.progress
        entries = sum(entry.stored_end for entry in loaded)
        if dispatched > log_end or (progress is not None and entries < progress.entries):
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
        known = self._checkpoints.progress
        flushed = max(dispatched, known.flushed) if known is not None else dispatched
        progress = Progress(dispatched, flushed, entries)
        self._checkpoints.write(self._checkpoints.times, progress)
        for entry in loaded:
            self._queues.files.clear_from(entry.queue, entry.queue.max_offset)

    def _dispatched_before_stop(self) -> int:
        """Before which offset every entry is on the device, after an unclean stop."""
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None:
            known = min(progress.dispatched, progress.flushed)
            if chain.start <= known <= chain.end:
                return known
        # messageIndexSafe is off by default, and no index is built yet: its time does not count.
        limit_ms = self._checkpoints.times.recovery_timestamp(with_index=False)
        for file in reversed(chain.files):
            record = self._record_at(file, file.start)
            if record is not None and 0 < record.store_timestamp <= limit_ms:
                return file.start
        return chain.start

    def _record_at(self, file: LogFile, offset: int) -> Record | None:
        """The valid record at an offset, if there is one."""
        head = file.read(offset, BLANK_TAIL_SIZE)
        size = int.from_bytes(head[:4], signed=True)
        if head[4:] not in _MAGICS or not 0 < size <= file.end - offset:
            return None
        return _valid_record(file.read(offset, size), 0, offset)

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
        records, walked, why = walk_records(chunk, 0, len(chunk))
        for position, _, _ in records:
            record = _valid_record(chunk, position, offset + position)
            if record is None:
                return position, WalkEnd.UNKNOWN
            self._dispatch(record)
        return walked, why

    def _dispatch(self, record: Record) -> None:
        """Make a record's queue entry again."""
        self._store_ms = record.store_timestamp
        if record.sys_flag & TRANSACTION_MASK not in _IN_A_QUEUE:
            return
        queue = self._walked.get((record.topic, record.queue_id))
        if queue is None or record.queue_offset != queue.max_offset:
            queue = self._queue_of(record)
            if queue is None:
                return
        if not queue.tail:
            self._queues.dirty[queue] = None
        queue.append(record.physical_offset, record.store_size, self._tags_code(record))
        if len(queue.tail) >= _TAIL_SIZE_MAX and not self._read_only:
            self._queues.write_tails((queue,))

    def _queue_of(self, record: Record) -> ConsumeQueue | None:
        """A record's queue, ready to take it; None for a record that no queue can take."""
        if not is_directory_name(record.topic):
            return None
        queue = self._queues.find_or_make(record.topic, record.queue_id)
        self._walked[record.topic, record.queue_id] = queue
        if queue not in self._begun:
            self._begun.add(queue)
            queue.begin_at(record.queue_offset)
        elif not self._queues.align(queue, record.queue_offset):
            return None
        return queue

    def _tags_code(self, record: Record) -> int:
        """What a queue entry holds for a record (CommitLog.checkMessageAndReturnSize)."""
        try:
            if record.topic == SCHEDULE_TOPIC:
                level = find_property(record.property_block, _DELAY_NAME)
                if level is not None and int(level) > 0:
                    levels = self._settings.delay_levels_ms
                    delay_ms = delay_of_level(levels, min(int(level), len(levels)))
                    return record.store_timestamp + delay_ms
            if _TAGS_NAME not in record.property_block:
                return 0
            tags = find_property(record.property_block, _TAGS_NAME)
        except (CodecError, ValueError):
            return 0
        return java_hash(tags) if tags else 0

    def _damage_behind(self, end: int, why: WalkEnd, *, is_clean: bool) -> str | None:
        """What is wrong where the log seems to end; None for an end, torn or not."""
        if is_clean and why in _PLAIN_ENDS:
            return None
        behind = self._valid_behind(end)
        if behind is None:
            return None
        progress, times = self._checkpoints.progress, self._checkpoints.times
        file = self._log.chain.find(end)
        assert file is not None
        is_known = progress is not None and end < progress.flushed
        # One of the very millisecond may have come after the flush.
        if is_known or behind.store_timestamp < times.log_timestamp:
            return (
                f"{file.path} is damaged at byte {end - file.start} (physical offset {end}): "
                f"no valid record there, but one at {behind.physical_offset}; nothing was cut, "
                "the store takes no message until it is repaired"
            )
        logger.warning(
            "The log is torn at %d (%s); what follows was never known to be on the device "
            "and is cut",
            end,
            file.path,
        )
        return None

    def _valid_behind(self, end: int) -> Record | None:
        """A valid record behind the end: near it, or at the start of the next file."""
        file = self._log.chain.find(end)
        if file is None:
            return None
        piece = file.read(end, min(_LOOK_BEHIND_SIZE, file.end - end))
        for magic in _MAGICS:
            at = piece.find(magic, 8)
            while at >= 0:
                record = _valid_record(piece, at - 4, end + at - 4)
                if record is not None:
                    return record
                at = piece.find(magic, at + 1)
        following = self._log.chain.find(file.end)
        return self._record_at(following, following.start) if following is not None else None

    def _cut(self, end: int, *, walked_from: int, is_torn: bool) -> None:
        """Make nothing stand behind the end, and all before it be on the device.

        What is cut is zeroed and synced before a file goes: at whatever step this stops, nothing
        that was cut is found again (RocketMQ only remembers the end, its issue 10666).
        """
        chain = self._log.chain
        file = chain.find(end)
        if file is not None:
            if is_torn:
                file.clear_from(end)
                for walked in self._log.files_between(walked_from, end + 1):
                    walked.flush()
            chain.drop_after(file.end)


def is_directory_name(topic: str) -> bool:
    """Whether a topic read from a record, which no CRC covers, can be a directory."""
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic


def _valid_record(chunk: bytes, position: int, offset: int) -> Record | None:
    """The record at a position, if it is whole, unchanged and belongs to this offset."""
    try:
        record = decode_record(chunk, position)
    except CodecError:
        return None
    if record.physical_offset != offset or crc32(record.body) & 0x7FFFFFFF != record.body_crc:
        return None
    return record
