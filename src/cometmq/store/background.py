"""Background work of a store: flushes, files made ahead, checkpoints, cleaning. The owner provides the threads.

- Call `tick` at least every 100 ms, or every second while `is_at_rest`.
- If `flush_target` returns an offset, run `flush_files`, which blocks, in any thread, then `flushed` or `flush_failed`.
- `file_ahead_needed` and `checkpoint_due` return jobs for the file maker's thread (`make_file`, `CheckpointJob.run`).
  After them call `adopt` or `checkpointed`.
- `clean_due` returns steps for any thread that may block, to be run one after the other.

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
    """Recurring work of one store, and the parts that do it.

    Attributes:
        flushing: Decides when to flush the log, and keeps the waiters.
        upkeep: Writes queue entries, plans checkpoints, checks the disk.
        cleaner: Deletes old files.
    """

    # Start of the log file whose failed creation was already logged.
    _failed_ahead = -1

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
            directory,
            settings,
            clock,
            flushing=self.flushing,
            dispatcher=dispatcher,
            index=index,
            flags=acceptance.flags,
        )
        self.cleaner = Cleaner(directory, settings, clock, self.upkeep.room)

    # --- flush

    def flush_target(self) -> int | None:
        """Return the offset to which the caller must now flush; None if none is due, one is running, or not allowed.

        A flush is not allowed while the store truncates its log, or after it was stopped (`Acceptance.is_over`).
        """
        if self._acceptance.is_over or self._acceptance.is_held:
            return None
        return self.flushing.target(self._appender.store_ms)

    def flushed(self, upto: int) -> bool:
        """Handle a finished flush: notify waiters and dispatch; return whether exactly one waiter was notified."""
        is_alone = self.flushing.done(upto)
        self._dispatcher.dispatch()
        return is_alone

    def flush_failed(self, error: OSError) -> None:
        """Stop the store after a failed flush, as a later one would prove nothing; retry if only a descriptor was lacking."""
        # The flush has not begun; a sync never reports these errors.
        if error.errno in NO_DESCRIPTOR:
            self.flushing.put_off()
            return
        self.poison(f"a flush of the log failed ({error.strerror or error})")

    # --- files ahead, checkpoints, timer

    def file_ahead_needed(self) -> FilePlan | None:
        """Return the plan for the next log file if it is time to create it and messages are accepted, else None.

        After a plan was returned, the result is None until `adopt` was called; after an error, until the next check of
        the disk.
        """
        if self._acceptance.flags.refusal is not None:
            return None
        return self._log.ahead.needed(self._log.positions.written)

    def adopt(self, plan: FilePlan, error: Exception | None) -> None:
        """Allow a file to be created in advance again, after `make_file`; if that failed, from the next disk check on.

        Until then, a write that needs the file tries to create it.
        """
        if error is None:
            self._log.ahead.plan_done()
        elif plan.start != self._failed_ahead:
            # Logged once, although it is retried every second.
            self._failed_ahead = plan.start
            logger.warning(
                "The log file %s could not be created in advance: %s", plan.paths[0], error
            )
        if error is not None:
            self.upkeep.file_ahead_failed()

    def checkpoint_due(self) -> CheckpointJob | None:
        """Return a checkpoint job if one is ready or must be retried, and the log is not being truncated, else None."""
        return None if self._acceptance.is_held else self.upkeep.checkpoint_due()

    def clean_due(self) -> Step | None:
        """Return the next step of deleting old files, or None if none is due or allowed; the previous step must have ended."""
        if self._acceptance.is_over or self._acceptance.is_held:
            return None
        return self.cleaner.due()

    def tick(self) -> None:
        """Notify callers whose time limit has passed and, unless the store was stopped or is truncated, do due work."""
        self.flushing.expire()
        if not (self._acceptance.is_over or self._acceptance.is_held):
            if self._log.positions.replicated is not None:
                self._dispatcher.dispatch()  # Shows messages that replicas did not get in time.
            self._commit_staged()
            self.upkeep.tick()

    def is_at_rest(self) -> bool:
        """Return whether `tick` has nothing to do until something is written, except its checks once a second."""
        positions = self._log.positions
        if self._acceptance.is_over:
            return True
        is_flushed = positions.flushed == positions.local == positions.written
        return is_flushed and self.upkeep.is_at_rest and not self.flushing.is_awaited

    def _commit_staged(self) -> None:
        """Write batches from the transient store pool (transientStorePoolEnable) when they are due, and dispatch them."""
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
            if lack_of(error) is not None:  # Nothing was lost: all of it is still staged.
                reason = failed("the log cannot be written", error)
                self.upkeep.room.file_failed(
                    f"{reason}; sending continues when writing succeeds"
                )
                return
            self.poison(f"the log cannot be written ({error.strerror or error})")
        else:
            self._dispatcher.dispatch()

    @property
    def needs_restart(self) -> bool:
        """Whether the store accepts no messages until a restart; a full disk, in contrast, can recover."""
        return self._acceptance.is_over or self._acceptance.flags.has(RunningFlag.QUEUE_ERROR)

    def poison(self, reason: str) -> StorePoisoned:
        """Stop the store until a restart, after a failure, and fail all waiters; return the error for callers."""
        error = self._acceptance.poison(reason)
        self.flushing.fail()
        return error
