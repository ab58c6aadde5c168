"""The consume queues of a store, except batch queues: writes entries (tails) to files, deletes topics.

A tail is written when it holds about a page of entries (more in a recovery or a replica); others are written in rounds.
A round covers every queue that has a tail at its start, a few per tick. When it has finished, everything dispatched
before it began is in the files or stuck, and a checkpoint may record that. A round over few queues usually takes one
tick, over very many about 10 s; each write then covers all entries of that time (docs/design/0004).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from cometmq.codec.queue_entry import (
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    QueueEntry,
    gap_entries,
)
from cometmq.model.text import plural, printable
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import is_of_one_path
from cometmq.store.queue_files import OPEN_FILES_MAX, QueueFiles
from cometmq.store.queue_table import QueueTable

logger = logging.getLogger(__name__)

# If more entries than this are missing, a record's queue offset is not trusted.
GAP_MAX = 1_000_000

# A round ends after this many ticks of 50 ms, earlier if few queues have a tail.
ROUND_TICKS = 200
TAILS_PER_TICK = 64  # About 0.6 ms if their files exist.
STUCK_AT_ONCE = 64  # Retries per second of queues that cannot be written.
# Tails written between checks of the clock; creating a file can take 0.3 ms.
_TAILS_AT_ONCE = 16


class ConsumeQueues:
    """All queues of a store that are not batch queues, and the writing of their tails (entries not in a file yet).

    Attributes:
        table: Queues of all kinds.
        dirty: Queues with a tail to be written, in the order in which they got it.
        entries: Sum of the max offsets of all queues but batch queues.
        stuck: Queues whose files cannot be written; their tails stay in memory until `write_stuck` succeeds.
        on_stuck: Called with a queue that became stuck.
    """

    def __init__(
        self, table: QueueTable, files: QueueFiles, *, read_only: bool = False
    ) -> None:
        self.table = table
        table.on_set_aside = self._forget
        self.files = files
        self._read_only = read_only
        self.dirty: dict[ConsumeQueue, None] = {}
        self.entries = 0
        self.stuck: dict[ConsumeQueue, None] = {}
        self.on_stuck: Callable[[ConsumeQueue], None] = lambda _queue: None
        self._round: Iterator[ConsumeQueue] | None = None
        self._round_step = TAILS_PER_TICK
        self._is_round_kept = True

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return (queue for queue in self.table if not queue.is_batch)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the queues of a topic that are not batch queues."""
        return [queue for queue in self.table.of_topic(topic) if not queue.is_batch]

    def read_entries(self, queue: ConsumeQueue, offset: int, count: int) -> list[QueueEntry]:
        """Return a list of up to `count` entries from a queue offset on; may block on the device; any thread.

        Raises:
            OSError: A file cannot be read; FileNotFoundError if it is gone.
        """
        entries: list[QueueEntry] = []
        end = min(offset + count, queue.max_offset)
        while offset + len(entries) < end:
            at = offset + len(entries)
            content = queue.tail_entry(at, end - at)
            if not content:
                # The entry is not in the tail, so it is in a file, unless a truncation has removed it.
                in_files = min(end, queue.tail_start) - at
                content = self.files.read(queue, at, in_files) if in_files > 0 else b""
            if not content:
                break
            entries += map(QueueEntry._make, QUEUE_ENTRY.iter_unpack(content))
        return entries

    def clear(self) -> None:
        """Forget all queues but batch queues in memory; their files stay."""
        for queue in list(self):
            self.table.remove(queue)
        self.dirty.clear()
        self.stuck.clear()
        self.entries = 0

    @property
    def writable_entries(self) -> int:
        """Number of `entries` without those that stuck queues cannot write to their files, for a checkpoint.

        A start that finds fewer entries in the files than the checkpoint records rebuilds the queues from the log.
        """
        return self.entries - sum(len(queue.tail) // QUEUE_ENTRY_SIZE for queue in self.stuck)

    def align(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Prepare a queue for the offset of a recovered or replicated record; return False if the offset is wrong.

        The body's CRC does not cover the offset. For one below the next, the topic was probably deleted and created again:
        the newer message counts, and the entries from that offset on are removed. A larger one, by at most GAP_MAX,
        leaves a gap, which readers skip. `entry` is the one to be appended at the queue offset in the record.
        """
        missing = offset - queue.max_offset
        if missing == 0:
            return True
        if offset < 0 or missing > GAP_MAX:
            logger.warning("%s: a record has the wrong queue offset %d; skipped", queue, offset)
            return False
        if missing > 0:
            logger.warning(
                "%s: the log lacks %d %s before offset %d",
                queue,
                missing,
                plural(missing, "message"),
                offset,
            )
            place, size, _ = entry
            queue.tail += gap_entries(missing, queue.topic, place, size)
            queue.max_offset = queue.next_offset = offset
        else:
            if offset < queue.tail_start and not self._read_only:
                self.files.clear_from(queue, offset)
            queue.cut(offset)
        return True

    def cut(self, queue: ConsumeQueue, offset: int) -> None:
        """Drop a queue's entries from an offset on, in memory only."""
        self.entries -= queue.max_offset - offset
        queue.cut(offset)
        if not queue.tail:
            self.dirty.pop(queue, None)

    def write_tails(self, queues: Iterable[ConsumeQueue], *, is_kept: bool = True) -> None:
        """Write new entries (tails) of queues; if that fails they are kept; a queue with faulty files becomes stuck.

        With `is_kept`, the files stay open (QueueFiles.write).

        Raises:
            OSError: The disk failed or is full; the remaining queues were not tried.
        """
        for queue in queues:
            if queue.deleted:
                queue.tail.clear()
            elif queue.tail and queue.fault is None:
                try:
                    self._write_tail(queue, is_kept=is_kept)
                except OSError as error:
                    if not is_of_one_path(error):
                        raise
                    self._is_stuck(queue, error)
            self.dirty.pop(queue, None)

    def _write_tail(self, queue: ConsumeQueue, *, is_kept: bool) -> None:
        # A copy: the traceback of a failed write would keep a view of the tail, which then could not grow.
        self.files.write(queue, queue.tail_start, bytes(queue.tail), is_kept=is_kept)
        queue.tail_written(len(queue.tail) // QUEUE_ENTRY_SIZE)

    def _is_stuck(self, queue: ConsumeQueue, error: OSError) -> None:
        path = error.filename or self.files.queue_directory(queue.topic, queue.queue_id)
        queue.fault = f"{error.strerror}: {path}"
        self.stuck[queue] = None
        logger.error(
            "The entries of queue %d of topic %.300s cannot be written (%.600s): its messages are kept "
            "in the log, and its entries in memory until that is repaired; after a restart "
            "`cometmq store repair` rebuilds them. Producers get an error for this queue, all other queues continue",
            queue.queue_id, printable(queue.topic), queue.fault,
        )  # fmt: skip
        self.on_stuck(queue)

    def write_stuck(self) -> None:
        """Retry up to STUCK_AT_ONCE stuck queues; raise OSError if the disk failed or is full, not if a queue stays stuck."""
        for queue in list(islice(self.stuck, STUCK_AT_ONCE)):
            del self.stuck[queue]
            try:
                self._write_tail(queue, is_kept=False)
            except OSError as error:
                # Moved to the end, so that all queues are retried in turn.
                self.stuck[queue] = None
                if not is_of_one_path(error):
                    raise
            else:
                queue.fault = None
                logger.warning("%s: its entries can be written again", queue)

    def begin_round(self) -> None:
        """Start a round: later calls of `continue_round` write the entries of all queues that are now in `dirty`."""
        queues = list(self.dirty)
        self._round = iter(queues)
        self._round_step = max(TAILS_PER_TICK, len(queues) // ROUND_TICKS)
        self._is_round_kept = len(queues) <= OPEN_FILES_MAX

    def continue_round(
        self, is_time_over: Callable[[], bool], *, is_spread: bool = True
    ) -> bool:
        """Write the unwritten entries of the next queues of the current round; return True when all were tried.

        Args:
            is_time_over: Checked repeatedly; writing stops when it returns True.
            is_spread: Whether to also stop after one tick's share of the round.

        Raises:
            OSError: The disk failed or is full; the round is abandoned.
        """
        assert self._round is not None
        written = 0
        while not is_spread or written < self._round_step:
            part = list(islice(self._round, _TAILS_AT_ONCE))
            try:
                self.write_tails(part, is_kept=self._is_round_kept)
            except OSError:
                self._round = None
                raise
            if len(part) < _TAILS_AT_ONCE:
                self._round = None
                return True
            written += _TAILS_AT_ONCE
            if is_time_over():
                break
        return False

    def end_round(self) -> None:
        """Abandon the current round of writing queue entries to files."""
        self._round = None

    @property
    def is_in_round(self) -> bool:
        """Whether a round of writing queue entries to files is in progress."""
        return self._round is not None

    def write_all(self) -> None:
        """Write the entries of all `dirty` queues, retry up to STUCK_AT_ONCE stuck ones; raise OSError if the disk fails."""
        self.write_tails(list(self.dirty))
        self.write_stuck()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's queues but batch queues, and their files; on OSError some files remain, but no queues."""
        queues = self.of_topic(topic)
        for queue in queues:
            self.table.remove(queue)
            self._forget(queue)
        self.table.end_waiting(topic)
        for queue in queues:
            self.files.remove(queue)
        for queue_id in self.files.queue_ids(topic):  # Of queues that were set aside.
            self.files.remove(ConsumeQueue(topic, queue_id))
        self.files.remove_topic(topic)

    def delete_queue(self, queue: ConsumeQueue) -> None:
        """Remove one queue and its files; on OSError some files remain, but the queue is forgotten."""
        self.table.remove(queue)
        self._forget(queue)
        self.files.remove(queue)

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.deleted = True
        queue.tail.clear()
        self.dirty.pop(queue, None)
        self.stuck.pop(queue, None)
        # Messages in the log that are not visible yet are counted when they are dispatched; they are in no file then.
        self.entries -= queue.next_offset

    def sweep(self) -> None:
        """Remove the empty directories of topics without queues; raise OSError if one cannot be removed."""
        used = {queue.topic for queue in self}
        for name in self.files.topic_names():
            if name not in used:
                self.files.remove_topic(name)
