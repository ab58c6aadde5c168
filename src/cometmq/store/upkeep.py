"""Upkeep of a store: writes queue entries, plans checkpoints, checks the disk, and resumes accepting messages.

The broker's timer calls `tick`, which does a little work each time. If the disk is full (a file cannot be made,
entries cannot be written, or `df` reports it), new messages are refused, with a reason, and reads go on. Once a second,
a tick checks whether there is room again. (RocketMQ deletes unread messages in this case; we do only with
cleanFileForciblyEnable=true: docs/compatibility.md.)
"""

import logging

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.clock import Clock
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointJob, Progress
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import failed
from cometmq.store.disk_room import DiskRoom
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.flushing import Flushing
from cometmq.store.index import Index
from cometmq.store.running_flags import RunningFlag, RunningFlags
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

DISK_LOOK_INTERVAL_S = 1.0
# A checkpoint syncs each written queue, so the pause after it is at least this many times its duration.
CHECKPOINT_SHARE = 10
# Time for writing tails in a tick of 50 ms: a fifth of it while messages arrive, half of it while none do.
TAILS_SECONDS_PER_TICK = 0.01
TAILS_SECONDS_IDLE = 0.025


class Upkeep:
    """The store's recurring work, driven by `tick` on the thread that owns the store."""

    _is_job_late = False  # Whether a waiting checkpoint was logged.

    def __init__(
        self,
        directory: StoreDirectory,
        settings: StoreSettings,
        clock: Clock,
        *,
        flushing: Flushing,
        dispatcher: LogDispatcher,
        index: Index,
        flags: RunningFlags,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._flushing = flushing
        self._log = directory.log
        self._positions = directory.log.positions
        self._derived = directory.derived
        self._queues = directory.queues
        self._dispatcher = dispatcher
        self._index = index
        self._checkpoints = directory.checkpoints
        self._flags = flags
        self.room = DiskRoom(directory, settings, flags)
        self._is_plan_given_up = False
        self._disk_look_at = self._checkpoint_at = self._job_began = 0.0
        self._job_out: CheckpointJob | None = None
        self._job_put_off: CheckpointJob | None = None  # Postponed, to be retried.
        self._is_checkpoint_over = False
        self._dispatched_before = -1
        self._noted: tuple[Progress, Checkpoint] | None = None  # State when the round began.
        # The same state once the round has finished.
        self._ready: tuple[Progress, Checkpoint] | None = None

    def tick(self) -> None:
        """Write due entries, copy index slots for a checkpoint; once a second, check the disk, retry stuck queues."""
        now = self._clock.monotonic()
        self._index.tick()
        if self._queues.dirty or self._is_in_round or self._is_checkpoint_old():
            self._write_tails(now)
        if now >= self._disk_look_at:
            self._disk_look_at = now + DISK_LOOK_INTERVAL_S
            if self._is_plan_given_up:
                self._is_plan_given_up = False
                self._log.ahead.plan_done()
            self.room.judge()
            self._log.forget_cold_views()
            self._write_stuck()

    @property
    def is_at_rest(self) -> bool:
        """Whether `tick` has only its checks once a second to do until something is dispatched or flushed."""
        has_job = self._ready or self._job_out or self._job_put_off or self._is_plan_given_up
        has_tails = self._queues.dirty or self._is_in_round or self._index.has_work
        return not (has_job or has_tails or self._is_checkpoint_old())

    def _write_stuck(self) -> None:
        try:
            self._queues.write_stuck()
        except OSError as error:
            self.queue_write_failed(error)

    @property
    def _is_in_round(self) -> bool:
        return self._queues.is_in_round or self._index.is_in_round

    def _is_checkpoint_old(self) -> bool:
        """Return whether anything changed since the last checkpoint, if only by a flush."""
        return self.progress() != (self._checkpoints.progress or NOTHING_DONE)

    def _write_tails(self, now: float) -> None:
        """Begin a round if it is due, or continue it: write queue entries, copy index slots, and offer a checkpoint."""
        if not self._is_in_round:
            is_mending = self._flags.has(RunningFlag.QUEUE_DISK_FULL)
            if (now < self._checkpoint_at or self._ready is not None) and not is_mending:
                return
            if self._index.is_failing:
                return  # It lacks keys of dispatched messages.
            self._noted = (self.progress(), self.times())
            self._queues.begin_round()
        try:
            if self._queues.is_in_round:
                if not self._continue_tails(now):
                    return
                self._flags.clear(RunningFlag.QUEUE_DISK_FULL)
                self._index.begin_round()
            if self._index.continue_round():
                self._make_ready()
        except OSError as error:
            self.queue_write_failed(error)

    def _continue_tails(self, now: float) -> bool:
        """Write queue entries within this tick's time; return True if all queues of the round were tried; may raise OSError."""
        is_idle = self._positions.dispatched == self._dispatched_before
        self._dispatched_before = self._positions.dispatched
        deadline = now + (TAILS_SECONDS_IDLE if is_idle else TAILS_SECONDS_PER_TICK)
        return self._queues.continue_round(
            lambda: self._clock.monotonic() >= deadline, is_spread=not is_idle
        )

    def queue_write_failed(self, error: OSError) -> None:
        """Refuse messages because queue entries could not be written; they are kept in memory and retried."""
        if not self._flags.has(RunningFlag.QUEUE_DISK_FULL):
            logger.error("Queue entries cannot be written: %s; sends are refused", error)
        self._flags.raise_flag(
            RunningFlag.QUEUE_DISK_FULL,
            f"{failed('queue entries cannot be written', error)}; they are kept in memory, "
            "and sending continues when writing succeeds",
        )

    def queue_stuck(self, queue: ConsumeQueue) -> None:
        """Exclude the entries that a queue cannot write to its files from the checkpoint of the current round."""
        if self._noted is not None:
            count = len(queue.tail) // QUEUE_ENTRY_SIZE
            self._noted = (self._noted[0].without(count), self._noted[1])

    def index_write_failed(self, error: OSError) -> None:
        """Refuse messages because the index could not be written; it is kept in memory and retried."""
        if not self._flags.has(RunningFlag.INDEX_ERROR):
            logger.error("The index cannot be written: %s; sends are refused", error)
        self._flags.raise_flag(
            RunningFlag.INDEX_ERROR,
            f"{failed('the index cannot be written', error)}; it is kept in memory, and "
            "sending continues when writing succeeds",
        )

    def index_written(self) -> None:
        """End the refusal of messages that `index_write_failed` began, because the index could be written again."""
        self._flags.clear(RunningFlag.INDEX_ERROR)

    def progress(self) -> Progress:
        """Return how far messages are dispatched, flushed and indexed, for a checkpoint."""
        return Progress(
            self._positions.dispatched,
            self._positions.flushed,
            self._queues.writable_entries,
            *self._index.mark(),
            log_ms=self.times().log_timestamp,
        )

    def times(self) -> Checkpoint:
        """Return the store times up to which messages are flushed, dispatched and indexed, for Java's checkpoint.

        The first two follow a clock that is set back, so that Java's recovery then checks more.
        """
        known = self._checkpoints.times
        return Checkpoint(
            log_timestamp=self._flushing.flushed_ms or known.log_timestamp,
            queue_timestamp=self._dispatcher.dispatched_ms or known.queue_timestamp,
            index_timestamp=max(self._index.full_ms(), known.index_timestamp),
        )

    def _make_ready(self) -> None:
        """Offer the state noted at the round's start, which is now in files, as a checkpoint, unless a sync failed."""
        if not self._is_checkpoint_over:
            self._ready = self._noted
        self._noted = None

    def job(self, progress: Progress, times: Checkpoint) -> CheckpointJob:
        """Return a job that syncs what queues and index have written so far, and then records these values as checkpoint."""
        syncs = [sync for derived in self._derived if (sync := derived.sync()) is not None]
        return CheckpointJob(self._checkpoints, times=times, progress=progress, syncs=syncs)

    def checkpoint_due(self) -> CheckpointJob | None:
        """Return a checkpoint job, None if none is ready or one is running; a postponed job is returned again later."""
        again = self._job_put_off
        if again is not None and self._clock.monotonic() >= self._checkpoint_at:
            self._job_put_off = None
            return again
        if self._ready is None or self._job_out is not None:
            return None
        self._job_out, self._ready = self.job(*self._ready), None
        self._job_began = self._clock.monotonic()
        return self._job_out

    def checkpointed(self, job: CheckpointJob) -> None:
        """Handle the outcome of a checkpoint job: plan the next one, retry it, or after a failed sync refuse messages."""
        now = self._clock.monotonic()
        if job.is_lacking:
            if not self._is_job_late:
                logger.warning("A checkpoint is delayed: %s", job.error)
            self._is_job_late = True
            self._job_put_off, self._checkpoint_at = job, now + DISK_LOOK_INTERVAL_S
            return
        self._job_out = None
        self._is_job_late = False
        pause = self._settings.checkpoint_interval_ms / 1000
        self._checkpoint_at = now + max(pause, CHECKPOINT_SHARE * (now - self._job_began))
        if job.error is None:
            job.done()
            return
        logger.error("A checkpoint could not be written: %s", job.error)
        if not job.is_synced:
            # Data lost by a failed sync is not recovered by a later one. The log still has it, and a restart rebuilds
            # it from the last successful checkpoint.
            self._is_checkpoint_over = True
            self._flags.raise_flag(
                RunningFlag.QUEUE_ERROR,
                f"queue files cannot be flushed to the device ({job.error.strerror}); restart "
                "the broker when the disk works again",
            )

    @property
    def is_job_out(self) -> bool:
        """Whether a checkpoint job is running or postponed."""
        return self._job_out is not None

    def go_back(self, store_ms: int) -> None:
        """Discard the planned checkpoint, and lower `dispatched_ms` to this store time, of the first removed record."""
        self._noted = self._ready = None
        self._queues.end_round()
        self._dispatcher.dispatched_ms = min(self._dispatcher.dispatched_ms, store_ms)

    def finish_job(self) -> None:
        """Run the postponed checkpoint, if any, before the final one; raise OSError if it fails again."""
        job, self._job_put_off = self._job_put_off, None
        if job is not None:
            job.run()
            if job.error is not None:
                raise job.error

    def forget_entries(self, count: int) -> None:
        """Subtract the entries of a topic or queue to be deleted from planned checkpoints and the last one.

        Raises:
            OSError: The last checkpoint could not be rewritten.
        """
        if self._noted is not None:
            self._noted = (self._noted[0].without(count), self._noted[1])
        if self._ready is not None:
            self._ready = (self._ready[0].without(count), self._ready[1])
        if self._job_out is not None:
            self._job_out.progress = self._job_out.progress.without(count)
        known = self._checkpoints.progress
        if known is not None and self._job_out is None:
            self._checkpoints.write(self._checkpoints.times, known.without(count))

    def file_ahead_failed(self) -> None:
        """Allow a new attempt to create a log file in advance from the next check of the disk on."""
        self._is_plan_given_up = True
