"""The part of a store that replication uses: the bytes that slaves may have, and the effects of their progress."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from cometmq.store.appender import Appender
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.flushing import Flushing

_QUEUES_AT_ONCE = 200  # Some 2 ms.


class ReplicaSide:
    """The part of a store that replication uses, apart from `append_raw`, `read_log` and truncation."""

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
        self.change_timeout = flushing.change_replica_timeout
        self._dispatcher = dispatcher
        self._queues = directory.queues
        self._checkpoints = directory.checkpoints

    @property
    def file_size(self) -> int:
        """Size of a log file in bytes."""
        return self._log.chain.file_size

    @property
    def is_empty(self) -> bool:
        """Whether the store has no log yet, so that it may begin at any file."""
        return not self._log.chain.files and not self._positions.written

    @property
    def sendable(self) -> int:
        """Physical offset up to which slaves may get the log and may acknowledge it (`Positions.sendable`)."""
        return self._positions.sendable

    @property
    def dispatched_ms(self) -> int:
        """Store time of the last dispatched record, ms since 1970; 0 if unknown; after a truncation approximate."""
        return self._dispatcher.dispatched_ms

    @property
    def undispatched(self) -> int:
        """Number of bytes that are written but not in their queues yet."""
        return self._positions.written - self._positions.dispatched

    @property
    def master_flushed(self) -> int:
        """Physical offset up to which this slave's master had flushed, as last noted, maybe before a restart."""
        return self._checkpoints.master_flushed

    def note_master_flushed(self, offset: int) -> None:
        """Store the master's flushed offset in the next checkpoint, for a Java broker."""
        self._checkpoints.master_flushed = offset

    def begin_copying(self, reason: str = "this broker is a slave; send to its master") -> None:
        """Make the log a copy of a master's: it only grows by `append_raw`, and puts are refused for the reason."""
        self._appender.refusal = reason

    def end_copying(self) -> None:
        """Let the log accept puts again, without an unfinished blank end; after an OSError, it remains a copy."""
        self._log.clear_behind()
        self._appender.refusal = None

    def begin_as_elected(self) -> None:
        """Confirm and show from now on only what `replicated` reports, as a majority of a group has it; the log is a copy."""
        self._positions.is_elected = True
        self.begin_copying()
        self.replicated(self._log.chain.start, 0)

    def stop_leading(self) -> None:
        """Make the log a copy of another leader's, and call back the senders that only wait for replicas."""
        self.begin_copying()
        self.replicated(self._positions.replicated, 0)

    def end_serving(self) -> None:
        """End the role of a master: call nothing before dispatches, and store and confirm sends without replicas."""
        self.on_moved(None)
        self.refuse(None)
        self.replicated(None, 1)

    def on_moved(self, told: Callable[[], None] | None) -> None:
        """Set a callback (or None) that runs before each dispatch, because the log may have been written or flushed."""
        self._dispatcher.on_moved = told

    def read_nowait(self, offset: int, size_max: int) -> Buffer | None:
        """Return up to `size_max` bytes of a log file, maybe from after the log's end; None if that may block.

        Also None if no file contains the offset.
        """
        file = self._log.chain.find(offset)
        if file is None:
            return None
        size = min(size_max, file.end - offset)
        if self._log.is_warm(offset):  # As for pulls: neither copied nor read by a system call.
            with suppress(OSError):  # A file that cannot be mapped can still be read.
                place = offset - file.start
                return file.view[place : place + size]
        return file.read_nowait(offset, size)

    def will_need(self, offset: int, size: int) -> None:
        """Let the system read a range of the log ahead, up to its file's end; does nothing if no file contains the offset."""
        file = self._log.chain.find(offset)
        if file is not None:
            file.will_need(offset, min(size, file.end - offset))

    def last_messages(self, topic: str) -> list[tuple[ConsumeQueue, int]]:
        """Return the queues of a topic with the physical offset of each one's last message; -1 if none is found. May block."""
        queues = self._queues.table.of_topic(topic)
        return [(queue, self._last_of(queue)) for queue in queues]

    def count_queues(self, offset: int, counts: dict[str, int]) -> Iterator[None]:
        """Add to `counts` the topics with messages from a physical offset on, with the number of queues that each needs.

        Yields after every 200 queues, so that the caller can do other work. May block in between.
        """
        for number, queue in enumerate(list(self._queues.table)):
            if queue.queue_id >= counts.get(queue.topic, 0) and self._last_of(queue) >= offset:
                counts[queue.topic] = queue.queue_id + 1
            if number % _QUEUES_AT_ONCE == _QUEUES_AT_ONCE - 1:
                yield

    def _last_of(self, queue: ConsumeQueue) -> int:
        if isinstance(queue, BatchQueue):
            return queue.physical_offset
        if queue.max_offset == queue.min_offset:
            return -1
        last = self._queues.read_entries(queue, queue.max_offset - 1, 1)
        return last[0].physical_offset if last else -1

    def replicated(self, end: int | None, replica_count: int) -> None:
        """Record up to which physical offset all required replicas have the log; then notify waiters and dispatch.

        Args:
            end: Physical offset; None if no replicas are required.
            replica_count: Number of members in sync, including this one; 0 if there are fewer than required.
        """
        self._flushing.replicated(end, replica_count)
        self._dispatcher.dispatch()

    def refuse(self, reason: str | None) -> None:
        """Set the reason for refusing sends that need replicas; None to accept them."""
        self._positions.refusal = reason
