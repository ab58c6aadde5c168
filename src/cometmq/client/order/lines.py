"""Runs a listener in order: one line for each queue, one call at a time in each line.

What the listener refuses is given to it again after a pause, and the line waits; after `retries_max` tries
it goes to the retry topic, and the line goes on. Without its lock a line stands still. Follows
ConsumeMessageOrderlyService of RocketMQ 5.3.3.

Next: cometmq.client.send_back
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from cometmq.client.concurrent import (
    Job,
    Listener,
    Said,
    Verdict,
    is_async_listener,
    is_consumed,
)
from cometmq.client.order.held_queues import HeldQueues
from cometmq.client.pull_loop import PullLoop
from cometmq.client.settings import PushSettings
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

# How soon a lock that is over is asked for again (tryLockLaterAndReconsume of 5.3.3), seconds.
_RETAKE_PAUSE = 3.0

# Gives a message to the retry topic; whether somebody has it.
GiveBack = Callable[[StoredMessage], Awaitable[bool]]


class _Line:
    """The calls of one queue."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.uncommitted: list[Job] = []
        self.arrived = asyncio.Event()
        self.at_rest = asyncio.Event()
        self.is_stopped = False


class Lines:
    """The lines of one consumer.

    Args:
        listener: what to call.
        settings: how many calls run at once, pauses, tries.
        held: the locks; None: none are needed (broadcasting).
        give_back: where a message goes after its last try.
        clock: the time.
    """

    def __init__(
        self,
        listener: Listener,
        settings: PushSettings,
        *,
        held: HeldQueues | None,
        give_back: GiveBack,
        clock: Clock,
    ) -> None:
        self._listener = listener
        self._settings = settings
        self._held = held
        self._give_back = give_back
        self._clock = clock
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._threads: ThreadPoolExecutor | None = None
        if not is_async_listener(listener):
            self._threads = ThreadPoolExecutor(settings.concurrency, "listener")
        self._lines: dict[MessageQueue, _Line] = {}
        self._tasks = Tasks("listener")
        self._is_closed = False

    # --- what comes in

    def submit(self, job: Job) -> None:
        """Put messages at the end of their queue's line."""
        if self._is_closed or job.loop.is_dropped:
            return
        line = self._lines.get(job.loop.queue)
        if line is None:
            line = self._lines[job.loop.queue] = _Line()
            self._tasks.spawn(self._run(line, job.loop.queue), f"line {job.loop.queue}")
        line.jobs.append(job)
        line.at_rest.clear()
        line.arrived.set()

    async def settle(self, queue: MessageQueue, *, seconds: float) -> bool:
        """Stop a queue's line: no further call; whether the one that ran has ended by then."""
        line = self._lines.get(queue)
        if line is None:
            return True
        line.is_stopped = True
        line.arrived.set()
        try:
            async with asyncio.timeout(seconds):
                await line.at_rest.wait()
        except TimeoutError:
            return False
        return True

    def forget(self, queue: MessageQueue) -> None:
        """The queue is somebody else's; a stopped line ends."""
        self._lines.pop(queue, None)

    async def close(self, timeout_ms: int) -> None:
        """Begin no further call, and wait for those under way, but not longer than this."""
        self._is_closed = True
        ended = await asyncio.gather(
            *(self.settle(queue, seconds=timeout_ms / 1000) for queue in list(self._lines))
        )
        if not all(ended):
            _log.warning(
                "listeners still ran %s ms after close; not waiting longer", timeout_ms
            )
        await self._tasks.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # --- a line

    async def _run(self, line: _Line, queue: MessageQueue) -> None:
        while not line.is_stopped:
            if not line.jobs:
                line.at_rest.set()
                line.arrived.clear()
                await line.arrived.wait()
                continue
            line.at_rest.clear()
            try:
                await self._work(line, line.jobs.popleft())
            except Exception:  # noqa: BLE001  Even a bug must not end the line.
                _log.exception("the line of %s", queue)
        line.at_rest.set()

    async def _work(self, line: _Line, job: Job) -> None:
        """Call the listener with a job until it is consumed, given back or not ours any more."""
        while await self._may_call(line, job):
            async with self._slots:
                # The turn may have taken long.
                if line.is_stopped or self._is_over(job) or not self._is_held(job):
                    continue
                began = self._clock.monotonic()
                said = await self._call(job)
            seconds = self._clock.monotonic() - began
            consumed = is_consumed(said)
            job.loop.counts.called(seconds, len(job.messages), is_consumed=consumed)
            if said is Verdict.ROLLBACK:
                # Their jobs are put in front of what waits, this one last.
                line.jobs.extendleft(reversed([*line.uncommitted, job]))
                line.uncommitted.clear()
                await self._pause(line, self._settings.suspend_queue_ms / 1000)
                return
            if consumed or self._settings.is_broadcasting:
                line.uncommitted.append(job)
                if said is Verdict.COMMIT or not self._settings.is_committed_by_listener:
                    self._commit(line)
                return
            job = await self._after_refusal(job)
            if not job.messages:
                return
            await self._pause(line, self._settings.suspend_queue_ms / 1000)

    def _commit(self, line: _Line) -> None:
        """All that was consumed counts from now on."""
        for job in line.uncommitted:
            job.loop.finish(job.inflight, [each.queue_offset for each in job.messages])
        line.uncommitted.clear()

    async def _may_call(self, line: _Line, job: Job) -> bool:
        """Wait for the queue's lock; False when there is nothing to wait for any more."""
        while not (line.is_stopped or self._is_over(job)):
            if self._is_held(job):
                return True
            assert self._held is not None, "what needs no lock is always held"
            await self._held.retake(job.loop.queue)
            if not self._is_held(job):
                await self._pause(line, _RETAKE_PAUSE)
        return False

    async def _pause(self, line: _Line, seconds: float) -> None:
        """Sleep, but not beyond the end of the line."""
        deadline = self._clock.monotonic() + seconds
        while not line.is_stopped and (left := deadline - self._clock.monotonic()) > 0:
            line.arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await line.arrived.wait()
            except TimeoutError:
                return

    def _is_held(self, job: Job) -> bool:
        return self._held is None or self._held.is_held(job.loop.queue)

    def _is_over(self, job: Job) -> bool:
        loop: PullLoop = job.loop
        return loop.is_dropped or job.inflight is not loop.inflight

    async def _call(self, job: Job) -> Said:
        given: Any = job.messages if self._settings.batch_count > 1 else job.messages[0]
        try:
            if self._threads is None:
                said: Said = await self._listener(given)  # type: ignore[misc]
            else:
                loop = asyncio.get_running_loop()
                said = await loop.run_in_executor(self._threads, self._listener, given)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  A listener may raise anything.
            _log.exception("the listener failed on %r; its queue waits", job.messages[0])
            return False
        return said

    async def _after_refusal(self, job: Job) -> Job:
        """What is left to be tried again; the rest has a place in the retry topic."""
        left = []
        for message in job.messages:
            has_tries = (
                self._settings.retries_max < 0
                or message.reconsume_times < self._settings.retries_max
            )
            if has_tries or not await self._give_back(message):
                left.append(replace(message, reconsume_times=message.reconsume_times + 1))
            else:
                job.loop.finish(job.inflight, [message.queue_offset])
        return job._replace(messages=left)
