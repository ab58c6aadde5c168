"""Background work of a store: flushes, files ahead, checkpoints; its owner lends the threads.

- each 100 ms at most: `tick`; each second while the store `is_at_rest`.
- `flush_target` says that a flush is due; it runs in the flusher thread (`flush_files`) and ends
  in `flushed` or `flush_failed`.
- `file_ahead_needed` and `checkpoint_due` give jobs for the file maker's thread (`make_file`,
  `CheckpointJob.run`), which end in `adopt` and `checkpointed`.
- `clean_due` gives steps for any thread that may wait, one after the other.

Everything else runs on the thread that owns the store.
"""

import logging

from cometmq.model.clock import Clock
from cometmq.model.errors import StorePoisoned
from cometmq.store.acceptance import Acceptance
from cometmq.store.appender import Appender
from cometmq.store.checkpoint import CheckpointJob
from cometmq.store.cleaner import Cleaner
from cometmq.store.derived import Step
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import NO_DESCRIPTOR, failed, lack_of
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.files_ahead import FilePlan
from cometmq.store.flushing import Flushing
from cometmq.store.index import Index
from cometmq.store.running_flags import RunningFlag
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep import Upkeep

logger = logging.getLogger(__name__)


class Background:
    """The recurring work of one store, and the parts that do it.

    Attributes:
        flushing: when the log is flushed, and who waits.
        upkeep: writes tails, plans checkpoints, watches the disk.
        cleaner: lets old files go.
    """

    _failed_ahead = (
        -1
    )  # Start of the log file of which it was said that it could not be made ahead.

    def __init__(
        self,
        directory: StoreDirectory,
        settings: StoreSettings,
        *,
        clock: Clock,
        acceptance: Acceptance,
        appender: Appender,
        dispatcher: LogDispatcher,
        index: Index,
    ) -> None:
        self._log = log = directory.log
        self._settings = settings
        self._clock = clock
        self._commit_at = 0.0
        self._acceptance = acceptance
        self._appender = appender
        self._dispatcher = dispatcher
        self.flushing = Flushing(log, settings, clock)
        self.upkeep = Upkeep(
            settings,
            clock,
            flushing=self.flushing,
            dispatcher=dispatcher,
            derived=directory.derived,
            queues=directory.queues,
            index=index,
            checkpoints=directory.checkpoints,
            flags=acceptance.flags,
        )
        self.cleaner = Cleaner(
            directory.checkpoints.disk,
            settings,
            clock,
            log=log,
            derived=directory.derived,
            checkpoints=directory.checkpoints,
            room=self.upkeep.room,
        )

    # --- flush

    def flush_target(self) -> int | None:
        """Up to which physical offset a flush is due; None while none is, or one is under way."""
        if self._acceptance.is_over or self._acceptance.is_held:
            return None
        return self.flushing.target(self._appender.store_ms)

    def flushed(self, upto: int) -> bool:
        """A flush has ended: tell who waited, and show what is on disk now; gives whether one waited, alone."""
        is_alone = self.flushing.done(upto)
        self._dispatcher.dispatch()
        return is_alone

    def flush_failed(self, error: OSError) -> None:
        """A flush failed; it is not tried again, for the next one would prove nothing."""
        if error.errno in NO_DESCRIPTOR:  # It has not begun: no sync says this.
            self.flushing.put_off()
            return
        self.poison(f"a flush of the log failed ({error.strerror or error})")

    # --- files ahead, checkpoints, timer

    def file_ahead_needed(self) -> FilePlan | None:
        """The next log file to be made, when it is time; cheap to ask."""
        if self._acceptance.flags.refusal is not None:
            return None
        return self._log.ahead.needed(self._log.positions.written)

    def make_file(self, plan: FilePlan) -> Exception | None:
        """Make the next log file; gives why it could not be made; any thread; raises nothing."""
        return self._log.ahead.make(plan)

    def adopt(self, plan: FilePlan, error: Exception | None) -> None:
        """The plan has been carried out. One that failed is tried again when a put needs it."""
        if error is None:
            self._log.ahead.plan_done()
        elif plan.start != self._failed_ahead:  # It is tried again each second.
            self._failed_ahead = plan.start
            logger.warning("The log file %s could not be made ahead: %s", plan.paths[0], error)
        if error is not None:
            self.upkeep.file_ahead_failed()

    def checkpoint_due(self) -> CheckpointJob | None:
        """A checkpoint to be made, when there is one."""
        return None if self._acceptance.is_held else self.upkeep.checkpoint_due()

    def clean_due(self) -> Step | None:
        """The next step of letting old files go, when there is one; the one before has ended."""
        if self._acceptance.is_over or self._acceptance.is_held:
            return None
        return self.cleaner.due()

    def tick(self) -> None:
        """Do what is due: late waiters, tails to write, a look at the disk; called each 100 ms or so."""
        self.flushing.expire()
        if not (self._acceptance.is_over or self._acceptance.is_held):
            if self._log.positions.replicated is not None:
                self._dispatcher.dispatch()  # What replicas have not in time is shown without.
            self._commit_staged()
            self.upkeep.tick()

    def is_at_rest(self) -> bool:
        """Whether `tick` has nothing to do but to look at the disk, until something is written."""
        positions = self._log.positions
        if self._acceptance.is_over:
            return True
        is_flushed = positions.flushed == positions.local == positions.written
        return is_flushed and self.upkeep.is_at_rest and not self.flushing.is_awaited

    def _commit_staged(self) -> None:
        """Write what waits in the transient pool, when it is time, and show it."""
        now = self._clock.monotonic()
        if (
            self._log.positions.committed == self._log.positions.written
            or now < self._commit_at
        ):
            return
        self._commit_at = now + self._settings.commit_interval_ms / 1000
        try:
            self._log.commit_staged()
        except OSError as error:
            if lack_of(error) is not None:  # All of it waits still.
                reason = failed("the log cannot be written", error)
                self.upkeep.room.file_failed(f"{reason}; sending goes on when it can")
                return
            self.poison(f"the log cannot be written ({error.strerror or error})")
        else:
            self._dispatcher.dispatch()

    @property
    def needs_restart(self) -> bool:
        """Whether no message will be taken any more: unlike a full disk, that does not pass."""
        return self._acceptance.is_over or self._acceptance.flags.has(RunningFlag.QUEUE_ERROR)

    def poison(self, reason: str) -> StorePoisoned:
        """Never call anything durable again; who waits is told."""
        error = self._acceptance.poison(reason)
        self.flushing.fail()
        return error
