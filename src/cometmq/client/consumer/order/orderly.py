"""Orderly consumption: the locks of queues at their brokers, and the listener calls of each queue in order.

A queue, or each key of a queue, has one line of calls, with one call at a time. Unless broadcasting, a message that the
listener refuses is usually delivered again after a pause, while its line waits. After `retries_max` retries (-1: no
limit) it is sent to the retry topic. A line without its queue's lock requests it again.
Follows ConsumeMessageOrderlyService of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.listeners import ListenerCall, ListenerVerdict, OrderlyStatus
from cometmq.client.consumer.order.held_queues import HeldQueues
from cometmq.client.consumer.pull.pull_loop import PullLoop
from cometmq.client.consumer.push.concurrent import ListenerJob
from cometmq.client.consumer.settings import PushConsumerSettings
from cometmq.client.user_calls import must_end_task, run_user
from cometmq.model.errors import ListenerError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.queue import MessageQueue
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

# Pause before an expired lock is requested again (tryLockLaterAndReconsume of 5.3.3), seconds.
_RETAKE_PAUSE = 3.0
# Maximum time that a rebalance waits for a listener call (removeUnnecessaryMessageQueue of 5.3.3), seconds; a queue with a
# longer call is given up by a later rebalance.
_SETTLE_SECONDS = 1.0

# Sends a message that is not retried locally to the retry topic or the dead letters; returns whether a broker accepted it.
GiveBack = Callable[[StoredMessage, ListenerVerdict], Awaitable[bool]]


class _Line:
    """The listener calls of one queue, or of one order key in it: one at a time, in order."""

    def __init__(self, lines: "_QueueLines", key: str | None) -> None:
        self.lines = lines
        self.key = key
        self.jobs: deque[ListenerJob] = deque()
        self.uncommitted: list[ListenerJob] = []
        self.arrived = asyncio.Event()
        self.at_rest = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        return self.lines.is_stopped


class _QueueLines:
    """The lines (sequences of listener calls) of one queue: one in all, or with an order key one per key in use."""

    def __init__(self) -> None:
        self.by_key: dict[str | None, _Line] = {}
        self.is_stopped = False
        # Held while one of the lines requests the lock of the queue, so that the others do not.
        self.retaking = asyncio.Lock()

    def stop(self) -> list[_Line]:
        """Prevent further calls, and return the lines; a call may still run in each."""
        self.is_stopped = True
        stopped = [*self.by_key.values()]
        for line in stopped:
            line.arrived.set()
        return stopped


class Orderly:
    """Orderly consumption by one push consumer: locks queues, unless broadcasting, and calls the listener in order.

    Args:
        give_back: Called with a message after its last try, or that the listener made a dead letter.
        halt: Called when the listener returns an invalid result; must prevent further calls.
        lost: Called with queues for which a broker refuses to renew the lock.
    """

    def __init__(
        self,
        call: ListenerCall,
        instance: ClientInstance,
        group: str,
        settings: PushConsumerSettings,
        *,
        give_back: GiveBack,
        halt: Callable[[ListenerError], None],
        lost: Callable[[list[MessageQueue]], None],
    ) -> None:
        self._listener = call
        self._settings = settings
        self._held: HeldQueues | None = None
        if not settings.broadcasting:
            self._held = HeldQueues(instance, group, settings, lost=lost)
            self._held.start()
        self._give_back = give_back
        self._halt = halt
        self._clock = instance.clock
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._threads: ThreadPoolExecutor | None = None
        if not call.is_async:
            self._threads = ThreadPoolExecutor(settings.concurrency, "listener")
        self._lines: dict[MessageQueue, _QueueLines] = {}
        self._tasks = Tasks("listener")
        self._is_closed = False

    # --- queues

    async def take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues and return those for which the lock was granted; with broadcasting, none needs a lock.

        Queues with a call of an earlier assignment that outlasts 1 s are left out.
        """
        queues = await self.settle([*queues])
        self._drop(queues)
        return set(queues) if self._held is None else await self._held.take(queues)

    async def settle(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Start no further call for queues; wait at most 1 s, and return those where none runs or waits to run."""
        at_rest = await asyncio.gather(
            *(self._at_rest(queue, seconds=_SETTLE_SECONDS) for queue in queues)
        )
        return [queue for queue, is_at_rest in zip(queues, at_rest, strict=True) if is_at_rest]

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Forget the calls of queues that are given up, and unlock them; after `close`, unlock all locked queues."""
        queues = [*queues]
        self._drop(queues)
        if self._held is not None:
            # At the end, this includes queues of former subscriptions.
            await self._held.give_back(self._held.queues if self._is_closed else queues)

    def _drop(self, queues: Iterable[MessageQueue]) -> None:
        """Forget the lines (sequences of listener calls) of queues; a later job of a queue starts a new one."""
        for queue in queues:
            self._lines.pop(queue, None)

    # --- jobs

    def submit(self, job: ListenerJob) -> None:
        """Append messages to the line of their queue, or of their order key, whose calls run one at a time.

        Messages are ignored after `close` or `settle`, or if their queue was revoked.
        """
        if self._is_closed or job.loop.is_dropped:
            return
        lines = self._lines.setdefault(job.loop.queue, _QueueLines())
        if lines.is_stopped:
            return
        order_key = self._settings.order_key
        if order_key is None:
            self._append(lines, None, job)
            return
        for key, messages in _by_key(job.messages, order_key).items():
            self._append(lines, key, job._replace(messages=messages))

    def _append(self, lines: _QueueLines, key: str | None, job: ListenerJob) -> None:
        line = lines.by_key.get(key)
        if line is None:
            line = lines.by_key[key] = _Line(lines, key)
            self._tasks.spawn(self._run(line, job.loop.queue), f"line {job.loop.queue}")
        line.jobs.append(job)
        line.at_rest.clear()
        line.arrived.set()

    async def _at_rest(self, queue: MessageQueue, *, seconds: float) -> bool:
        """Start no further call for a queue, until `_drop`; return whether none runs or waits after `seconds`."""
        lines = self._lines.setdefault(queue, _QueueLines())
        stopped = lines.stop()
        try:
            async with asyncio.timeout(seconds):
                for line in stopped:
                    await line.at_rest.wait()
        except TimeoutError:
            return False
        return True

    def forget(self) -> None:
        """Start no further listener call for the queues that had a job so far; running calls go on.

        The caller must submit no more jobs, because the first job of another queue creates a line of calls (or one for
        each order key), which does call the listener.
        """
        for lines in self._lines.values():
            lines.stop()

    async def close(self, timeout_ms: int) -> None:
        """Start no further call, wait at most `timeout_ms` ms for running ones, cancel `async` ones, stop renewing locks."""
        self._is_closed = True
        ended = await asyncio.gather(
            *(self._at_rest(queue, seconds=timeout_ms / 1000) for queue in list(self._lines))
        )
        if not all(ended):
            _log.warning(
                "Listeners still run %s ms after close; the consumer closes without them",
                timeout_ms,
            )
        await self._tasks.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._held is not None:
            await self._held.stop()

    # --- calls of a line

    async def _run(self, line: _Line, queue: MessageQueue) -> None:
        while not line.is_stopped:
            if not line.jobs:
                if line.key is not None:
                    # The number of keys is unlimited; the next message of this key creates a new line.
                    line.lines.by_key.pop(line.key, None)
                    break
                line.at_rest.set()
                line.arrived.clear()
                await line.arrived.wait()
                continue
            line.at_rest.clear()
            try:
                await self._work(line, line.jobs.popleft())
            except Exception:  # noqa: BLE001  Even a bug must not end the line.
                _log.exception("The listener calls for %s ended with an error", queue)
        line.at_rest.set()

    async def _work(self, line: _Line, job: ListenerJob) -> None:
        """Call the listener with a job, and after pauses with messages that it refused, until none is left to retry.

        Ends earlier after ROLLBACK or an invalid result, and if the line stops or the job is obsolete.
        """
        while await self._may_call(line, job):
            async with self._slots:
                # Waiting for the slot may have taken long.
                if line.is_stopped or self._is_over(job) or not self._is_held(job):
                    continue
                began = self._clock.monotonic()
                verdict = await self._call(job)
            seconds = self._clock.monotonic() - began
            consumed = verdict.is_consumed
            job.loop.counts.called(seconds, len(job.messages), is_consumed=consumed)
            if verdict.fault is not None:
                self._halt(verdict.fault)
                return
            if verdict.status is OrderlyStatus.ROLLBACK:
                # Put the jobs back in front of the waiting ones, this job last.
                line.jobs.extendleft(reversed([*line.uncommitted, job]))
                line.uncommitted.clear()
                await self._pause(line, self._settings.suspend_queue_ms / 1000)
                return
            if consumed or self._settings.broadcasting:
                line.uncommitted.append(job)
                if (
                    verdict.status is OrderlyStatus.COMMIT
                    or not self._settings.commit_by_listener
                ):
                    self._commit(line)
                return
            job = await self._after_refusal(job, verdict)
            if not job.messages:
                return
            delay_ms = verdict.delay_ms
            pause_ms = self._settings.suspend_queue_ms if delay_ms is None else delay_ms
            await self._pause(line, pause_ms / 1000)

    def _commit(self, line: _Line) -> None:
        for job in line.uncommitted:
            job.loop.finish(job.process_queue, [each.queue_offset for each in job.messages])
        line.uncommitted.clear()

    async def _may_call(self, line: _Line, job: ListenerJob) -> bool:
        """Wait until the queue's lock is held and return True; False if the line has stopped or the job is obsolete."""
        while not (line.is_stopped or self._is_over(job)):
            if self._is_held(job):
                return True
            assert self._held is not None, "what needs no lock is always held"
            async with line.lines.retaking:
                if not self._is_held(job):
                    await self._held.retake(job.loop.queue)
            if not self._is_held(job):
                await self._pause(line, _RETAKE_PAUSE)
        return False

    async def _pause(self, line: _Line, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while not line.is_stopped and (left := deadline - self._clock.monotonic()) > 0:
            line.arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await line.arrived.wait()
            except TimeoutError:
                return

    def _is_held(self, job: ListenerJob) -> bool:
        return self._held is None or self._held.is_held(job.loop.queue)

    def _is_over(self, job: ListenerJob) -> bool:
        loop: PullLoop = job.loop
        return loop.is_dropped or job.process_queue is not loop.process_queue

    async def _call(self, job: ListenerJob) -> ListenerVerdict:
        if self._threads is None:
            return await self._listener.run_on_loop(job.messages)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._listener.run, job.messages)

    async def _after_refusal(self, job: ListenerJob, verdict: ListenerVerdict) -> ListenerJob:
        """Send back refused messages that are dead or have no retry left; return the job with those left to retry.

        Messages that no broker accepted are among the latter.
        """
        left = []
        for message in job.messages:
            has_tries = (
                self._settings.retries_max < 0
                or message.reconsume_times < self._settings.retries_max
            )
            is_left = has_tries and not verdict.dead(message)
            if is_left or not await self._give_back(message, verdict):
                left.append(replace(message, reconsume_times=message.reconsume_times + 1))
            else:
                job.loop.finish(job.process_queue, [message.queue_offset])
        return job._replace(messages=left)


def _by_key(
    messages: list[StoredMessage], order_key: Callable[[StoredMessage], str]
) -> dict[str, list[StoredMessage]]:
    found: dict[str, list[StoredMessage]] = {}
    for message in messages:
        try:
            key = run_user(order_key, message)
            hash(key)
        except BaseException as error:
            if must_end_task(error):
                raise
            _log.exception(
                "order_key failed on %s; the message is ordered together with all others on which it failed",
                message_name(message),
            )
            key = ""
        found.setdefault(key, []).append(message)
    return found
