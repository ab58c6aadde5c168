"""Upkeep of a store: write tails, plan checkpoints, watch the disk, accept messages again.

`tick` is called by the broker's timer and does a little each time. A full disk, noticed by a file
that cannot be made, a tail that cannot be written or by `df`, stops senders with a reason and
nothing else; each tick looks whether there is room again. (RocketMQ deletes messages that nobody
has read at that point; we never do: docs/compatibility.md.)
"""

import logging
from collections.abc import Sequence

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.clock import Clock
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles, CheckpointJob, Progress
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.derived import Derived
from cometmq.store.disk import failed
from cometmq.store.disk_room import DiskRoom
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.flushing import Flushing
from cometmq.store.index import Index
from cometmq.store.running_flags import RunningFlag, RunningFlags
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

DISK_LOOK_INTERVAL_S = 1.0
# A checkpoint costs a sync of each queue written; it takes at most this part of the time.
CHECKPOINT_SHARE = 10
# The loop writes tails for at most so long a tick of 50 ms: a fifth of its time while messages come,
# half of it while none do.
TAILS_SECONDS_PER_TICK = 0.01
TAILS_SECONDS_IDLE = 0.025


class Upkeep:
    """The store's recurring work; driven by `tick`, on the thread that owns the store.

    Attributes:
        room: of the disk.
    """

    _is_job_late = False  # Whether it was said that a checkpoint waits.

    def __init__(
        self,
        settings: StoreSettings,
        clock: Clock,
        *,
        flushing: Flushing,
        dispatcher: LogDispatcher,
        derived: Sequence[Derived],
        queues: ConsumeQueues,
        index: Index,
        checkpoints: CheckpointFiles,
        flags: RunningFlags,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._flushing = flushing
        self._log = flushing.log
        self._positions = flushing.log.positions
        self._derived = derived
        self._queues = queues
        self._dispatcher = dispatcher
        self._index = index
        self._checkpoints = checkpoints
        self._flags = flags
        self.room = DiskRoom(
            checkpoints.disk,
            settings,
            flags,
            chain=self._log.chain,
            queue_directory=self._queues.files.directory,
        )
        self._is_plan_given_up = False
        self._disk_look_at = self._checkpoint_at = self._job_began = 0.0
        self._job_out: CheckpointJob | None = None
        self._job_put_off: CheckpointJob | None = None  # It waits to be tried again.
        self._is_checkpoint_over = False
        self._dispatched_before = -1
        self._noted: tuple[Progress, Checkpoint] | None = None  # When the round began.
        self._ready: tuple[Progress, Checkpoint] | None = None  # When it was through.

    def tick(self) -> None:
        """Do what is due."""
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
        """Whether nothing is to do but to look at the disk, until something is dispatched or flushed."""
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
        """Whether a flush alone has brought something new since the last checkpoint."""
        return self.progress() != (self._checkpoints.progress or NOTHING_DONE)

    def _write_tails(self, now: float) -> None:
        """Begin or continue a round over the queues' tails, and then the index."""
        if not self._is_in_round:
            is_mending = self._flags.has(RunningFlag.QUEUE_DISK_FULL)
            if (now < self._checkpoint_at or self._ready is not None) and not is_mending:
                return
            if self._index.is_failing:
                return  # It lacks keys of what is dispatched.
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
        """Write tails for as long as this tick may; True when the round is through.

        Raises:
            OSError: the disk failed or is full.
        """
        is_idle = self._positions.dispatched == self._dispatched_before
        self._dispatched_before = self._positions.dispatched
        deadline = now + (TAILS_SECONDS_IDLE if is_idle else TAILS_SECONDS_PER_TICK)
        return self._queues.continue_round(
            lambda: self._clock.monotonic() >= deadline, is_spread=not is_idle
        )

    def queue_write_failed(self, error: OSError) -> None:
        """A tail could not be written; it is kept, and no message is taken until it is."""
        if not self._flags.has(RunningFlag.QUEUE_DISK_FULL):
            logger.error("Queue entries cannot be written: %s; sends are refused", error)
        self._flags.raise_flag(
            RunningFlag.QUEUE_DISK_FULL,
            f"{failed('queue entries cannot be written', error)}; they are kept in memory, "
            "and sending goes on when they can",
        )

    def queue_stuck(self, queue: ConsumeQueue) -> None:
        """A queue alone cannot be written: the checkpoint goes on without the entries of its tail."""
        if self._noted is not None:
            count = len(queue.tail) // QUEUE_ENTRY_SIZE
            self._noted = (self._noted[0].without(count), self._noted[1])

    def index_write_failed(self, error: OSError) -> None:
        """The index could not be written; it waits in memory, and no message is taken until it can."""
        if not self._flags.has(RunningFlag.INDEX_ERROR):
            logger.error("The index cannot be written: %s; sends are refused", error)
        self._flags.raise_flag(
            RunningFlag.INDEX_ERROR,
            f"{failed('the index cannot be written', error)}; it is kept in memory, and "
            "sending goes on when it can",
        )

    def index_written(self) -> None:
        """The index could be written again."""
        self._flags.clear(RunningFlag.INDEX_ERROR)

    def progress(self) -> Progress:
        """The progress of dispatch and flush."""
        return Progress(
            self._positions.dispatched,
            self._positions.flushed,
            self._queues.writable_entries,
            *self._index.mark(),
            log_ms=self.times().log_timestamp,
        )

    def times(self) -> Checkpoint:
        """The progress of dispatch and flush in store times, as Java keeps it.

        A clock that was set back sets them back: Java's recovery then looks at more, never at less.
        """
        known = self._checkpoints.times
        return Checkpoint(
            log_timestamp=self._flushing.flushed_ms or known.log_timestamp,
            queue_timestamp=self._dispatcher.dispatched_ms or known.queue_timestamp,
            index_timestamp=max(self._index.full_ms(), known.index_timestamp),
        )

    def _make_ready(self) -> None:
        """Everything noted when the round began is written: it can be made a checkpoint."""
        if not self._is_checkpoint_over:
            self._ready = self._noted
        self._noted = None

    def job(self, progress: Progress, times: Checkpoint) -> CheckpointJob:
        """A checkpoint of what has been written to files so far."""
        syncs = [sync for derived in self._derived if (sync := derived.sync()) is not None]
        return CheckpointJob(self._checkpoints, times=times, progress=progress, syncs=syncs)

    def checkpoint_due(self) -> CheckpointJob | None:
        """A checkpoint that is ready to be made; one at a time."""
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
        """A checkpoint was made, or could not be."""
        now = self._clock.monotonic()
        if job.is_lacking:
            if not self._is_job_late:
                logger.warning("A checkpoint waits: %s", job.error)
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
        logger.error("No checkpoint could be made: %s", job.error)
        if not job.is_synced:
            # What a failed sync lost no later one brings back: the log has it, and a restart
            # builds it again from the last checkpoint that was made.
            self._is_checkpoint_over = True
            self._flags.raise_flag(
                RunningFlag.QUEUE_ERROR,
                f"queue files cannot be brought to the device ({job.error.strerror}); restart "
                "the broker when the disk is well",
            )

    @property
    def is_job_out(self) -> bool:
        """Whether a checkpoint is being made."""
        return self._job_out is not None

    def go_back(self, store_ms: int) -> None:
        """The log was truncated behind a record of this store time: no checkpoint follows from before."""
        self._noted = self._ready = None
        self._queues.end_round()
        self._dispatcher.dispatched_ms = min(self._dispatcher.dispatched_ms, store_ms)

    def finish_job(self) -> None:
        """Make the checkpoint that was put off, before the last one.

        Raises:
            OSError: it cannot be made still.
        """
        job, self._job_put_off = self._job_put_off, None
        if job is not None:
            job.run()
            if job.error is not None:
                raise job.error

    def forget_entries(self, count: int) -> None:
        """A topic with so many entries is about to be deleted.

        Raises:
            OSError: the checkpoint could not be written.
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
        """A file could not be made ahead; it is planned again at the next look at the disk."""
        self._is_plan_given_up = True
