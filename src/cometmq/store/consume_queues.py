"""The plain queues of a store: their tails written out, a topic's removed.

A tail is written when it holds a page or some, and else in rounds: a round takes every queue that has
one, a few at each tick, and when it is through, everything dispatched before it began is in the
files. That is what a checkpoint may say (cometmq.store.checkpoint). A round over few
queues is through at once; over very many it takes 10 s, which is then the age of a tail, and the
cost of a write is shared by what came in that time (docs/design/0004).
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
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import is_of_one_path
from cometmq.store.queue_files import OPEN_FILES_MAX, QueueFiles
from cometmq.store.queue_table import QueueTable

logger = logging.getLogger(__name__)

GAP_MAX = 1_000_000  # Entries missing in a queue beyond which its next offset is not believed.

# A round is through after this many ticks of 50 ms, or earlier where few queues have a tail.
ROUND_TICKS = 200
TAILS_PER_TICK = 64  # About 0.6 ms with files that are there.
STUCK_AT_ONCE = 64  # Tries of queues that alone cannot be written, each second.
_TAILS_AT_ONCE = 16  # Between two looks at the clock: new files can take 0.3 ms each.


class ConsumeQueues:
    """The queues of the table that are written here.

    Attributes:
        table: queues of all kinds.
        files: where their entries are kept.
        dirty: queues with a tail, in the order in which they got it.
        entries: sum of the max offsets of all queues.
        stuck: queues that alone cannot be written; their tails wait, and no other queue does.
        on_stuck: told of a queue that has become one of them.
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
        """The plain queues of a topic."""
        return [queue for queue in self.table.of_topic(topic) if not queue.is_batch]

    def read_entries(self, queue: ConsumeQueue, offset: int, count: int) -> list[QueueEntry]:
        """Up to `count` entries from a queue offset on. May wait for the device; any thread.

        Raises:
            FileNotFoundError: the file of the first one is gone.
        """
        entries: list[QueueEntry] = []
        end = min(offset + count, queue.max_offset)
        while offset + len(entries) < end:
            at = offset + len(entries)
            content = queue.tail_entry(at)
            if not content:
                # Not in the tail, so before it: `tail_start` only grows.
                in_files = min(end, queue.tail_start) - at
                content = self.files.read(queue, at, in_files)
            if not content:
                break
            entries += map(QueueEntry._make, QUEUE_ENTRY.iter_unpack(content))
        return entries

    def clear(self) -> None:
        """Forget every queue; the files stay."""
        for queue in list(self):
            self.table.remove(queue)
        self.dirty.clear()
        self.stuck.clear()
        self.entries = 0

    @property
    def writable_entries(self) -> int:
        """`entries` without those of stuck tails.

        A checkpoint holds it, and a start that finds less knows that queue files have been removed.
        """
        return self.entries - sum(len(queue.tail) // QUEUE_ENTRY_SIZE for queue in self.stuck)

    def align(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Have a queue go on at an offset that recovery finds in a record.

        It should be the next. A smaller one is the queue of a topic that was deleted and made again:
        the newer message counts. A larger one leaves a gap, which readers pass.

        Args:
            queue: which.
            offset: queue offset in the record.
            entry: what it will get there.

        Returns:
            False where the offset cannot be believed: no CRC covers it.
        """
        missing = offset - queue.max_offset
        if missing == 0:
            return True
        if offset < 0 or missing > GAP_MAX:
            logger.warning(
                "%r: a record says it has queue offset %d; passed over", queue, offset
            )
            return False
        if missing > 0:
            logger.warning(
                "%r: %d messages before %d are not in the log", queue, missing, offset
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
        """Forget a queue's entries from an offset on, in memory."""
        self.entries -= queue.max_offset - offset
        queue.cut(offset)
        if not queue.tail:
            self.dirty.pop(queue, None)

    def write_tails(self, queues: Iterable[ConsumeQueue], *, is_kept: bool = True) -> None:
        """Write the tails of queues; one that fails keeps its own for the next time.

        One that alone cannot be written is passed over: it is stuck, until `write_stuck` can write it.

        Args:
            queues: which.
            is_kept: whether their files stay open (QueueFiles.write).

        Raises:
            OSError: the disk failed or is full; the rest was not tried.
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
        # A copy: the traceback of a failed write would keep a view of the tail, and a tail with a view
        # cannot grow.
        self.files.write(queue, queue.tail_start, bytes(queue.tail), is_kept=is_kept)
        queue.tail_written(len(queue.tail) // QUEUE_ENTRY_SIZE)

    def _is_stuck(self, queue: ConsumeQueue, error: OSError) -> None:
        path = error.filename or self.files.queue_directory(queue.topic, queue.queue_id)
        queue.fault = f"{error.strerror}: {path}"
        self.stuck[queue] = None
        logger.error(
            "The entries of queue %d of topic %.300r cannot be written (%.600s): its messages are kept "
            "in the log, and its entries in memory until that is mended; after a restart "
            "`cometmq store repair` makes them again. Senders to it are told, all other queues go on",
            queue.queue_id, queue.topic, queue.fault,
        )  # fmt: skip
        self.on_stuck(queue)

    def write_stuck(self) -> None:
        """Try again to write queues that were stuck.

        Raises:
            OSError: the disk failed or is full.
        """
        for queue in list(islice(self.stuck, STUCK_AT_ONCE)):
            del self.stuck[queue]
            try:
                self._write_tail(queue, is_kept=False)
            except OSError as error:
                self.stuck[queue] = None  # The last now, so that all have their turn.
                if not is_of_one_path(error):
                    raise
            else:
                queue.fault = None
                logger.warning("%r: its entries are written again", queue)

    def begin_round(self) -> None:
        """From now on each `continue_round` writes a part of the tails that there are."""
        queues = list(self.dirty)
        self._round = iter(queues)
        self._round_step = max(TAILS_PER_TICK, len(queues) // ROUND_TICKS)
        self._is_round_kept = len(queues) <= OPEN_FILES_MAX

    def continue_round(
        self, is_time_over: Callable[[], bool], *, is_spread: bool = True
    ) -> bool:
        """Write the next part; True when every tail of the round is written.

        Args:
            is_time_over: asked now and then; the part ends early when it is.
            is_spread: end it when it has a tick's share of the round, too.

        Raises:
            OSError: the disk failed or is full; the round is given up.
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
        """Give the round up that is under way."""
        self._round = None

    @property
    def is_in_round(self) -> bool:
        """Whether a round has begun and is not through."""
        return self._round is not None

    def write_all(self) -> None:
        """Write every tail that can be.

        Raises:
            OSError: the disk failed or is full.
        """
        self.write_tails(list(self.dirty))
        self.write_stuck()

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues and remove their files.

        Raises:
            OSError: a file could not be removed; the queues are forgotten all the same.
        """
        queues = self.of_topic(topic)
        for queue in queues:
            self.table.remove(queue)
            self._forget(queue)
        self.table.end_waiting(topic)
        for queue in queues:
            self.files.remove(queue)
        for queue_id in self.files.queue_ids(topic):  # Of queues that were put aside.
            self.files.remove(ConsumeQueue(topic, queue_id))
        self.files.remove_topic(topic)

    def delete_queue(self, queue: ConsumeQueue) -> None:
        """Forget one queue and remove its files.

        Raises:
            OSError: a file could not be removed; the queue is forgotten all the same.
        """
        self.table.remove(queue)
        self._forget(queue)
        self.files.remove(queue)

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.deleted = True
        queue.tail.clear()
        self.dirty.pop(queue, None)
        self.stuck.pop(queue, None)
        # What is in the log and not visible yet is counted when it comes, and is in no file then.
        self.entries -= queue.next_offset

    def sweep(self) -> None:
        """Remove the empty directories of topics that have no queue.

        Raises:
            OSError: one could not be removed.
        """
        used = {queue.topic for queue in self}
        for name in self.files.topic_names():
            if name not in used:
                self.files.remove_topic(name)
