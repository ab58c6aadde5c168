"""A thread that does one job at a time and passes the results to the event loop.

One for flushes (112 us this way, 140 us through an executor), another for files and checkpoints, which would delay them.
"""

import asyncio
import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from cometmq.net.loop import may_have_threads

_log = logging.getLogger(__name__)

# Gets the job's result, or None and its exception.
Done = Callable[[Any, Exception | None], None]


class Worker(Protocol):
    """A worker that does jobs one at a time."""

    def do(self, job: Callable[[], Any], done: Done) -> None:
        """Queue a job; after it, `done` is called on the loop with its result, or None and its exception."""
        ...

    def close(self) -> None:
        """End the worker; the caller should have waited for the results of its jobs."""
        ...


def start_worker(name: str) -> Worker:
    """Start and return a worker thread with this name; under virtual time, without threads, a worker on the event loop."""
    return WorkerThread(name) if may_have_threads() else WorkerOnLoop()


class WorkerOnLoop:
    """A worker without a thread, for a virtual loop, whose executors run each job on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def do(self, job: Callable[[], Any], done: Done) -> None:
        """Do `job`, then call `done` on the loop."""
        working = self._loop.run_in_executor(None, _outcome, job)
        working.add_done_callback(lambda worked: done(*worked.result()))

    def close(self) -> None:
        """Do nothing: there is no thread to end."""


class WorkerThread:
    """A worker with a thread of its own."""

    def __init__(self, name: str) -> None:
        """Start the thread; results go to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` in the thread, then `done` on the loop."""
        self._jobs.put((job, done))

    def close(self) -> None:
        """Wait until the queued jobs are finished and the thread has ended; results may reach the loop after this."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done = task
            self._loop.call_soon_threadsafe(done, *_outcome(job))


def _outcome(job: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return job(), None
    except Exception as error:  # noqa: BLE001  It goes to the owner of the job.
        return None, error
