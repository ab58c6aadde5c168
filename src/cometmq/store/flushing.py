"""Decides when to flush the log, and keeps the callers that wait for a flush.

Asynchronous flush follows FlushRealTimeService of RocketMQ 5.3.3: flushIntervalCommitLog after the last flush if at
least flushCommitLogLeastPages pages are dirty, and any dirty byte after flushCommitLogThoroughInterval. Without
flushCommitLogTimed, enough dirty pages are flushed at once. With synchronous flush, or if a caller waits for a flush
(`wait_flushed`), all bytes in the files are due; one flush serves all waiters for them (cometmq.store.position_waiters).
"""

from cometmq.model.clock import Clock
from cometmq.store.commitlog import CommitLog
from cometmq.store.position_waiters import OnDone, PositionWaiters
from cometmq.store.settings import StoreSettings

PAGE_SIZE = 4096  # Unit of flushCommitLogLeastPages (MappedFile.OS_PAGE_SIZE).


class Flushing:
    """Flushes of the log, one at a time; `flushed_ms`: about the store time (ms) of the last flushed record, or 0."""

    def __init__(self, log: CommitLog, settings: StoreSettings, clock: Clock) -> None:
        self.log = log
        self._settings = settings
        self._clock = clock
        self._positions = log.positions
        self._waiters = PositionWaiters(log.positions)
        # Target and store time of the running flush.
        self._began: tuple[int, int] | None = None
        self._ended_at = clock.monotonic()
        self.flushed_ms = 0

    def wait_confirmed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back with a `Durability`: OK when the log is confirmed up to an offset, or the reason why it is not."""
        self._waiters.wait_confirmed(end_offset, deadline=self._deadline(), on_done=on_done)

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back with a `Durability`: OK when the log is flushed up to an offset, else DISK_LATE."""
        self._waiters.wait_flushed(end_offset, deadline=self._deadline(), on_done=on_done)

    def change_replica_timeout(self, timeout_ms: int) -> None:
        """Set how long callers of `wait_confirmed` wait for replicas (slaveTimeout) in ms, instead of syncFlushTimeout."""
        late = timeout_ms - self._settings.sync_flush_timeout_ms
        self._waiters.replica_seconds = late / 1000

    @property
    def is_awaited(self) -> bool:
        """Whether any caller is waiting for a flush or a confirmation."""
        return len(self._waiters) > 0

    def replicated(self, end: int | None, replica_count: int) -> None:
        """Record how far replicas have the log, and notify waiters (`Positions.replicated_to`)."""
        self._positions.replicated_to(end, replica_count)
        self._waiters.advance()

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._settings.sync_flush_timeout_ms / 1000

    def target(self, store_ms: int) -> int | None:
        """Return the offset to which the caller must now flush (`flush_files`); None if none is due or one is running.

        A returned flush counts as running until `done` or `put_off`. `store_ms`: store time of the last record, ms.
        """
        target = self._positions.committed
        dirty = target - self._positions.flushed
        if dirty <= 0 or self._began is not None:
            return None
        is_awaited = self._positions.needs_flush or self._waiters.wants_flush
        if not is_awaited and not self._is_worth_it(dirty):
            return None
        self._began = (target, store_ms)
        return target

    def _is_worth_it(self, dirty: int) -> bool:
        """Return whether, for the time since the last flush, enough bytes are dirty to flush now."""
        settings = self._settings
        waited_ms = (self._clock.monotonic() - self._ended_at) * 1000
        if dirty >= settings.flush_least_pages * PAGE_SIZE:
            return not settings.is_flush_timed or waited_ms >= settings.flush_interval_ms
        return waited_ms >= settings.flush_thorough_interval_ms

    def flush_files(self, upto: int) -> None:
        """Flush the log to the device up to an offset; an OSError of the sync is final. Any thread."""
        for file in self.log.files_between(self._positions.flushed, upto):
            file.flush()

    def done(self, upto: int, *, store_ms: int = 0) -> bool:
        """Record a successful flush and notify waiters; return whether exactly one caller was notified.

        Args:
            upto: Physical offset that was flushed to.
            store_ms: Store time of the last flushed record, ms; only used if `target` was not called.
        """
        if self._began is not None:
            store_ms = self._began[1]
            self._began = None
        self.flushed_ms = store_ms or self.flushed_ms
        self._positions.flushed_to(upto)
        self._ended_at = self._clock.monotonic()
        # A sender that waited alone will send alone again, so its next batch can start towards the device at once.
        # With several waiters, each page would be written once per batch, and all would wait for the last write.
        is_alone = self._waiters.advance() == 1
        self.log.is_flush_next = is_alone and self._positions.needs_flush
        return is_alone

    @property
    def is_under_way(self) -> bool:
        """Whether a flush is running."""
        return self._began is not None

    def go_back(self, end: int, store_ms: int) -> None:
        """Adjust to a log truncated to `end`: call back callers that wait for a removed part, with DISK_LATE.

        `store_ms` is the store time of the first removed record; 0 if unknown.
        """
        self.flushed_ms = min(self.flushed_ms, store_ms)
        self._waiters.go_back(end)

    def put_off(self) -> None:
        """Forget a flush that could not begin, so that `target` can return one again."""
        self._began = None

    def expire(self) -> None:
        """Call back callers whose time limit has passed, with the reason (a `Durability`)."""
        self._waiters.expire(self._clock.monotonic())

    def fail(self) -> None:
        """Call back all waiters with DISK_LATE, because nothing is flushed any more (`PositionWaiters.fail`)."""
        self._waiters.fail()
