"""The store of a broker: open it, put, flush and read messages, close it.

One thread (the broker's loop) owns a store and calls all of its methods, except those marked "any thread". The store
starts no thread itself. The owner does the following:

- After requests arrived: call `put_many` or `put_columns`, write the answers, call `dispatch_pending`. Answers for messages
  that are not confirmed yet (`positions`) wait: `wait_confirmed` calls back with the outcome.
- By a timer, at least every 100 ms (every second at rest): the work described in `cometmq.store.background`.
- For a pull: call `get`. If the result is cold, call `result.cold()` in a reader thread to finish it.

A batch is stored or refused as a whole. A refusal is a StoreError whose text is meant for the sender. A failed sync of
the log is final (docs/design/0004): the store accepts nothing more until a restart has checked what is on the device.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cometmq.codec.remoting import FRAME_SIZE_MAX
from cometmq.model.clock import Clock
from cometmq.model.errors import (
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from cometmq.store.acceptance import Acceptance
from cometmq.store.appender import Appender, Put, PutResult
from cometmq.store.background import Background
from cometmq.store.batch import Batch, Columns
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.derived_queues import OnArrival
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer, Disk, failed, lack_of
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.index import Index
from cometmq.store.index_file import IndexShape
from cometmq.store.index_loading import DerivedIndex
from cometmq.store.log_follower import Builder, LogFollower
from cometmq.store.message_search import MessageSearch
from cometmq.store.raw_log import RawLog
from cometmq.store.read_side import ReadSide
from cometmq.store.real_disk import RealDisk
from cometmq.store.replica_side import ReplicaSide
from cometmq.store.running_flags import RunningFlag
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import is_directory_name
from cometmq.store.truncation import Truncation
from cometmq.store.whole_records import check_of

logger = logging.getLogger(__name__)

__all__ = ["MessageStore", "Put", "PutResult"]

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE, which clients send.
# A frame has at most 16 MiB; 64 KiB of them are left for the header of the answer.
ANSWER_BYTES_MAX = FRAME_SIZE_MAX - (64 << 10)


class MessageStore:
    """An open store directory; created by `MessageStore.open`.

    Methods that belong to one of its parts alone are bound here, which saves a call (`_lend`).

    Attributes:
        positions: Offsets up to which the log is written, confirmed and visible.
        flags: Most of the reasons why the store accepts no messages at present (RocketMQ's running flags).
        room: Fill levels of its disks when they were last checked.
        cleaner: Deletes old files.
        index: Finds messages by their keys.
        replica_side: The view of this store that replication has.
        recovery: What opening it has found at the end of the log.
        put_columns: Appends the sends of a fast-path batch (`Columns`), fills in their offsets and returns the `Batch`, whose
            `end` is the log's new end. Raises a StoreError that says why if they do not count as stored. Not to be used with
            enabledAppendPropCRC.
        on_truncated: Callbacks that receive the log's new end during a truncation, before the log is cut.
        on_stuck: Called with a topic if one of its queues cannot be written (`ConsumeQueue.fault`).
    """

    def __init__(
        self, path: str, settings: StoreSettings, *, clock: Clock, disk: Disk, read_only: bool
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._read_only = read_only
        self._is_closed = False
        self.on_stuck: Callable[[str], None] = lambda _topic: None
        self._directory = directory = StoreDirectory(
            path, settings, disk=disk, read_only=read_only
        )
        self._log, self._queues = directory.log, directory.queues
        self.positions = directory.log.positions
        self._acceptance = Acceptance()
        self.flags = self._acceptance.flags
        self._appender = Appender(self._log, settings, clock)
        self.put_columns = partial(self._put, self._appender.append_columns)
        self._raw = RawLog(self._log, settings)
        shape = IndexShape(settings.index.slots, settings.index.entries)
        self.index = Index(disk, f"{path}/index", shape, clock=clock)
        derived_index = DerivedIndex(directory, self.index, settings.index)
        directory.derived.append(derived_index)
        self._dispatcher = LogDispatcher(self.positions, directory.derived)
        self._reading = ReadSide(directory, settings)
        self._background = Background(
            directory,
            settings,
            clock=clock,
            acceptance=self._acceptance,
            appender=self._appender,
            dispatcher=self._dispatcher,
            index=self.index,
        )
        self._truncation = self._make_truncation(derived_index)
        self.on_truncated = self._truncation.on_truncated
        self.truncate_steps = self._truncation.steps
        self._queues.on_stuck = self._queue_stuck
        self._lend(self._reading, self._background)

    def _make_truncation(self, index: DerivedIndex) -> Truncation:
        return Truncation(
            self._directory,
            self.settings,
            dispatcher=self._dispatcher,
            index=index,
            reading=self._reading,
            background=self._background,
            acceptance=self._acceptance,
        )

    def _lend(self, reading: ReadSide, background: Background) -> None:
        self._upkeep = upkeep = background.upkeep
        self._flushing = flushing = background.flushing
        self.dispatch_pending = self._dispatcher.dispatch
        self.read_log, self.first_fault = self._raw.read, self._raw.first_fault

        table, batches = self._directory.table, self._directory.batches
        self.queue, self.queues_of, self.topics = table.find, table.of_topic, table.topics
        self.queues_by_number, self.batch_topics = table.queues_of, batches.topics
        self.queue_for_append = table.open_for_append
        self.queue_to_watch, self.queue_counts = reading.queue_to_watch, reading.queue_counts
        self.get, self.pull, self.entries = reading.get, reading.pull, reading.entries
        self.get_filtered = reading.get_filtered
        self.mended_entry, self.has_extended = (
            reading.mended_entry,
            self._directory.extended.has,
        )
        self.read_record, self.store_time_at = reading.read_record, reading.store_time_at
        self.read_records = reading.read_records
        self.earliest_store_time = reading.earliest_store_time
        self.offset_by_time = reading.offset_by_time
        self.change_limits = reading.change_limits
        self.change_read_ahead = reading.change_read_ahead

        self.wait_confirmed, self.wait_flushed = flushing.wait_confirmed, flushing.wait_flushed
        self.replica_side = ReplicaSide(
            self._directory, self._appender, flushing=flushing, dispatcher=self._dispatcher
        )
        self.flush_target, self.flush_files = background.flush_target, flushing.flush_files
        self.flushed, self.flush_failed = background.flushed, background.flush_failed
        self.file_ahead_needed = background.file_ahead_needed
        self.make_file, self.adopt = self._log.ahead.make, background.adopt
        self.checkpoint_due = background.checkpoint_due
        self.checkpointed = upkeep.checkpointed
        self.room, self.cleaner = upkeep.room, background.cleaner
        self.clean_due, self.tick = background.clean_due, background.tick
        self.is_at_rest = background.is_at_rest
        self.poison = background.poison
        self.refuse_for_now = self._acceptance.pause
        self.take_again = self._acceptance.resume

    def _queue_stuck(self, queue: ConsumeQueue) -> None:
        self._upkeep.queue_stuck(queue)
        self.on_stuck(queue.topic)

    # --- open and close

    @classmethod
    def open(
        cls,
        path: Path | str,
        settings: StoreSettings | None = None,
        *,
        clock: Clock,
        disk: Disk | None = None,
        read_only: bool = False,
    ) -> "MessageStore":
        """Open and recover a store directory: a new one, or one written by CometMQ or a Java broker.

        Args:
            path: The directory (storePathRootDir).
            settings: Its file sizes must be those that the store was written with; None means the defaults.
            clock: Clock for store timestamps and intervals.
            disk: File system to use; None means the one of this machine.
            read_only: Write and lock nothing. Queue entries missing from the files are kept in memory only.

        Raises:
            StoreLocked: The store is already open for writing, in this process or another.
            StoreDamaged: The sizes of log files (or of all queue or index files) do not fit the settings, a log file is
                missing or there twice, a part is unsupported, or there is no store and `read_only` is set.
            OSError: The disk failed.
        """
        store = cls(
            str(Path(path).absolute()),
            settings or StoreSettings(),
            clock=clock,
            disk=disk or RealDisk(),
            read_only=read_only,
        )
        try:
            store._begin()
        except BaseException:
            store.index.close()
            store._directory.release()
            raise
        return store

    def _begin(self) -> None:
        self.recovery = self._directory.recover()
        self._directory.derived_queues.on_error = self._upkeep.queue_write_failed
        self.index.on_error = self._upkeep.index_write_failed
        self.index.on_written = self._upkeep.index_written
        self._dispatcher.dispatched_ms = self._flushing.flushed_ms = self.recovery.store_ms
        if self.recovery.damage is not None or self._read_only:
            reason = self.recovery.damage or "the store was opened for reading only"
            self._acceptance.end(StoreReadOnly, reason)
        else:
            self._upkeep.tick()

    def close(self) -> None:
        """Sync everything to the device, mark the directory as cleanly closed and release it.

        Flushes, file and checkpoint jobs, and truncations must have ended. If the disk fails, which is only logged, or the
        store accepts no messages until a restart, the directory is released unmarked and maybe unsynced: an existing
        abort file stays.
        """
        if self._is_closed:
            return
        if self._acceptance.is_held:
            self.poison("the store was closed while its log was truncated")
        try:
            if not self._acceptance.is_over:
                self._settle()
        except OSError as error:
            logger.critical("The store could not be closed cleanly: %s", error)
        finally:
            self._acceptance.end(StoreClosed, "the store is closed")
            self._is_closed = True
            self._flushing.fail()
            self.index.close()
            self._directory.release()

    def _settle(self) -> None:
        self._log.commit_staged()
        self._log.clear_behind()
        end = self.positions.written
        self._flushing.flush_files(end)
        # A refused put sets the appender's time, too; an empty log has no last record.
        self._flushing.done(end, store_ms=self._appender.store_ms if end else 0)
        self._dispatcher.dispatch()
        self._queues.write_all()
        self.index.write_all()
        if self.flags.has(RunningFlag.QUEUE_ERROR):
            return  # After a failed sync of a queue file, later syncs prove nothing.
        self._upkeep.finish_job()
        job = self._upkeep.job(self._upkeep.progress(), self._upkeep.times())
        job.run()
        if job.error is not None:
            raise job.error
        self._directory.abort.clear()

    # --- put

    @property
    def store_host(self) -> bytes:
        """Address of this broker as stored in records, 8 or 20 bytes; must be set before the first message."""
        return self._appender.store_host

    @store_host.setter
    def store_host(self, host: bytes) -> None:
        self._appender.set_store_host(host)

    @property
    def refusal(self) -> str | None:
        """Reasons for which the running flags, a pause or a truncation refuse messages at present; None without any."""
        return self.flags.refusal

    def put_many(self, puts: Sequence[Put], *, is_together: bool = False) -> list[PutResult]:
        """Append messages as one batch; return a list of (queue offset, physical offset, size in bytes), one for each.

        Args:
            puts: The messages, in order.
            is_together: Whether all of them must be in one log file, as those of a batch message.

        Raises:
            StoreFull, StoreBusy, StoreReadOnly, StoreClosed, StorePoisoned: Nothing counts as stored; the text says why.
            RecordIllegal: One message cannot be stored, or not all in one file, so none was.
        """
        if not puts and self.flags.refusal is None:
            return []
        return self._put(
            lambda some: self._appender.append(some, is_together=is_together), puts
        ).results

    def _put(self, append: Callable[..., Batch], given: Sequence[Put] | Columns) -> Batch:
        if self.flags.refusal is not None:
            raise self._acceptance.refusal()
        if self._appender.refusal is not None:
            raise StoreReadOnly(self._appender.refusal)
        if self.positions.dispatched < self._dispatcher.raw_end:
            raise StoreBusy("replicated records are not confirmed yet; try again")
        try:
            batch = append(given)
        except StoreFull as error:
            self._upkeep.room.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        self._dispatcher.waiting.append(batch)
        return batch

    # --- bytes of the log

    def append_raw(self, offset: int, content: Buffer) -> int:
        """Append bytes of another broker's log: whole records, or a part of the blank end of a file.

        Args:
            offset: Physical offset of the first byte: the end of this log, or the result of the previous call. A log
                without files may begin at the start of any file.
            content: Whole records, maybe followed by a part of one. Must not be changed before they are dispatched.

        Returns:
            Physical offset of the end of the accepted bytes, at most a file's end: after the last whole record, or in
            or after a blank end, which only counts once a record follows.

        Raises:
            StoreFull, StoreBusy, StoreReadOnly, StoreClosed, StorePoisoned: Nothing counts as accepted; the text says why.
            RecordIllegal: The bytes do not belong at this offset or are not records; nothing was accepted.
        """
        if self.flags.refusal is not None:
            raise self._acceptance.refusal()
        try:
            end, batch = self._raw.append(offset, content)
        except StoreFull as error:
            self._upkeep.room.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        if batch is not None:
            self._appender.store_ms = batch.store_ms
            self._dispatcher.waiting.append(batch)
            self._dispatcher.raw_end = end
        return end

    def truncate(self, end: int) -> None:
        """Run all steps of `truncate_steps` immediately, blocking on the device; raises the same errors."""
        for step in self.truncate_steps(end):
            step()

    def _write_failed(self, error: OSError) -> StoreError:
        """Return the error for a failed write; unless only a resource was lacking, stop the store until a restart."""
        if lack_of(error) is not None:
            reason = failed("the log cannot be written", error)
            self._upkeep.room.file_failed(f"{reason}; sending continues when writing succeeds")
            return StoreFull(self.flags.refusal)
        return self.poison(f"the log cannot be written ({error.strerror or error})")

    def follow(self, builder: Builder) -> LogFollower:
        """Return a follower that feeds the log to a feature's builder; the caller runs the steps of its `due`.

        Until `unfollow`, the cleaner keeps the part of the log that the builder needs, up to its `kept_max` bytes.
        Raises StoreBusy during a truncation.
        """
        self._acceptance.check_free()
        follower = LogFollower(
            builder,
            self._log,
            check_of(self.settings),
            clock=self._clock,
            acceptance=self._acceptance,
        )
        self._directory.derived.append(follower)
        return follower

    def unfollow(self, follower: LogFollower) -> None:
        """Stop a feature's builder, of which no step may be running, and release the part of the log kept for it."""
        self._directory.derived.remove(follower)

    # --- visible

    @property
    def on_arrival(self) -> OnArrival | None:
        """Callback (queue, tags codes), or None, for new messages in a watched queue that is not a batch queue."""
        return self._directory.derived_queues.on_arrival

    @on_arrival.setter
    def on_arrival(self, on_arrival: OnArrival | None) -> None:
        self._directory.derived_queues.on_arrival = on_arrival

    # --- search

    def search(
        self, topic: str, key: str, *, max_count: int, begin_ms: int = 0, end_ms: int = ALL_TIME
    ) -> MessageSearch:
        """Return a search for messages by key, whose `run` finds and reads them, in any thread if it may wait.

        Messages of other keys and topics with the same hash may be found, too.

        Args:
            topic: Topic of the messages.
            key: A word of their KEYS property, or their unique key.
            max_count: Maximum number of messages, limited by maxMsgsNumBatch; of more, or of more bytes than fit into an
                answer, the newest are found.
            begin_ms: Earliest store time, ms since 1970.
            end_ms: Latest store time, ms since 1970.
        """
        most = min(max_count, self.settings.index.answer_count_max)
        wanted = self.index.search(topic, key, begin_ms=begin_ms, end_ms=end_ms)
        return MessageSearch(
            wanted,
            self.read_record,
            range(begin_ms, end_ms + 1),
            count_max=most,
            bytes_max=ANSWER_BYTES_MAX,
        )

    # --- delete, positions

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic; its records stay in the log, with their keys, until their files are deleted.

        A name that cannot be a directory has no queues; nothing happens.

        Raises:
            StoreBusy: The log is being truncated.
            OSError: A file could not be removed or written.
        """
        self._acceptance.check_free()
        if not is_directory_name(topic):
            return
        queues = self._queues.of_topic(topic)
        self._upkeep.forget_entries(sum(queue.max_offset for queue in queues))
        self._queues.delete_topic(topic)
        self._directory.batches.delete_topic(topic)
        self._directory.extended.delete_topic(topic)

    def delete_queue(self, queue: ConsumeQueue) -> None:
        """Delete one queue, not its records in the log; raise StoreBusy during a truncation, OSError on failure."""
        self._acceptance.check_free()
        if isinstance(queue, BatchQueue):
            self._directory.batches.delete_queue(queue)
            return
        self._upkeep.forget_entries(queue.max_offset)
        self._queues.delete_queue(queue)

    def sweep(self) -> None:
        """Remove empty topic directories in `consumequeue`; raise StoreBusy during a truncation, OSError on failure."""
        self._acceptance.check_free()
        self._queues.sweep()

    @property
    def needs_restart(self) -> bool:
        """Whether the store accepts no messages until a restart; a full disk, in contrast, can recover."""
        return self._background.needs_restart

    @property
    def was_clean(self) -> bool:
        """Whether the previous shutdown was clean: there was no abort file at the start."""
        return self._directory.was_clean

    @property
    def min_offset(self) -> int:
        """Physical offset at which the oldest log file begins; 0 without files."""
        return self._log.chain.start

    @property
    def max_offset(self) -> int:
        """Physical offset of the end of the last record, even if it is not flushed, confirmed or visible yet."""
        return self.positions.written

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is known to be on the device."""
        return self.positions.flushed

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which messages are visible to consumers."""
        return self.positions.dispatched
