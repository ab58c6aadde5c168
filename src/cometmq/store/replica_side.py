"""A store as its copies see it: what they may have of its log, and what follows from what they have."""

from collections.abc import Callable
from contextlib import suppress

from cometmq.store.appender import Appender
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.flushing import Flushing


class ReplicaSide:
    """The part of a store that replication needs besides `append_raw` and `read_log`."""

    def __init__(
        self,
        directory: StoreDirectory,
        appender: Appender,
        *,
        flushing: Flushing,
        dispatcher: LogDispatcher,
    ) -> None:
        self._log = log = directory.log
        self._appender = appender
        self._positions = log.positions
        self._flushing = flushing
        self._dispatcher = dispatcher
        self._queues = directory.queues
        self._checkpoints = directory.checkpoints

    @property
    def file_size(self) -> int:
        """Bytes of a log file."""
        return self._log.chain.file_size

    @property
    def is_empty(self) -> bool:
        """Whether the store has no log yet, so that it may begin at any file."""
        return not self._log.chain.files and not self._positions.written

    @property
    def sendable(self) -> int:
        """Physical offset up to which copies may have the log, and a copy may acknowledge it (`Positions.sendable`)."""
        return self._positions.sendable

    @property
    def dispatched_ms(self) -> int:
        """The store time of the newest visible message, ms since 1970; 0: not known."""
        return self._dispatcher.dispatched_ms

    @property
    def undispatched(self) -> int:
        """Bytes that are written and not in their queues yet."""
        return self._positions.written - self._positions.dispatched

    @property
    def master_flushed(self) -> int:
        """The physical offset to which the master of this copy had flushed, as was noted last."""
        return self._checkpoints.master_flushed

    def note_master_flushed(self, offset: int) -> None:
        """Note how far the master had flushed; the next checkpoint has it, for a Java broker."""
        self._checkpoints.master_flushed = offset

    def begin_copying(self) -> None:
        """From now on the log is a copy of a master's: it grows by `append_raw` alone, and puts are refused."""
        self._appender.is_copy = True

    def on_moved(self, told: Callable[[], None] | None) -> None:
        """Have somebody told whenever the log may have been written or flushed, before anything is shown; None: nobody."""
        self._dispatcher.on_moved = told

    def read_nowait(self, offset: int, size_max: int) -> Buffer | None:
        """Bytes of the log that need not wait for the device; None: they must be read in a thread.

        Args:
            offset: physical offset of the first, which the log has.
            size_max: most of them; fewer where the file ends.
        """
        file = self._log.chain.find(offset)
        if file is None:
            return None
        size = min(size_max, file.end - offset)
        if self._log.is_warm(offset):  # As pulls have it: neither copied nor asked for.
            with suppress(OSError):  # A file that cannot be mapped can be read.
                place = offset - file.start
                return file.view[place : place + size]
        return file.read_nowait(offset, size)

    def last_messages(self, topic: str) -> list[tuple[ConsumeQueue, int]]:
        """The queues of a topic, and the physical offset of the last message of each; -1: it has none."""
        queues = self._queues.table.of_topic(topic)
        return [(queue, self._last_of(queue)) for queue in queues]

    def queue_counts(self, offset: int) -> dict[str, int]:
        """Return the topics with messages from a physical offset on, and the number of queues that these need."""
        counts: dict[str, int] = {}
        for queue in self._queues.table:
            if queue.queue_id >= counts.get(queue.topic, 0) and self._last_of(queue) >= offset:
                counts[queue.topic] = queue.queue_id + 1
        return counts

    def _last_of(self, queue: ConsumeQueue) -> int:
        if isinstance(queue, BatchQueue):
            return queue.physical_offset
        if queue.max_offset == queue.min_offset:
            return -1
        last = self._queues.read_entries(queue, queue.max_offset - 1, 1)
        return last[0].physical_offset if last else -1

    def replicated(self, end: int | None, replica_count: int) -> None:
        """Copies have the log up to an offset: tell who waited for it, and show it.

        Args:
            end: physical offset that all have that must; None: nobody waits for copies.
            replica_count: how many are in sync; 0: fewer than must be.
        """
        self._flushing.replicated(end, replica_count)
        self._dispatcher.dispatch()

    def refuse(self, reason: str | None) -> None:
        """Sends that would wait for copies are not stored, and why; None: they are again."""
        self._positions.refusal = reason

    def change_timeout(self, timeout_ms: int) -> None:
        """Set the longest wait for copies (slaveTimeout), ms."""
        self._flushing.change_replica_timeout(timeout_ms)
