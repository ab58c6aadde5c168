"""Reading interface of a store: its queues, its messages and their times.

If a docstring says that a call may block on the device, the call belongs in a reader thread.
"""

from collections.abc import Sequence
from functools import partial

from cometmq.codec.other_queues import is_extended_address
from cometmq.codec.record import PHYSICAL_OFFSET_AT
from cometmq.kernel import RECORD_SIZE_MIN
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.commitlog import AT_ONCE_SIZE_MAX
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer
from cometmq.store.queue_mending import QueueMending
from cometmq.store.reader import GetResult, GetStatus, Match, Reader
from cometmq.store.settings import StoreSettings
from cometmq.store.time_search import TimeOf, TimeSearch, offset_by_time

# Store times in memory, of some 180 bytes each.
KNOWN_TIMES_MAX = 32_768


class ReadSide:
    """Reads the queues of one store, their messages, and the times at which these were stored."""

    def __init__(self, directory: StoreDirectory, settings: StoreSettings) -> None:
        log, queues = directory.log, directory.queues
        self._log = log
        self._table = directory.table
        self._batches = directory.batches
        self._extended = directory.extended
        self._mending = QueueMending(log, queues.files, settings, read_only=directory.read_only)
        self._reader = Reader(log, queues.files, settings, self._mending)
        self.pull, self.change_limits = self._reader.pull, self._reader.change_limits
        self.get_filtered = self._reader.get_filtered
        # For standard queues, both in any thread; they may block.
        self.entries, self.mended_entry = queues.read_entries, self._mending.entry
        self._times = TimeSearch(log, queues.files)
        # Lists of groups and metrics ask again and again for the same: a queue's first message, and the next one of a
        # group that has stopped. Each costs the open, the read and the close of a queue file, and a read of the log.
        self._known_ms: dict[tuple[ConsumeQueue, int], int] = {}

    def queue_to_watch(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue to watch for new messages; if it does not exist, an object that it normally uses once it does."""
        return self._table.find(topic, queue_id) or self._table.awaited(topic, queue_id)

    def queue_counts(self) -> dict[str, int]:
        """Return the number of queues that each topic needs, by topic: its highest queue id plus one."""
        return {
            topic: 1 + max((queue.queue_id for queue in self._table.of_topic(topic)), default=0)
            for topic in self._table.topics()
        }

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int = 32,
        max_bytes: int = 1 << 28,
        match: Match | None = None,
    ) -> GetResult:
        """Read messages of a queue of any kind from an offset on; may be unfinished (see `Reader.get`)."""
        queue = self._table.find(topic, queue_id)
        if isinstance(queue, BatchQueue) and queue.min_offset <= offset < queue.max_offset:
            read = partial(
                self._batches.read,
                queue, offset, max_count=max_count, max_bytes=max_bytes, match=match,
            )  # fmt: skip
            return GetResult(
                GetStatus.NO_MATCHED_MESSAGE,
                offset,
                queue.min_offset,
                queue.max_offset,
                cold=read,
            )
        may_block = None
        if match is not None and self._extended.has(topic):
            match = self._extended.resolving(topic, queue_id, match)
            may_block = is_extended_address
        return self._reader.get(
            queue, offset, max_count=max_count, max_bytes=max_bytes, match=match, may_block=may_block,
        )  # fmt: skip

    def truncated(self, _end: int) -> None:
        """Forget the cached store times, and prevent reads that began before a truncation from repairing files."""
        self._mending.truncated()
        self._known_ms = {}

    def change_read_ahead(self, *, is_wanted: bool) -> None:
        """Set whether the system may read ahead in the log."""
        self._log.chain.change_reading(is_random=not is_wanted)

    def read_record(
        self, physical_offset: int, size: int | None = None, *, may_wait: bool = True
    ) -> bytes | None:
        """Return the record at a physical offset, or None; passing its size (bytes) saves a read.

        With `may_wait` it may block; any thread. Without, it raises BlockingIOError if it would block or read over 64 KiB.
        """
        if size is not None:
            record = self._log.read(physical_offset, size, may_wait=may_wait)
            return record if _is_record(record, physical_offset, size) else None
        rest = None if may_wait else self._log.warm_rest(physical_offset)
        if rest is not None:
            size = int.from_bytes(rest[:4])
            left = min(len(rest), self._log.positions.committed - physical_offset)
            if size <= min(left, AT_ONCE_SIZE_MAX):
                record = bytes(rest[:size])
                return record if _is_record(record, physical_offset, size) else None
        head = self._log.read(physical_offset, PHYSICAL_OFFSET_AT + 8, may_wait=may_wait)
        if head is None or int.from_bytes(head[PHYSICAL_OFFSET_AT:]) != physical_offset:
            return None
        size = int.from_bytes(head[:4])
        if size < RECORD_SIZE_MIN:
            return None
        return self._log.read(physical_offset, size, may_wait=may_wait)

    def read_records(self, places: Sequence[tuple[int, int]]) -> list[Buffer | None]:
        """Return the records at these physical offsets, of these sizes, None for each that is not there; may block; any thread.

        Records that are near to each other are read with one call, so it is faster than `read_record` for each.
        """
        end = self._log.positions.committed
        is_within = all(
            size >= RECORD_SIZE_MIN and offset <= end - size for offset, size in places
        )
        # A caller may order places by due times, or have them from damaged entries of a queue.
        ascending = sorted(set(places))
        runs = [(offset, offset + size) for offset, size in ascending]
        pieces = self._reader.read_pieces(runs) if is_within else None
        if pieces is None:
            return [self.read_record(offset, size) for offset, size in places]
        found = dict(zip(ascending, pieces, strict=True))
        return [found[place] if _is_record(found[place], *place) else None for place in places]

    def store_time_at(self, queue: ConsumeQueue, offset: int, *, may_wait: bool = True) -> int:
        """Return the store time of a message, or of the next after a gap, in ms; -1 (batch queues: also 0) if none is found.

        Without `may_wait`, raises BlockingIOError if that may block, as mostly for a batch queue. Any thread may call it
        with `may_wait`. The results of up to KNOWN_TIMES_MAX calls are kept in memory.
        """
        # A truncation hides the removed messages, and then replaces this dict; so a time that a reader adds to the
        # old one is not found any more, and a reader of the new one finds no removed message.
        known = self._known_ms
        if not queue.min_offset <= offset < queue.max_offset:
            return -1
        found = known.get((queue, offset))
        if found is not None:
            return found
        found = self._found_time(queue, offset, may_wait=may_wait)
        if found > 0:
            if len(known) >= KNOWN_TIMES_MAX:
                known.clear()
            known[queue, offset] = found
        return found

    def _found_time(self, queue: ConsumeQueue, offset: int, *, may_wait: bool) -> int:
        if not isinstance(queue, BatchQueue):
            return self._times.store_time_at(queue, offset, may_wait=may_wait)
        if not may_wait:
            raise BlockingIOError
        return self._batches.store_time_at(queue, offset)

    def earliest_store_time(self, queue: ConsumeQueue, *, may_wait: bool = True) -> int:
        """Return the store time of a queue's oldest message in ms, -1 if none is found (see `store_time_at`)."""
        return self.store_time_at(queue, queue.min_offset, may_wait=may_wait)

    def offset_by_time(
        self,
        queue: ConsumeQueue,
        timestamp_ms: int,
        *,
        upper: bool = False,
        may_wait: bool = True,
    ) -> int:
        """Return the queue offset of the first message stored at or after a time (see `time_search`).

        With `upper`, return that of the last message stored at or before the time. For `may_wait` see `store_time_at`.
        """
        # The times that a bisection passes are not kept.
        time_of: TimeOf
        if may_wait or isinstance(queue, BatchQueue):
            time_of = partial(self._found_time, queue, may_wait=may_wait)
        else:
            time_of = self._times.time_at_once(queue)
        return offset_by_time(queue, timestamp_ms, upper=upper, time_of=time_of)


def _is_record(content: Buffer | None, physical_offset: int, size: int) -> bool:
    """Return whether bytes of the log are a record that has this size and belongs at this physical offset."""
    return (
        content is not None
        and size >= RECORD_SIZE_MIN
        and int.from_bytes(content[:4]) == size
        and int.from_bytes(content[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8])
        == physical_offset
    )
