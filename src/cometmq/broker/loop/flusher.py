"""Runs the store's periodic work: flushes, creation of log files ahead of need, checkpoints.

The store decides what is due and when messages count as durable; this module provides two threads, for flushes and
for files and checkpoints. With SYNC_FLUSH producers wait for the flush, and switching to a thread and back takes
longer than a flush to a fast disk. So the event loop does the flush, once for all reads of one iteration, as long as
flushes are quick. After a slow one the thread does the next 2 to 64 (docs/design/0004).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from cometmq.broker.loop.busy_poll import BusyPoll
from cometmq.broker.loop.worker import start_worker
from cometmq.model.clock import Clock
from cometmq.steps.runner import NEVER
from cometmq.store.checkpoint import CheckpointJob
from cometmq.store.files_ahead import FilePlan
from cometmq.store.message_store import MessageStore
from cometmq.store.upkeep import DISK_LOOK_INTERVAL_S

_log = logging.getLogger(__name__)

# Largest interval of the store's timer; it notifies waiters of a late flush.
TICK_SECONDS = 0.05
# The same when idle, which is also how often the store checks the disk.
REST_SECONDS = DISK_LOOK_INTERVAL_S

# After a flush that took longer, the thread does the next ones, and four times as many, up to a limit, each time the loop's
# next attempt is slow again: a fast disk has a slow flush now and then, a slow disk has no other.
QUICK_SECONDS = 0.002
FLUSHES_AFTER_SLOW = 2
FLUSHES_AFTER_SLOW_MAX = 64


class Flusher:
    """The flusher of a store, which also creates its log files ahead of need.

    Attributes:
        on_flushed: Called after each flush of the log that did not fail, with its duration in seconds.
    """

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.on_flushed: Callable[[float], None] = lambda _: None
        self._left_to_thread = 0
        self._after_slow = FLUSHES_AFTER_SLOW
        self._is_flush_near = False
        self._positions = store.positions
        self._timer: asyncio.TimerHandle | None = None
        self._is_at_rest = False
        self._under_way: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def start(self) -> None:
        """Start the threads and the timer, and do what is due."""
        self._loop = asyncio.get_running_loop()
        self._busy_poll = BusyPoll(self._loop, self._clock)
        self._flush_thread = start_worker("flusher")
        self._file_thread = start_worker("file-maker")
        self._tick()

    def written(self) -> None:
        """Note that records were written; with SYNC_FLUSH, schedule a flush if they need one and none is scheduled."""
        if self._is_at_rest:
            self._tick_in(TICK_SECONDS)
        positions = self._positions
        if not positions.needs_flush or self._is_flush_near:
            return
        if positions.local < positions.written:
            # After the other reads of this loop iteration, so that one flush serves them all.
            self._is_flush_near = True
            self._busy_poll.end()
            self._loop.call_soon(self._flush_written)

    async def close(self) -> None:
        """Stop the timer, wait for work in progress, and end the threads; close the store only after this."""
        self._is_closed = True
        self._is_at_rest = False
        self._busy_poll.end()  # No producer is expected any more.
        if self._timer is not None:
            self._timer.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._flush_thread.close()
        self._file_thread.close()

    def _tick_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._is_at_rest = seconds > TICK_SECONDS
        if seconds < NEVER:
            self._timer = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        is_at_rest = False
        try:
            self._store.tick()
            self._flush()
            plan = self._store.file_ahead_needed()
            if plan is not None:
                self._make_file(plan)
            job = self._store.checkpoint_due()
            if job is not None:
                self._checkpoint(job)
            is_at_rest = self._store.is_at_rest() and not self._under_way
        except Exception:  # noqa: BLE001
            # An error here must not end flushing for good; the next tick tries again.
            _log.exception("the store's periodic work failed and is tried again")
        self._tick_in(self._rest_seconds() if is_at_rest else TICK_SECONDS)

    def _rest_seconds(self) -> float:
        """Return the seconds between checks for a full disk when idle; infinite under virtual time unless sends are refused."""
        is_refusing = self._store.refusal is not None
        return REST_SECONDS if is_refusing or not self._clock.is_steady else NEVER

    def _flush_written(self) -> None:
        """Flush if that is due: on the loop or, after a slow flush, in the thread."""
        self._is_flush_near = False
        if self._left_to_thread:
            self._left_to_thread -= 1
            self._flush()
            return
        target = None if self._is_closed else self._store.flush_target()
        if target is None:
            return
        began = self._clock.monotonic()
        try:
            self._store.flush_files(target)
        except OSError as error:
            self._store.flush_failed(error)
            return
        seconds = self._clock.monotonic() - began
        self.on_flushed(seconds)
        if seconds > QUICK_SECONDS:
            self._left_to_thread = self._after_slow
            self._after_slow = min(4 * self._after_slow, FLUSHES_AFTER_SLOW_MAX)
        else:
            self._after_slow = FLUSHES_AFTER_SLOW
        if self._store.flushed(target):
            self._busy_poll.begin()

    def _flush(self) -> None:
        target = None if self._is_closed else self._store.flush_target()
        if target is None:
            return
        ended = self._begin()

        def flush() -> float:
            began = self._clock.monotonic()
            self._store.flush_files(target)
            return self._clock.monotonic() - began

        def done(seconds: Any, error: Exception | None) -> None:
            ended.set_result(None)
            if isinstance(error, OSError):
                self._store.flush_failed(error)
            elif error is not None:
                _log.error("the flush of the log failed", exc_info=error)
                self._store.flush_failed(OSError(str(error)))
            else:
                self.on_flushed(seconds)
                self._store.flushed(target)
                if self._positions.local < self._positions.written:
                    # Records written during this flush wait for the next one.
                    self._flush()

        self._flush_thread.do(flush, done)

    def _make_file(self, plan: FilePlan) -> None:
        ended = self._begin()

        def done(why_not: Exception | None, error: Exception | None) -> None:
            ended.set_result(None)
            self._store.adopt(plan, error or why_not)

        self._file_thread.do(lambda: self._store.make_file(plan), done)

    def _checkpoint(self, job: CheckpointJob) -> None:
        ended = self._begin()

        def done(_result: Any, _error: Exception | None) -> None:
            ended.set_result(None)
            self._store.checkpointed(job)

        self._file_thread.do(job.run, done)

    def _begin(self) -> "asyncio.Future[None]":
        ended: asyncio.Future[None] = self._loop.create_future()
        self._under_way.add(ended)
        ended.add_done_callback(self._under_way.discard)
        return ended
