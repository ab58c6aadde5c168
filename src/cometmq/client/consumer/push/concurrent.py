"""Concurrent calls of a listener: in threads for a `def` listener; `async def`, or under virtual time, on the loop."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from cometmq.client.consumer.listeners import ListenerCall, ListenerVerdict
from cometmq.client.consumer.pop.pop_loop import PopLoop
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.pull.pull_loop import PullLoop
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage, message_name
from cometmq.net.loop import may_have_threads
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)


class ListenerJob(NamedTuple):
    """Pulled messages for one listener call, with the pull loop and the cache (process queue) that they came through."""

    loop: PullLoop
    process_queue: ProcessQueue
    messages: list[StoredMessage]

    @property
    def is_over(self) -> bool:
        """Whether the consumer has given up the queue, so that the job must not start."""
        return self.loop.is_dropped


class PopJob(NamedTuple):
    """Popped messages for one listener call, with the pop loop that received them."""

    loop: PopLoop
    messages: list[StoredMessage]

    @property
    def is_over(self) -> bool:
        """Whether any of the messages is settled or its invisible time is over, so that the job must not start."""
        return self.loop.is_over(self.messages)


AnyJob = ListenerJob | PopJob

# Called on the event loop with a job, its verdict, and the duration of the call in seconds.
Done = Callable[[AnyJob, ListenerVerdict, float], None]


def make_workers(
    call: ListenerCall,
    *,
    concurrency: int,
    done: Done,
    clock: Clock,
    begin: Callable[[AnyJob], None] = lambda _job: None,
) -> "TaskWorkers | ThreadWorkers":
    """Create the workers for a listener; they call `begin` with a job before the listener, and `done` on the loop after.

    They are threads, or tasks for `async def` and under virtual time.
    """

    def run(job: AnyJob) -> ListenerVerdict:
        begin(job)
        return call.run(job.messages)

    async def run_on_loop(job: AnyJob) -> ListenerVerdict:
        begin(job)
        return await call.run_on_loop(job.messages)

    if not call.is_async and may_have_threads():
        return ThreadWorkers(run, concurrency=concurrency, done=done, clock=clock)
    return TaskWorkers(run_on_loop, concurrency=concurrency, done=done, clock=clock)


class TaskWorkers:
    """Workers that are tasks on the event loop, for an `async def` listener, or for any under virtual time."""

    def __init__(
        self,
        run: Callable[[AnyJob], Awaitable[ListenerVerdict]],
        *,
        concurrency: int,
        done: Done,
        clock: Clock,
    ) -> None:
        self._run = run
        self._done = done
        self._now = clock.monotonic
        self._jobs: asyncio.Queue[AnyJob | None] = asyncio.Queue()
        self._tasks = Tasks("listener")
        self._workers: list[asyncio.Task[None]] = []
        self._concurrency = 0
        self.resize(concurrency)

    def resize(self, concurrency: int) -> None:
        """Set the number of tasks; surplus ones end after the calls that run and the jobs that wait now."""
        for number in range(self._concurrency, concurrency):
            self._workers.append(self._tasks.spawn(self._work(), str(number)))
        for _ in range(concurrency, self._concurrency):
            self._jobs.put_nowait(None)
        self._concurrency = concurrency
        self._workers = [task for task in self._workers if not task.done()]

    def submit(self, job: AnyJob) -> None:
        """Queue a job for the next free task."""
        self._jobs.put_nowait(job)

    async def _work(self) -> None:
        while (job := await self._jobs.get()) is not None:
            if job.is_over:
                continue
            began = self._now()
            verdict = await self._run(job)
            self._done(job, verdict, self._now() - began)

    def forget(self) -> None:
        """Drop the jobs that have not started."""
        while not self._jobs.empty():
            self._jobs.get_nowait()

    async def close(self, timeout_ms: int) -> None:
        """Start no further job, wait at most `timeout_ms` ms for the running ones, and cancel the rest."""
        self.forget()
        for _ in self._workers:
            self._jobs.put_nowait(None)
        await asyncio.wait(self._workers, timeout=timeout_ms / 1000)
        await self._tasks.close()


# A listener call shorter than this ends before another thread would wake up, seconds.
_SHORT_SECONDS = 50e-6
# Maximum time that jobs wait for a single thread whose calls were short until now, seconds.
_LOOK_SECONDS = 1e-3


class ThreadWorkers:
    """Workers that are threads, for a `def` listener.

    Jobs wait in a deque. One thread is woken after the loop iteration that added them, and each thread that
    takes a job wakes another one while more are waiting, so that blocking listeners run in parallel. If calls are
    short, more threads would only compete; so usually one thread, the last that fell asleep (warm caches), runs them
    all, and the loop soon checks its progress. Results are returned to the loop in batches.
    """

    def __init__(
        self,
        run: Callable[[AnyJob], ListenerVerdict],
        *,
        concurrency: int,
        done: Done,
        clock: Clock,
    ) -> None:
        self._run = run
        self._done = done
        self._now = clock.monotonic
        self._jobs: deque[AnyJob] = deque()
        # A lock for each sleeping thread, released to wake it. A queue on which all wait would wake two threads for one job.
        self._asleep: deque[threading.Lock] = deque()
        self._is_woken = False  # Whether a thread was woken that has not checked for jobs yet.
        self._ends: deque[None] = deque()  # An entry for each thread that must end.
        self._finished: deque[tuple[AnyJob, ListenerVerdict, float]] = deque()
        self._is_collecting = False
        self._is_calling = False  # At the end of this iteration of the loop.
        self._is_looking = False  # Soon.
        self._taken = self._seen = (
            0  # Jobs that threads have taken, and their number at the last check.
        )
        self._are_short = False  # Whether the last call was short.
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._alive = 0  # Threads that have not reported their end.
        self._concurrency = 0
        self.resize(concurrency)

    def resize(self, concurrency: int) -> None:
        """Set the number of threads; surplus ones end after their running calls."""
        for number in range(self._concurrency, concurrency):
            self._alive += 1
            name = f"listener-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._end(self._concurrency - concurrency)
        self._concurrency = concurrency

    def submit(self, job: AnyJob) -> None:
        """Queue a job for the next free thread."""
        self._jobs.append(job)
        if not self._is_calling:
            self._is_calling = True
            self._loop.call_soon(self._call_for_turn)

    def _call_for_turn(self) -> None:
        self._is_calling = False
        if len(self._jobs) > 1 and not self._is_looking:
            self._look_soon()
        if self._jobs:
            self._call_another()

    def _look_soon(self) -> None:
        self._is_looking, self._seen = True, self._taken
        self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Report results; if jobs wait, check again soon, or if none was taken since the last check, wake a thread."""
        # Cleared before checking: a thread that sees this wakes another one, and reports its results itself.
        self._is_looking = False
        self._collect()
        if self._jobs and self._taken != self._seen:
            self._look_soon()
        elif self._jobs:
            self._are_short = False
            self._call_another()

    def _end(self, count: int) -> None:
        self._ends.extend([None] * count)
        self._call_another()

    def _call_another(self) -> None:
        # Invariant: while a job waits, a thread or the loop is about to check. One that was just woken finds this job, too.
        if self._is_woken:
            return
        try:
            lock = self._asleep.pop()
        except IndexError:  # Every thread that is awake checks again before it sleeps.
            return
        self._is_woken = True
        lock.release()

    def _work(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        while not self._is_sent_away():
            job = self._next_job()
            if job is None:
                self._sleep(lock)
                continue
            self._taken += 1
            if self._jobs and not (self._are_short and self._is_looking):
                self._call_another()
            self._do(job)
        if self._jobs or self._ends:  # This thread may be the one that was woken for them.
            self._call_another()
        self._tell_loop(self._one_stopped)

    def _sleep(self, lock: threading.Lock) -> None:
        self._asleep.append(lock)
        if (
            self._jobs or self._ends
        ):  # They came before another thread could see that this one sleeps.
            self._call_another()
        lock.acquire()
        self._is_woken = False  # Cleared before it checks.

    def _is_sent_away(self) -> bool:
        try:
            self._ends.pop()
        except IndexError:
            return False
        return True

    def _next_job(self) -> AnyJob | None:
        try:
            return self._jobs.popleft()
        except IndexError:
            return None

    def _do(self, job: AnyJob) -> None:
        if job.is_over:
            return
        began = self._now()
        verdict = self._run(job)
        seconds = self._now() - began
        self._are_short = seconds < _SHORT_SECONDS
        # Appended before the flag is read: the loop clears the flag and then looks for results.
        self._finished.append((job, verdict, seconds))
        # If calls are short and more jobs wait, the last call or the loop's check collects the results.
        is_next = self._jobs and self._are_short and self._is_looking
        if not (is_next or self._is_collecting):
            self._is_collecting = True
            self._tell_loop(self._collect)

    def _tell_loop(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            _log.debug("a listener ended after its consumer's loop")

    def _collect(self) -> None:
        self._is_collecting = False
        while self._finished:
            self._done(*self._finished.popleft())

    def _one_stopped(self) -> None:
        self._alive -= 1
        if not self._alive:
            self._stopped.set()

    def forget(self) -> None:
        """Drop the jobs that have not started."""
        self._jobs.clear()

    async def close(self, timeout_ms: int) -> None:
        """Start no further job, and wait at most `timeout_ms` ms for the running ones; then continue without them."""
        self.forget()
        self._end(self._alive - len(self._ends))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._stopped.wait()
        except TimeoutError:
            _log.warning(
                "Listeners still run %s ms after close; the consumer closes without them",
                timeout_ms,
            )
        self._collect()


_LOOKS = 15  # Per timeout; Java: one.

# Sends a message back for redelivery; returns whether a broker accepted it.
GiveBack = Callable[[StoredMessage], Awaitable[bool]]


class ConsumeTimeout:
    """The running listener calls of a consumer; call `look` every `look_every_ms` ms to send back late messages.

    A listener that hangs keeps its messages and blocks the committed offset of the queue. Unless broadcasting, they are
    sent back after consumeTimeout, mostly with delay level 3; if that succeeds for all, the listener's result is ignored.
    Follows ProcessQueue.cleanExpiredMsg of RocketMQ 5.3.3.
    """

    def __init__(self, timeout_ms: int, clock: Clock, give_back: GiveBack) -> None:
        self.look_every_ms = max(timeout_ms // _LOOKS, 1)
        self._timeout_ms = timeout_ms
        self._now = clock.monotonic
        self._give_back = give_back
        # By the id of a job: the start of its call, the job, and its messages that were not sent back.
        self._running: dict[int, tuple[float, ListenerJob, list[StoredMessage]]] = {}

    def begin(self, job: ListenerJob) -> None:
        """Record the start of a listener call; from any thread."""
        self._running[id(job)] = self._now(), job, list(job.messages)

    def end(self, job: ListenerJob) -> list[StoredMessage]:
        """Stop watching a listener call; return the messages that its result concerns: those that were not sent back."""
        watched = self._running.pop(id(job), None)
        return [] if watched is None else watched[2]

    def is_any(self) -> bool:
        """Return whether a listener call is watched: it has begun, has not ended, and `look` has not given it up."""
        return bool(self._running)

    async def look(self) -> None:
        """Send back the messages of calls that exceed the timeout; only forget those whose queue was given up."""
        before = self._now() - self._timeout_ms / 1000
        for began, job, left in list(self._running.values()):
            if began >= before:
                continue
            if job.loop.is_dropped:  # The queue now belongs to another member.
                self.end(job)
                continue
            for message in list(left):
                if id(job) not in self._running:
                    break  # The call has ended meanwhile.
                _log.warning(
                    "A listener has worked on %s for more than %d ms; the message is sent back for a retry",
                    message_name(message), self._timeout_ms,
                )  # fmt: skip
                if await self._give_back(message) and id(job) in self._running:
                    left.remove(message)
                    job.loop.finish(job.process_queue, [message.queue_offset])
            if not left:
                self.end(job)
