"""The front door of the store: open, put, flush, get, close.

One thread owns a store (the broker's loop) and calls everything here, but for what is marked "any
thread"; the store itself starts none. The owner's round is:

- frames arrived: `put_many`, write the answers, `dispatch_pending`; what is not confirmed then
  (`positions`) waits by `wait_confirmed`, which calls back when the answers may be written.
- a timer (100 ms at most): what `cometmq.store.background` says.
- a pull: `get`; a result that is cold is finished by calling `result.cold()` in a reader thread.

Whole batches are refused with a StoreError whose text is for the sender. A failed flush is final
(docs/design/0004): nothing is taken until a restart has looked at what is really there.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from cometmq.codec.record import BLANK_TAIL_SIZE
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
from cometmq.store.derived import Step
from cometmq.store.derived_queues import OnArrival
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer, Disk, failed, lack_of
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.index import Index
from cometmq.store.index_file import IndexShape
from cometmq.store.index_loading import DerivedIndex
from cometmq.store.message_search import MessageSearch
from cometmq.store.raw_log import RawLog
from cometmq.store.read_side import ReadSide
from cometmq.store.real_disk import RealDisk
from cometmq.store.replica_side import ReplicaSide
from cometmq.store.running_flags import RunningFlag
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import is_directory_name
from cometmq.store.truncation import Truncation

logger = logging.getLogger(__name__)

__all__ = ["MessageStore", "Put", "PutResult"]

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE, which clients send.
# A frame has 16 MiB at most; a header needs the rest.
ANSWER_BYTES_MAX = FRAME_SIZE_MAX - (64 << 10)


class MessageStore:
    """A store directory that is open. Made by `MessageStore.open`.

    It is made of parts: the directory with the log, the queues and what else is built from the log, the
    appender, dispatch, the index, the read side, the background with flushing, upkeep and cleaning.
    What a part does alone has its name here, too, without a call between (`_lend`).

    Attributes:
        settings: what it was opened with.
        positions: how far its log is written, confirmed, visible.
        flags: why it takes no message at present (RocketMQ's running flags).
        room: how full its disks were at the last look.
        cleaner: lets old files go.
        index: finds messages by their keys.
        replica_side: what its copies see of it.
        on_truncated: each is told the log's new end when that is taken back (`Truncation`).
        on_stuck: told of a topic one of whose queues cannot be written (`ConsumeQueue.fault`).
    """

    def __init__(
        self, path: str, settings: StoreSettings, *, clock: Clock, disk: Disk, read_only: bool
    ) -> None:
        self.settings = settings
        self._read_only = read_only
        self._is_closed = False
        self.on_stuck: Callable[[str], None] = lambda _topic: None
        self._directory = directory = StoreDirectory(
            path, settings, disk=disk, read_only=read_only
        )
        self._log, self._table, self._queues = directory.log, directory.table, directory.queues
        self.positions = directory.log.positions
        self._acceptance = Acceptance()
        self.flags = self._acceptance.flags
        self._appender = Appender(self._log, settings, clock)
        self._raw = RawLog(self._log, settings)
        shape = IndexShape(settings.index.slots, settings.index.entries)
        self.index = Index(disk, f"{path}/index", shape, clock=clock)
        derived_index = directory.derive_index(self.index)
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
        """Give the names of what parts do alone to the store."""
        self._upkeep = upkeep = background.upkeep
        self._flushing = flushing = background.flushing
        self.dispatch_pending = self._dispatcher.dispatch
        self.read_log, self.first_fault = self._raw.read, self._raw.first_fault

        self.queue, self.queue_to_watch = reading.queue, reading.queue_to_watch
        self.queues_of, self.queue_counts = reading.queues_of, reading.queue_counts
        self.topics, self.batch_topics = reading.topics, reading.batch_topics
        self.queues_by_number = reading.queues_by_number
        self.get, self.pull, self.entries = reading.get, reading.pull, reading.entries
        self.mended_entry, self.has_extended = reading.mended_entry, reading.has_extended
        self.read_record, self.store_time_at = reading.read_record, reading.store_time_at
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
        self.make_file, self.adopt = background.make_file, background.adopt
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
        """Open a directory, new or written by us or by a Java broker, and recover it.

        Args:
            path: storePathRootDir.
            settings: file sizes must be those the store was written with.
            clock: for store times and intervals.
            disk: None: this machine's.
            read_only: write nothing and lock nothing; what the queues lack stays in memory.

        Raises:
            StoreLocked: it is open, here or in another process.
            StoreDamaged: a file's size does not fit the settings, a log file is missing, or
                there is no store to be read.
            OSError: the disk failed.
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
        """Recover the directory, and go on from where it ends."""
        _, store_ms, damage = self._directory.recover()
        self._directory.derived_queues.on_error = self._upkeep.queue_write_failed
        self.index.on_error = self._upkeep.index_write_failed
        self.index.on_written = self._upkeep.index_written
        self._dispatcher.dispatched_ms = self._flushing.flushed_ms = store_ms
        if damage is not None or self._read_only:
            reason = damage or "the store was opened for reading only"
            self._acceptance.end(StoreReadOnly, reason)
        else:
            self._upkeep.tick()

    def close(self) -> None:
        """Bring everything to the device, mark the directory as cleanly closed, give it up.

        Flush, file and checkpoint jobs and truncations that are under way must have ended. Where something
        cannot be brought to the device the directory stays marked, and the next start looks.
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
        """Flush, write and sync all there is; then remove the abort marker."""
        self._log.commit_staged()
        self._log.clear_behind()
        end = self.positions.written
        self._flushing.flush_files(end)
        self._flushing.done(end, store_ms=self._appender.store_ms)
        self._dispatcher.dispatch()
        self._queues.write_all()
        self.index.write_all()
        if self.flags.has(RunningFlag.QUEUE_ERROR):
            return  # A sync of a queue file failed; none after it proves anything.
        self._upkeep.finish_job()
        job = self._upkeep.job(self._upkeep.progress(), self._upkeep.times())
        job.run()
        if job.error is not None:
            raise job.error
        self._directory.abort.clear()

    # --- put

    @property
    def store_host(self) -> bytes:
        """The address of this broker in records, 8 or 20 bytes; set before the first put."""
        return self._appender.store_host

    @store_host.setter
    def store_host(self, host: bytes) -> None:
        self._appender.set_store_host(host)

    @property
    def record_size_max(self) -> int:
        """Bytes of the longest record that a log file can hold."""
        return self.settings.commitlog_file_size - BLANK_TAIL_SIZE

    @property
    def refusal(self) -> str | None:
        """The reason why messages are refused at present; None when they are not."""
        return self.flags.refusal

    def queue_for_append(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue that puts name; made when it is missing. Worth keeping until `deleted`.

        Raises:
            RecordIllegal: there can be no such queue, or it is a batch queue.
        """
        return self._table.open_for_append(topic, queue_id)

    def put_many(self, puts: Sequence[Put], *, is_together: bool = False) -> list[PutResult]:
        """Append messages; one write for all of them.

        Args:
            puts: the messages, in order.
            is_together: they must lie in one file (`put_batch`).

        Returns:
            (queue offset, physical offset, size) of each, in order.

        Raises:
            StoreFull, StoreReadOnly, StoreClosed, StorePoisoned: none of them was stored, and
                why.
            RecordIllegal: one of them cannot be stored; none was.
        """
        if not puts and self.flags.refusal is None:
            return []
        return self._put(
            lambda some: self._appender.append(some, is_together=is_together), puts
        ).results

    def put_columns(self, sends: Columns) -> int:
        """Append plain sends, not where properties get a CRC; they know then where they lie. Gives the end behind them."""
        return self._put(self._appender.append_columns, sends)[0]

    def _put(self, append: Callable[..., Batch], given: Sequence[Put] | Columns) -> Batch:
        if self.flags.refusal is not None:
            raise self._acceptance.refusal()
        if self._appender.is_copy:
            raise StoreReadOnly("this broker is a slave; send to its master")
        if self.positions.dispatched < self._dispatcher.raw_end:
            raise StoreBusy("records that came as bytes of the log are not confirmed yet")
        try:
            batch = append(given)
        except StoreFull as error:
            self._upkeep.room.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        self._dispatcher.waiting.append(batch)
        return batch

    def put_batch(self, puts: Sequence[Put]) -> list[PutResult]:
        """Append the messages of a batch message: the same, in one file.

        Raises:
            StoreError: as `put_many`; RecordIllegal when they do not fit into one file.
        """
        return self.put_many(puts, is_together=True)

    # --- bytes of the log

    def append_raw(self, offset: int, content: Buffer) -> int:
        """Append bytes of another broker's log.

        Args:
            offset: physical offset of the first: where this log ends, or where the last answer said. An empty
                log may begin at the start of any file.
            content: whole records, and what is there of one behind them; nobody may change them before they are dispatched.

        Returns:
            Physical offset up to which they were taken, at most to the end of a file: behind the last whole record, or
            within or behind the file's blank end, which counts for nothing until a record follows.

        Raises:
            StoreFull, StoreReadOnly, StoreClosed, StorePoisoned: nothing was taken, and why.
            RecordIllegal: they belong elsewhere, or are no records; nothing was taken.
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

    def truncate_steps(self, end: int) -> Generator[Step, None, None]:
        """Take back the log from a record on, and its entries in queues and index; a copy stays in `cut`.

        Each step that this yields is done in a thread that may wait, and has ended before the next is
        asked for, on the thread that owns the store. Until the last one has ended nothing is taken or
        flushed, and readers find no message behind the new end. All of them must be taken: who gives up
        behind the copy has ended the store.

        Args:
            end: physical offset at which a record begins.

        Raises:
            RecordIllegal: none begins there.
            StoreBusy: a flush, a checkpoint or cleaning is under way; try again when it has ended.
            StoreError: no copy could be kept; nothing has changed.
            StorePoisoned: the disk failed; a restart finds the log with the old end or the new one.
        """
        return self._truncation.steps(end)

    def truncate(self, end: int) -> None:
        """Take all steps of `truncate_steps` here and now, waiting for the device."""
        for step in self._truncation.steps(end):
            step()

    def _write_failed(self, error: OSError) -> StoreError:
        """Judge a write that failed: wait for what is lacking, or never write again."""
        if lack_of(error) is not None:
            reason = failed("the log cannot be written", error)
            self._upkeep.room.file_failed(f"{reason}; sending goes on when it can")
            return StoreFull(self.flags.refusal)
        return self.poison(f"the log cannot be written ({error.strerror or error})")

    # --- visible

    @property
    def on_arrival(self) -> OnArrival | None:
        """Told (queue, tags codes) when a queue with `watched` set has new messages."""
        return self._directory.derived_queues.on_arrival

    @on_arrival.setter
    def on_arrival(self, on_arrival: OnArrival | None) -> None:
        self._directory.derived_queues.on_arrival = on_arrival

    # --- search

    def search(
        self, topic: str, key: str, *, max_count: int, begin_ms: int = 0, end_ms: int = ALL_TIME
    ) -> MessageSearch:
        """Prepare a search for messages by a key; its `run` may be called in any thread.

        Args:
            topic: of the messages.
            key: a word of their KEYS, or their unique key.
            max_count: most of them, the newest; maxMsgsNumBatch holds, too.
            begin_ms: stored at this time or later, ms since 1970.
            end_ms: stored at this time or earlier.
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
        """Remove a topic's queues; its records stay in the log until that file goes.

        The name may be a peer's: what no directory can be called has no queues, and leads to nobody else's.

        Raises:
            StoreBusy: the log is being truncated.
            OSError: a file could not be removed.
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
        """Remove one queue; its records stay in the log until that file goes.

        Raises:
            StoreBusy: the log is being truncated.
            OSError: a file could not be removed.
        """
        self._acceptance.check_free()
        if isinstance(queue, BatchQueue):
            self._directory.batches.delete_queue(queue)
            return
        self._upkeep.forget_entries(queue.max_offset)
        self._queues.delete_queue(queue)

    def sweep(self) -> None:
        """Remove the empty directories of topics that are deleted.

        Raises:
            StoreBusy: the log is being truncated.
            OSError: one could not be removed.
        """
        self._acceptance.check_free()
        self._queues.sweep()

    @property
    def needs_restart(self) -> bool:
        """Whether no message will be taken any more: unlike a full disk, that does not pass."""
        return self._background.needs_restart

    @property
    def was_clean(self) -> bool:
        """Whether the stop before this start was clean, so that the log has lost nothing."""
        return self._directory.was_clean

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest log file."""
        return self._log.chain.start

    @property
    def max_offset(self) -> int:
        """Physical offset behind the last record."""
        return self.positions.written

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is known to be on the device."""
        return self.positions.flushed

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which messages are visible."""
        return self.positions.dispatched
