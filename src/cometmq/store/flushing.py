"""Decides when the log is flushed, and keeps those who wait for it.

Asynchronous flush follows FlushRealTimeService of RocketMQ 5.3.3: each flushIntervalCommitLog
when at least flushCommitLogLeastPages pages are dirty, and any byte after
flushCommitLogThoroughInterval; without flushCommitLogTimed the pages alone decide. With
synchronous flush, and where somebody waits, whatever is written is due, and one flush serves
everybody who waits (cometmq.store.position_waiters).
"""

from cometmq.model.clock import Clock
from cometmq.store.commitlog import CommitLog
from cometmq.store.position_waiters import OnDone, PositionWaiters
from cometmq.store.settings import StoreSettings

PAGE_SIZE = 4096  # What flushCommitLogLeastPages counts (MappedFile.OS_PAGE_SIZE).


class Flushing:
    """Flushes of the log, one at a time.

    Attributes:
        log: what is flushed.
        flushed_ms: store time of a record that is known to be flushed.
    """

    def __init__(self, log: CommitLog, settings: StoreSettings, clock: Clock) -> None:
        self.log = log
        self._settings = settings
        self._clock = clock
        self._positions = log.positions
        self._waiters = PositionWaiters(log.positions)
        self._began: tuple[int, int] | None = None  # Target and store time of one under way.
        self._ended_at = clock.monotonic()
        self.flushed_ms = 0

    def wait_confirmed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is confirmed up to an offset, or will not be in time."""
        self._waiters.wait_confirmed(end_offset, deadline=self._deadline(), on_done=on_done)

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is on the device up to an offset, or will not be in time."""
        self._waiters.wait_flushed(end_offset, deadline=self._deadline(), on_done=on_done)

    def change_replica_timeout(self, timeout_ms: int) -> None:
        """Set the longest wait for replicas (slaveTimeout), ms."""
        late = timeout_ms - self._settings.sync_flush_timeout_ms
        self._waiters.replica_seconds = late / 1000

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for anything."""
        return len(self._waiters) > 0

    def replicated(self, end: int | None, replica_count: int) -> None:
        """Replicas have the log up to an offset: tell who waited for it (`Positions.replicated_to`)."""
        self._positions.replicated_to(end, replica_count)
        self._waiters.advance()

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._settings.sync_flush_timeout_ms / 1000

    def target(self, store_ms: int) -> int | None:
        """Up to which offset a flush is due, beginning now; None: none is.

        Args:
            store_ms: store time of the last record written.
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
        """Whether enough bytes are dirty to flush by now."""
        settings = self._settings
        waited_ms = (self._clock.monotonic() - self._ended_at) * 1000
        if dirty >= settings.flush_least_pages * PAGE_SIZE:
            return not settings.flush_timed or waited_ms >= settings.flush_interval_ms
        return waited_ms >= settings.flush_thorough_interval_ms

    def flush_files(self, upto: int) -> None:
        """Bring the log to the device up to an offset. Any thread.

        Raises:
            OSError: it failed, which is final.
        """
        for file in self.log.files_between(self._positions.flushed, upto):
            file.flush()

    def done(self, upto: int, *, store_ms: int = 0) -> bool:
        """A flush has ended: tell who waited for it; gives whether one did, alone.

        Args:
            upto: its target.
            store_ms: store time of the last record flushed, where `target` was not asked.
        """
        if self._began is not None:
            store_ms = self._began[1]
            self._began = None
        self.flushed_ms = store_ms or self.flushed_ms
        self._positions.flushed_to(upto)
        self._ended_at = self._clock.monotonic()
        # Who waited alone sends alone again: what comes next goes to the device while we still count it.
        # With several, each page would go there once a batch, and they all wait for the last time.
        is_alone = self._waiters.advance() == 1
        self.log.is_flush_next = is_alone and self._positions.needs_flush
        return is_alone

    @property
    def is_under_way(self) -> bool:
        """Whether a flush has begun and not ended."""
        return self._began is not None

    def go_back(self, end: int, store_ms: int) -> None:
        """The log was truncated: who waits for what is gone is told."""
        self.flushed_ms = min(self.flushed_ms, store_ms)
        self._waiters.go_back(end)

    def put_off(self) -> None:
        """The flush under way could not begin: the next `target` is asked for it again."""
        self._began = None

    def expire(self) -> None:
        """Tell who has waited too long."""
        self._waiters.expire(self._clock.monotonic())

    def fail(self) -> None:
        """No flush counts any more: tell everybody."""
        self._waiters.fail()
