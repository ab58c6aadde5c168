"""The front door of the store: open, put, flush, get, close.

One thread owns a store (the broker's loop) and calls everything here, but for what is marked "any
thread"; the store itself starts none. The owner's round is:

- frames arrived: `put_many`, write the answers, `dispatch_pending`; what is not confirmed then
  (`positions`) waits by `wait_confirmed`, which calls back when the answers may be written.
- a timer (100 ms at most): what `cometmq.store.background` says.
- a pull: `get`; a result that is cold is finished by calling `result.cold()` in a reader thread.

Whole batches are refused with a StoreError whose text is for the sender. A failed flush is final
(docs/design/0004): nothing is taken until a restart has looked at what is really there.

Next: cometmq.store.appender
"""

import logging
from collections.abc import Sequence
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
from cometmq.store.appender import Put, PutResult
from cometmq.store.background import Background
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.derived_queues import OnArrival
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Buffer, Disk, failed, lack_of
from cometmq.store.message_search import MessageSearch
from cometmq.store.raw_log import RawLog
from cometmq.store.real_disk import RealDisk
from cometmq.store.running_flags import Flag
from cometmq.store.settings import StoreSettings
from cometmq.store.truncation import Truncation

logger = logging.getLogger(__name__)

__all__ = ["MessageStore", "Put", "PutResult"]

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE, which clients send.
# A frame has 16 MiB at most; a header needs the rest.
ANSWER_BYTES_MAX = FRAME_SIZE_MAX - (64 << 10)


class MessageStore(Background):
    """A store directory that is open. Made by `MessageStore.open`.

    Attributes:
        settings: what it was opened with.
        flags: why it takes no message at present (RocketMQ's running flags).
    """

    def __init__(
        self, path: str, settings: StoreSettings, *, clock: Clock, disk: Disk, read_only: bool
    ) -> None:
        self._directory = StoreDirectory(path, settings, disk=disk, read_only=read_only)
        super().__init__(self._directory, settings, clock=clock, disk=disk)
        self._read_only = read_only
        self._raw = RawLog(self._log, settings)
        self._truncation = Truncation(
            disk,
            self._directory,
            settings,
            dispatcher=self._dispatcher,
            index=self._derived_index,
        )
        self._is_closed = False

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

        Flush, file and checkpoint jobs that are under way must have ended. Where something
        cannot be brought to the device the directory stays marked, and the next start looks.
        """
        if self._is_closed:
            return
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
        end = self.positions.written
        self.flush_files(end)
        self._flushing.done(end, store_ms=self._appender.store_ms)
        self._dispatcher.dispatch()
        self._queues.write_all()
        self.index.write_all()
        if self.flags.has(Flag.QUEUE_ERROR):
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
        """This broker's address in records, 8 or 20 bytes; set before the first put."""
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
        """Why messages are refused at present; None when they are not."""
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
        if self.flags.refusal is not None:
            raise self._acceptance.refusal()
        if not puts:
            return []
        if self.positions.dispatched < self._dispatcher.raw_end:
            raise StoreBusy("records that came as bytes of the log are not confirmed yet")
        try:
            batch = self._appender.append(puts, is_together=is_together)
        except StoreFull as error:
            self._upkeep.room.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        self._dispatcher.waiting.append(batch)
        return batch.results

    def put_batch(self, puts: Sequence[Put]) -> list[PutResult]:
        """Append the messages of a batch message: the same, in one file.

        Raises:
            StoreError: as `put_many`; RecordIllegal when they do not fit into one file.
        """
        return self.put_many(puts, is_together=True)

    # --- bytes of the log

    def append_raw(self, offset: int, content: bytes) -> int:
        """Append bytes of another broker's log.

        Args:
            offset: physical offset of the first: where this log ends. An empty log may begin at the
                start of any file.
            content: whole records, and what is there of one behind them.

        Returns:
            Physical offset behind the last whole record, up to which they were taken.

        Raises:
            StoreFull, StoreReadOnly, StoreClosed, StorePoisoned: nothing was taken, and why.
            RecordIllegal: they belong elsewhere, or are no records; nothing was taken.
        """
        if self.flags.refusal is not None:
            raise self._acceptance.refusal()
        try:
            batch = self._raw.append(offset, content)
        except StoreFull as error:
            self._upkeep.room.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        if batch is None:
            return offset
        self._appender.store_ms = batch.store_ms
        self._dispatcher.waiting.append(batch)
        self._dispatcher.raw_end = batch.end_offset
        return batch.end_offset

    def read_log(self, offset: int, size_max: int) -> Buffer | None:
        """Bytes of the log (see `RawLog.read`). May wait for the device; any thread."""
        return self._raw.read(offset, size_max)

    def truncate(self, end: int) -> None:
        """Take back the log from a record on, and its entries in queues and index; a copy stays in `cut`.

        It waits for the device: nothing else is done meanwhile.

        Args:
            end: physical offset at which a record begins.

        Raises:
            RecordIllegal: none begins there.
            StoreBusy: a flush or a checkpoint is under way; try again when it has ended.
            StoreError: no copy could be kept; nothing has changed.
            StorePoisoned: the disk failed; a restart finds the log with the old end or the new one.
        """
        if self._acceptance.is_over:
            raise self._acceptance.refusal()
        if self._upkeep.is_job_out or self._flushing.is_under_way:
            raise StoreBusy("a flush or a checkpoint is under way")
        if end == self.positions.written:
            return
        try:
            self._log.commit_staged()
            self._log.mend()
            self._truncation.check(end)
            self._truncation.keep_copy(end)
        except OSError as error:
            reason = failed(f"the log cannot be truncated to {end}", error)
            raise StoreError(f"{reason}; nothing has changed") from error
        try:
            store_ms = self._truncation.run(end)
        except OSError as error:
            raise self.poison(
                f"the log could not be truncated to {end} ({error.strerror or error})"
            ) from error
        self._upkeep.go_back(store_ms)
        self._flushing.go_back(end, store_ms)

    def _write_failed(self, error: OSError) -> StoreError:
        """What a write that failed means: wait for what is lacking, or never write again."""
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
            begin_ms: from this store time on; the index knows times to the second.
            end_ms: up to this store time.
        """
        wanted = self.index.search(
            topic,
            key,
            max_count=min(max_count, self.settings.index.answer_count_max),
            begin_ms=begin_ms,
            end_ms=end_ms,
        )
        return MessageSearch(wanted, self.read_record, bytes_max=ANSWER_BYTES_MAX)

    # --- delete, positions

    def delete_topic(self, topic: str) -> None:
        """Remove a topic's queues; its records stay in the log until that file goes.

        Raises:
            OSError: a file could not be removed.
        """
        queues = self._queues.of_topic(topic)
        self._upkeep.forget_entries(sum(queue.max_offset for queue in queues))
        self._queues.delete_topic(topic)
        self._batches.delete_topic(topic)
        self._extended.delete_topic(topic)

    def delete_queue(self, queue: ConsumeQueue) -> None:
        """Remove one queue; its records stay in the log until that file goes.

        Raises:
            OSError: a file could not be removed.
        """
        if isinstance(queue, BatchQueue):
            self._batches.delete_queue(queue)
            return
        self._upkeep.forget_entries(queue.max_offset)
        self._queues.delete_queue(queue)

    def sweep(self) -> None:
        """Remove the empty directories of topics that are deleted.

        Raises:
            OSError: one could not be removed.
        """
        self._queues.sweep()

    @property
    def committed_offset(self) -> int:
        """Physical offset up to which the log is in its files; less with a transient pool."""
        return self.positions.committed

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is known to be on the device."""
        return self.positions.flushed

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which messages are visible."""
        return self.positions.dispatched
