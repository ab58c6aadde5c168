"""The front door of the store: open, put, flush, get, close.

One thread owns a store (the broker's loop) and calls everything here, but for what is marked "any
thread"; the store itself starts none. The owner's round is:

- frames arrived: `put_many`, write the answers, `dispatch_pending`; with synchronous flush
  `wait_flushed` instead, which calls back when the answers may be written.
- a timer (100 ms at most): `tick`; `flush_target`, whose flush runs in the flusher thread
  (`flush_files`) and ends in `flushed` or `flush_failed`; `file_ahead_needed` and
  `checkpoint_due`, whose jobs run in the file maker's thread (`make_file`, `CheckpointJob.run`)
  and end in `adopt` and `checkpointed`.
- a pull: `get`; a result that is cold is finished by calling `result.cold()` in a reader thread.

Whole batches are refused with a StoreError whose text is for the sender. A failed flush is final
(docs/design/0004): nothing is taken until a restart has looked at what is really there.

Next: cometmq.store.appender
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.model.clock import Clock
from cometmq.model.errors import (
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StorePoisoned,
    StoreReadOnly,
)
from cometmq.store.appender import Appender, Put, PutResult
from cometmq.store.checkpoint import CheckpointFiles, CheckpointJob
from cometmq.store.commitlog import CommitLog, FilePlan
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Disk, RealDisk
from cometmq.store.dispatch import Dispatcher, OnArrival
from cometmq.store.flushing import Flushing
from cometmq.store.group_flush import OnDone
from cometmq.store.lock import AbortMarker, DirectoryLock
from cometmq.store.log_file import NO_ROOM
from cometmq.store.queue_files import QueueFiles
from cometmq.store.read_side import ReadSide
from cometmq.store.recovery import Recovery
from cometmq.store.running_flags import Flag, RunningFlags
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep import Upkeep

logger = logging.getLogger(__name__)

__all__ = ["MessageStore", "Put", "PutResult"]


class MessageStore(ReadSide):
    """A store directory that is open. Made by `MessageStore.open`.

    Attributes:
        settings: what it was opened with.
        flags: why it takes no message at present (RocketMQ's running flags).
    """

    def __init__(
        self, path: str, settings: StoreSettings, *, clock: Clock, disk: Disk, read_only: bool
    ) -> None:
        self.settings = settings
        self.flags = RunningFlags()
        self._read_only = read_only
        self._is_closed = False
        self._refused_as: type[StoreError] = StoreFull
        self._lock = DirectoryLock(disk, path)
        self._abort = AbortMarker(disk, path)
        self._disk = disk
        self._path = path
        log = CommitLog(disk, settings.commitlog_path or f"{path}/commitlog", settings)
        files = QueueFiles(disk, f"{path}/consumequeue", settings.queue_entries_per_file)
        super().__init__(log, ConsumeQueues(files, read_only=read_only), settings)
        self._checkpoints = CheckpointFiles(disk, path)
        self._appender = Appender(
            self._log, clock=clock, delay_levels_ms=settings.delay_levels_ms
        )
        self._dispatcher = Dispatcher(self._queues)
        self._flushing = Flushing(self._log, settings, clock)
        self._upkeep = Upkeep(
            disk,
            settings,
            clock,
            flushing=self._flushing,
            dispatcher=self._dispatcher,
            checkpoints=self._checkpoints,
            flags=self.flags,
        )
        self._dispatcher.on_queue_error = self._upkeep.queue_write_failed

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
            store._recover()
        except BaseException:
            store._release()
            raise
        return store

    def _recover(self) -> None:
        """Take the directory and find out what is in it."""
        log_directory = self._log.chain.directory
        if not self._read_only:
            for name in ("consumequeue", "config"):
                self._disk.make_directory(f"{self._path}/{name}")
            self._disk.make_directory(log_directory)
            self._disk.sync_directory(self._path)
            self._lock.take()
        elif not self._disk.exists(log_directory):
            raise StoreDamaged(f"{log_directory} is not there: {self._path} is no store")
        is_clean = not self._abort.is_set()
        self._checkpoints.load()
        self._log.chain.load(read_only=self._read_only)
        if not self._read_only:
            self._abort.set()
        recovery = Recovery(
            self._disk,
            self.settings,
            log=self._log,
            queues=self._queues,
            checkpoints=self._checkpoints,
            read_only=self._read_only,
        )
        end, store_ms, damage = recovery.run(is_clean=is_clean)
        self._log.written = self._log.flushed = self._log.warm_start = end
        self._dispatcher.dispatched = end
        self._dispatcher.dispatched_ms = self._flushing.flushed_ms = store_ms
        if damage is not None:
            logger.error("%s", damage)
        if damage is not None or self._read_only:
            self._refuse(StoreReadOnly, damage or "the store was opened for reading only")
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
            if self._refused_as is StoreFull:
                self._settle()
        except OSError as error:
            logger.critical("The store could not be closed cleanly: %s", error)
        finally:
            self._refuse(StoreClosed, "the store is closed")
            self._is_closed = True
            self._flushing.fail()
            self._release()

    def _settle(self) -> None:
        """Flush, write and sync all there is; then remove the abort marker."""
        end = self._log.written
        self.flush_files(end)
        self._flushing.done(end, store_ms=self._appender.store_ms)
        self._dispatcher.dispatch(end)
        self._queues.write_all()
        if self.flags.has(Flag.QUEUE_ERROR):
            return  # A sync of a queue file failed; none after it proves anything.
        job = self._upkeep.job(self._upkeep.progress(), self._upkeep.times())
        job.run()
        if job.error is not None:
            raise job.error
        self._abort.clear()

    def _release(self) -> None:
        """Close every file and give the directory up."""
        try:
            self._queues.files.close()
            self._log.close()
        finally:
            self._lock.release()

    def _refuse(self, kind: type[StoreError], reason: str) -> None:
        """Take no message for good."""
        self._refused_as = kind
        self.flags.raise_flag(Flag.NOT_WRITABLE, reason)

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
        """The queue that puts name; made when it is missing. Worth keeping until `deleted`."""
        return self._queues.find_or_make(topic, queue_id)

    def put_many(self, puts: Sequence[Put]) -> list[PutResult]:
        """Append messages; one write for all of them.

        Returns:
            (queue offset, physical offset, size) of each, in order.

        Raises:
            StoreFull, StoreReadOnly, StoreClosed, StorePoisoned: none of them was stored, and
                why.
            RecordIllegal: one of them cannot be stored; none was.
        """
        return self._put(puts, is_together=False)

    def put_batch(self, puts: Sequence[Put]) -> list[PutResult]:
        """Append the messages of a batch message: the same, in one file.

        Raises:
            StoreError: as `put_many`; RecordIllegal when they do not fit into one file.
        """
        return self._put(puts, is_together=True)

    def _put(self, puts: Sequence[Put], *, is_together: bool) -> list[PutResult]:
        if self.flags.refusal is not None:
            raise self._refused_as(self.flags.refusal)
        if not puts:
            return []
        try:
            results, batch = self._appender.append(puts, is_together=is_together)
        except StoreFull as error:
            self._upkeep.file_failed(str(error))
            raise
        except OSError as error:
            raise self._write_failed(error) from error
        log = self._log
        self._dispatcher.add(batch, end_offset=log.written, store_ms=self._appender.store_ms)
        return results

    def _write_failed(self, error: OSError) -> StoreError:
        """What a write that failed means: wait for room, or never write again."""
        if error.errno in NO_ROOM:
            self._upkeep.file_failed(
                f"disk full: {error.strerror}; free space and sending goes on"
            )
            return StoreFull(self.flags.refusal)
        self._poison(f"the log cannot be written ({error.strerror or error})")
        return StorePoisoned(self.flags.refusal)

    def _poison(self, reason: str) -> None:
        """Never call anything durable again; who waits is told."""
        logger.error("%s; the store takes no message until a restart has scanned it", reason)
        self._refuse(StorePoisoned, f"{reason}; restart the broker when the disk is well")
        self._flushing.fail()

    # --- visible

    @property
    def on_arrival(self) -> OnArrival | None:
        """Told (queue, tags codes) when a queue with `watched` set has new messages."""
        return self._dispatcher.on_arrival

    @on_arrival.setter
    def on_arrival(self, on_arrival: OnArrival | None) -> None:
        self._dispatcher.on_arrival = on_arrival

    def dispatch_pending(self) -> None:
        """Make visible what may be: what is written, or with synchronous flush on disk."""
        log = self._log
        self._dispatcher.dispatch(log.flushed if self.settings.flush_sync else log.written)

    # --- flush

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is on disk up to an offset, or will not be in time.

        Args:
            end_offset: physical offset behind the last record waited for.
            on_done: given True, or False when a flush failed or syncFlushTimeout is over.
        """
        self._flushing.wait(end_offset, on_done)

    def flush_target(self) -> int | None:
        """Up to which physical offset a flush is due; None while none is, or one is under way."""
        if self._refused_as is not StoreFull:
            return None
        return self._flushing.target(self._appender.store_ms)

    def flush_files(self, upto: int) -> None:
        """Bring the log to the device up to an offset. Any thread, one at a time.

        Raises:
            OSError: it failed, which is final: call `flush_failed`.
        """
        self._flushing.flush_files(upto)

    def flushed(self, upto: int) -> None:
        """A flush has ended: tell who waited, and show what is on disk now."""
        self._flushing.done(upto)
        self.dispatch_pending()

    def flush_failed(self, error: OSError) -> None:
        """A flush failed; it is not tried again, for the next one would prove nothing."""
        self._poison(f"a flush of the log failed ({error.strerror or error})")

    # --- files ahead, checkpoints, timer

    def file_ahead_needed(self) -> FilePlan | None:
        """The next log file to be made, when it is time; cheap to ask."""
        return None if self.flags.refusal is not None else self._log.file_ahead_needed()

    def make_file(self, plan: FilePlan) -> Exception | None:
        """Make it; gives why it could not be made. Any thread; raises nothing."""
        return self._log.make_file(plan)

    def adopt(self, plan: FilePlan, error: Exception | None) -> None:
        """The plan has been carried out. One that failed is tried again when a put needs it."""
        if error is None:
            self._log.plan_done()
        else:
            logger.warning("The log file %s could not be made ahead: %s", plan.path, error)
            self._upkeep.file_ahead_failed()

    def checkpoint_due(self) -> CheckpointJob | None:
        """A checkpoint to be made, when there is one."""
        return self._upkeep.checkpoint_due()

    def checkpointed(self, job: CheckpointJob) -> None:
        """A checkpoint's job has run."""
        self._upkeep.checkpointed(job)

    def tick(self) -> None:
        """What is due: late waiters, tails to write, a look at the disk. Each 100 ms or so."""
        self._flushing.expire()
        if self._refused_as is StoreFull:
            self._upkeep.tick()

    # --- delete, positions

    def delete_topic(self, topic: str) -> None:
        """Remove a topic's queues; its records stay in the log until that file goes.

        Raises:
            OSError: a file could not be removed.
        """
        self._upkeep.forget_entries(sum(queue.max_offset for queue in self.queues_of(topic)))
        self._queues.delete_topic(topic)

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is known to be on the device."""
        return self._log.flushed

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which messages are visible."""
        return self._dispatcher.dispatched
