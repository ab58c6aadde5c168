"""What a store has to do besides: flushes, files ahead, checkpoints; its owner lends the threads.

- each 100 ms at most: `tick`.
- `flush_target` says that a flush is due; it runs in the flusher thread (`flush_files`) and ends
  in `flushed` or `flush_failed`.
- `file_ahead_needed` and `checkpoint_due` give jobs for the file maker's thread (`make_file`,
  `CheckpointJob.run`), which end in `adopt` and `checkpointed`.
- `clean_due` gives steps for any thread that may wait, one after the other.

Everything else runs on the thread that owns the store.

Next: cometmq.store.flushing
"""

import logging
from collections.abc import Callable

from cometmq.model.clock import Clock
from cometmq.model.errors import StorePoisoned
from cometmq.store.acceptance import Acceptance
from cometmq.store.appender import Appender
from cometmq.store.checkpoint import CheckpointJob
from cometmq.store.cleaner import Cleaner
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.derived import Step
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import NO_DESCRIPTOR, Disk, failed, lack_of
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.files_ahead import FilePlan
from cometmq.store.flushing import Flushing
from cometmq.store.index import Index
from cometmq.store.index_file import IndexShape
from cometmq.store.index_loading import DerivedIndex
from cometmq.store.position_waiters import OnDone
from cometmq.store.read_side import ReadSide
from cometmq.store.running_flags import Flag
from cometmq.store.settings import IndexSettings, StoreSettings
from cometmq.store.upkeep import Upkeep

logger = logging.getLogger(__name__)


class Background(ReadSide):
    """The recurring work of `cometmq.store.message_store.MessageStore`.

    Attributes:
        settings: what the store was opened with.
        positions: how far its log is written, confirmed, visible.
        flags: why it takes no message at present (RocketMQ's running flags).
        room: how full its disks were at the last look.
        cleaner: lets old files go.
        index: finds messages by their keys.
        on_stuck: told of a topic one of whose queues cannot be written (`ConsumeQueue.fault`).
    """

    _failed_ahead = (
        -1
    )  # Start of the log file of which it was said that it could not be made ahead.

    def __init__(
        self, directory: StoreDirectory, settings: StoreSettings, *, clock: Clock, disk: Disk
    ) -> None:
        super().__init__(directory, settings)
        self.settings = settings
        self._clock = clock
        self._commit_at = 0.0
        self.on_stuck: Callable[[str], None] = lambda _topic: None
        self._acceptance = Acceptance()
        self.flags = self._acceptance.flags
        self._appender = Appender(self._log, settings, clock)
        self._dispatcher = LogDispatcher(self.positions, directory.derived)
        self.index = self._make_index(directory, settings.index, clock=clock, disk=disk)
        self._flushing = Flushing(self._log, settings, clock)
        self._upkeep = Upkeep(
            settings,
            clock,
            flushing=self._flushing,
            dispatcher=self._dispatcher,
            derived=directory.derived,
            queues=self._queues,
            index=self.index,
            checkpoints=directory.checkpoints,
            flags=self.flags,
        )
        self.room = self._upkeep.room
        self.cleaner = Cleaner(
            disk,
            settings,
            clock,
            log=self._log,
            derived=directory.derived,
            checkpoints=directory.checkpoints,
            room=self.room,
        )
        self._queues.on_stuck = self._queue_stuck

    def _queue_stuck(self, queue: ConsumeQueue) -> None:
        self._upkeep.queue_stuck(queue)
        self.on_stuck(queue.topic)

    def _make_index(
        self, directory: StoreDirectory, settings: IndexSettings, *, clock: Clock, disk: Disk
    ) -> Index:
        """The index, which dispatch builds and recovery fills."""
        shape = IndexShape(settings.slots, settings.entries)
        index = Index(disk, f"{directory.path}/index", shape, clock=clock)
        self._derived_index = DerivedIndex(
            disk,
            index,
            log=directory.log,
            checkpoints=directory.checkpoints,
            settings=settings,
            read_only=directory.read_only,
        )
        directory.derived.append(self._derived_index)
        return index

    def dispatch_pending(self) -> None:
        """Make visible what is confirmed (`Positions`)."""
        self._dispatcher.dispatch()

    # --- flush

    def wait_confirmed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is confirmed up to an offset, or will not be in time.

        Args:
            end_offset: physical offset behind the last record waited for.
            on_done: given OK, or why not: a flush failed, or syncFlushTimeout is over.
        """
        self._flushing.wait_confirmed(end_offset, on_done)

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is on the device up to an offset, whatever confirms a message.

        Args:
            end_offset: physical offset behind the last record waited for.
            on_done: given OK, or DISK_LATE.
        """
        self._flushing.wait_flushed(end_offset, on_done)

    def flush_target(self) -> int | None:
        """Up to which physical offset a flush is due; None while none is, or one is under way."""
        if self._acceptance.is_over:
            return None
        return self._flushing.target(self._appender.store_ms)

    def flush_files(self, upto: int) -> None:
        """Bring the log to the device up to an offset. Any thread, one at a time.

        Raises:
            OSError: it failed, which is final: call `flush_failed`.
        """
        self._flushing.flush_files(upto)

    def flushed(self, upto: int) -> bool:
        """A flush has ended: tell who waited, and show what is on disk now; gives whether one waited, alone."""
        is_alone = self._flushing.done(upto)
        self.dispatch_pending()
        return is_alone

    def flush_failed(self, error: OSError) -> None:
        """A flush failed; it is not tried again, for the next one would prove nothing."""
        if error.errno in NO_DESCRIPTOR:  # It has not begun: no sync says this.
            self._flushing.put_off()
            return
        self.poison(f"a flush of the log failed ({error.strerror or error})")

    # --- files ahead, checkpoints, timer

    def file_ahead_needed(self) -> FilePlan | None:
        """The next log file to be made, when it is time; cheap to ask."""
        if self.flags.refusal is not None:
            return None
        return self._log.ahead.needed(self.positions.written)

    def make_file(self, plan: FilePlan) -> Exception | None:
        """Make it; gives why it could not be made. Any thread; raises nothing."""
        return self._log.ahead.make(plan)

    def adopt(self, plan: FilePlan, error: Exception | None) -> None:
        """The plan has been carried out. One that failed is tried again when a put needs it."""
        if error is None:
            self._log.ahead.plan_done()
        elif plan.start != self._failed_ahead:  # It is tried again each second.
            self._failed_ahead = plan.start
            logger.warning("The log file %s could not be made ahead: %s", plan.paths[0], error)
        if error is not None:
            self._upkeep.file_ahead_failed()

    def checkpoint_due(self) -> CheckpointJob | None:
        """A checkpoint to be made, when there is one."""
        return self._upkeep.checkpoint_due()

    def checkpointed(self, job: CheckpointJob) -> None:
        """A checkpoint's job has run."""
        self._upkeep.checkpointed(job)

    def clean_due(self) -> Step | None:
        """The next step of letting old files go, when there is one; the one before has ended."""
        return None if self._acceptance.is_over else self.cleaner.due()

    def tick(self) -> None:
        """What is due: late waiters, tails to write, a look at the disk. Each 100 ms or so."""
        self._flushing.expire()
        if not self._acceptance.is_over:
            self._commit_staged()
            self._upkeep.tick()

    def _commit_staged(self) -> None:
        """Write what waits in the transient pool, when it is time, and show it."""
        now = self._clock.monotonic()
        if self.positions.committed == self.positions.written or now < self._commit_at:
            return
        self._commit_at = now + self.settings.commit_interval_ms / 1000
        try:
            self._log.commit_staged()
        except OSError as error:
            if lack_of(error) is not None:  # All of it waits still.
                reason = failed("the log cannot be written", error)
                self._upkeep.room.file_failed(f"{reason}; sending goes on when it can")
                return
            self.poison(f"the log cannot be written ({error.strerror or error})")
        else:
            self.dispatch_pending()

    def refuse_for_now(self, reason: str) -> None:
        """Take no message until `take_again`; senders are told to go elsewhere."""
        self._acceptance.pause(reason)

    def take_again(self) -> None:
        """Take messages again, unless something else forbids it."""
        self._acceptance.resume()

    @property
    def needs_restart(self) -> bool:
        """Whether no message will be taken any more: unlike a full disk, that does not pass."""
        return self._acceptance.is_over or self.flags.has(Flag.QUEUE_ERROR)

    def poison(self, reason: str) -> StorePoisoned:
        """Never call anything durable again; who waits is told."""
        error = self._acceptance.poison(reason)
        self._flushing.fail()
        return error
