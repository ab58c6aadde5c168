"""Runs a listener on messages, several at once: in threads where it is a `def`, else on the loop.

What its answers mean, `cometmq.client.consumer.listeners` says.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from cometmq.client.consumer.listeners import ListenerCall, ListenerVerdict
from cometmq.client.consumer.pop.pop_loop import PopLoop
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.pull.pull_loop import PullLoop
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage
from cometmq.net.loop import may_have_threads
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)


class ListenerJob(NamedTuple):
    """Messages for one call of the listener, and where they came from."""

    loop: PullLoop
    process_queue: ProcessQueue
    messages: list[StoredMessage]

    @property
    def is_over(self) -> bool:
        """Whether the queue is somebody else's by now."""
        return self.loop.is_dropped


class PopJob(NamedTuple):
    """Popped messages for one call of the listener, and where they came from."""

    loop: PopLoop
    messages: list[StoredMessage]

    @property
    def is_over(self) -> bool:
        """Whether the invisible time of the messages is over."""
        return self.loop.is_over(self.messages)


AnyJob = ListenerJob | PopJob

# Takes a job, its verdict, and the seconds that the call took; called on the event loop.
Done = Callable[[AnyJob, ListenerVerdict, float], None]


class Workers(Protocol):
    """The threads or tasks that run the listener."""

    def submit(self, job: ListenerJob) -> None:
        """Run the listener on a job as soon as someone is free; `Done` is called in the end."""
        ...

    def forget(self) -> None:
        """Forget the jobs that no listener has begun."""
        ...

    async def close(self, timeout_ms: int) -> None:
        """Begin no further job, and wait for those under way, but not longer than this."""
        ...


def make_workers(
    call: ListenerCall,
    *,
    concurrency: int,
    done: Done,
    clock: Clock,
    begin: Callable[[AnyJob], None] = lambda _job: None,
) -> Workers:
    """The workers that suit a listener; `begin` is told of each job in the listener's thread."""

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
    """Tasks that await an `async def` listener."""

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
        """Set the number of workers; those at work finish first."""
        for number in range(self._concurrency, concurrency):
            self._workers.append(self._tasks.spawn(self._work(), str(number)))
        for _ in range(concurrency, self._concurrency):
            self._jobs.put_nowait(None)
        self._concurrency = concurrency
        self._workers = [task for task in self._workers if not task.done()]

    def submit(self, job: AnyJob) -> None:
        """Hand a job to the next free task."""
        self._jobs.put_nowait(job)

    async def _work(self) -> None:
        while (job := await self._jobs.get()) is not None:
            if job.is_over:
                continue
            began = self._now()
            verdict = await self._run(job)
            self._done(job, verdict, self._now() - began)

    def forget(self) -> None:
        """Forget the jobs that no listener has begun."""
        while not self._jobs.empty():
            self._jobs.get_nowait()

    async def close(self, timeout_ms: int) -> None:
        """Close the workers, as `Workers.close`."""
        self.forget()
        for _ in self._workers:
            self._jobs.put_nowait(None)
        await asyncio.wait(self._workers, timeout=timeout_ms / 1000)
        await self._tasks.close()


# A listener's call that is over sooner than another thread would be awake, seconds.
_SHORT_SECONDS = 50e-6
# How long jobs wait at most where calls were short and one is not, seconds.
_LOOK_SECONDS = 1e-3


class ThreadWorkers:
    """Threads that call a `def` listener.

    Jobs wait in a deque. One thread is woken at the end of the loop's turn that brought them, and each that takes a
    job wakes another while more are waiting: listeners that block run beside each other. Where calls are short that would
    only have threads get in each other's way, so one thread does them all, and the loop looks soon whether it does. It is the one
    that fell asleep last, whose memory is nearest. Results come back to the loop in bunches: one call serves all that
    finished meanwhile.
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
        # Of threads that sleep, each its own, which is released to wake it. A queue that all of them wait at wakes two for one.
        self._asleep: deque[threading.Lock] = deque()
        self._is_woken = False  # One, which has not looked yet.
        self._ends: deque[None] = deque()  # One for each thread that shall end.
        self._finished: deque[tuple[AnyJob, ListenerVerdict, float]] = deque()
        self._is_collecting = False
        self._is_calling = False  # At the end of this turn of the loop.
        self._is_looking = False  # Soon.
        self._taken = self._seen = (
            0  # Jobs that threads have taken, and how many these were at the last look.
        )
        self._are_short = False  # Calls, as the last that ended.
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._alive = 0  # Those that have not said that they ended.
        self._concurrency = 0
        self.resize(concurrency)

    def resize(self, concurrency: int) -> None:
        """Set the number of workers; those at work finish first."""
        for number in range(self._concurrency, concurrency):
            self._alive += 1
            name = f"listener-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._end(self._concurrency - concurrency)
        self._concurrency = concurrency

    def submit(self, job: AnyJob) -> None:
        """Hand a job to the next free thread."""
        self._jobs.append(job)
        if not self._is_calling:
            self._is_calling = True
            self._loop.call_soon(self._call_for_turn)

    def _call_for_turn(self) -> None:
        """Wake a thread for all jobs of this turn of the loop."""
        self._is_calling = False
        if len(self._jobs) > 1 and not self._is_looking:
            self._look_soon()
        if self._jobs:
            self._call_another()

    def _look_soon(self) -> None:
        self._is_looking, self._seen = True, self._taken
        self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Wake another thread where none has got on with the jobs, and look again where one has."""
        # Before the look at them: whoever sees this wakes another, and tells its results, itself.
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
        # Invariant: where a job waits, a thread is on its way to look, or the loop is. One that was woken and has not
        # looked yet serves for this job as well.
        if self._is_woken:
            return
        try:
            lock = self._asleep.pop()
        except IndexError:  # Each that is awake looks again before it sleeps.
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
        if self._jobs or self._ends:  # It may be the one that was woken for them.
            self._call_another()
        self._tell_loop(self._one_stopped)

    def _sleep(self, lock: threading.Lock) -> None:
        self._asleep.append(lock)
        if self._jobs or self._ends:  # They came before anybody could see that it sleeps.
            self._call_another()
        lock.acquire()
        self._is_woken = False  # Before it looks.

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
        # Before the look at the flag: who lowers it looks for results afterwards.
        self._finished.append((job, verdict, seconds))
        # Where calls are short and more of them wait, the last one tells, or the look does.
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
        """Forget the jobs that no listener has begun."""
        self._jobs.clear()

    async def close(self, timeout_ms: int) -> None:
        """Close the workers, as `Workers.close`."""
        self.forget()
        self._end(self._alive - len(self._ends))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._stopped.wait()
        except TimeoutError:
            _log.warning(
                "listeners still ran %s ms after close; not waiting longer", timeout_ms
            )
        self._collect()
