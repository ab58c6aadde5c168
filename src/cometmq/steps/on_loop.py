"""Runs steps on asyncio's loop: their timers, threads and waits for the log (`LoopWorld`), and background jobs."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

from cometmq.steps.runner import REST_SECONDS, KeptMachine, StepsRun, Timers, World
from cometmq.steps.steps import Steps
from cometmq.store.position_waiters import OnDone
from cometmq.store.positions import Durability

T = TypeVar("T")


class WaitedLog(Protocol):
    """Interface of the commit log that steps wait for: its end, and waits until it is flushed or confirmed."""

    @property
    def max_offset(self) -> int:
        """Physical offset of the end of everything written to the commit log."""

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back with a `Durability` when the log is flushed up to an offset, or that has failed or is late."""

    def wait_confirmed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back with a `Durability` when the log is confirmed up to an offset, or that has failed or is late."""


class _LoopTimers:
    """The clock and timers of an asyncio event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.monotonic = loop.time

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        return self._loop.call_later(seconds, callback).cancel


class LoopWorld:
    """The `World` (time, threads and disk) of a running server: its event loop and its pool of threads."""

    def __init__(
        self,
        pool: Executor | None = None,
        store: WaitedLog | None = None,
        *,
        timers: Timers | None = None,
    ) -> None:
        """Use the running event loop for steps (generators, `steps.steps`).

        Args:
            pool: Threads for `elsewhere`; None: the loop's default pool.
            store: Log that `on_device` and `confirmed` wait for; None: do not call these.
            timers: Clock and timers; None: the loop's.
        """
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._store = store
        self._timers = timers or _LoopTimers(self._loop)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._timers.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back after `seconds`; calling the result cancels the callback."""
        return self._timers.call_later(seconds, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in the loop's next iteration."""
        self._loop.call_soon(callback)

    def elsewhere(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `work` in a thread of the pool; call `done` on the loop with its result, or None and its error."""

        def came(future: "asyncio.Future[Any]") -> None:
            error = future.exception()
            done(None if error is not None else future.result(), error)

        self._loop.run_in_executor(self._pool, work).add_done_callback(came)

    def on_device(self, end_offset: int | None, done: Callable[[bool], None]) -> None:
        """Call `done` with True once the log is flushed up to an offset (None: its end), False if late or failed."""
        assert self._store is not None
        end = self._store.max_offset if end_offset is None else end_offset
        self._store.wait_flushed(
            end, lambda durability: self._later(done, durability is Durability.OK)
        )

    def confirmed(self, end_offset: int, done: Callable[[Durability], None]) -> None:
        """Call `done` with a `Durability`: OK when messages up to an offset may be acknowledged, else why not in time."""
        assert self._store is not None
        self._store.wait_confirmed(end_offset, lambda durability: self._later(done, durability))

    def _later(self, done: Callable[[Any], None], outcome: object) -> None:
        # Not now: the store may call back within the call, and a callback must come later.
        self._loop.call_soon(done, outcome)


# Runs steps to their end; the returned future gets the outcome (`Machines.run`).
RunSteps = Callable[[Steps[Any]], "asyncio.Future[Any]"]


class Machines:
    """The background jobs of one owner, and the generators of steps (`steps.steps`) that the owner runs once."""

    def __init__(self, world: World, owner: str) -> None:
        """Create an empty set of jobs; `owner` is the first word of each job's name in the log."""
        self._world = world
        self._owner = owner
        self._kept: list[KeptMachine] = []
        self._under_way: set[asyncio.Future[Any]] = set()

    def keep(
        self,
        name: str,
        step: Callable[[], Steps[float] | float],
        *,
        first_seconds: float = 0.0,
        rest_seconds: float = REST_SECONDS,
        period_seconds: float = 0.0,
    ) -> KeptMachine:
        """Run a step repeatedly until `close`; return the job, which can be woken.

        Args:
            name: Name for the log.
            step: Returns the seconds until the next call (directly or as steps); `NEVER`: only when woken.
            first_seconds: Seconds until the first call; a wake may shorten them, but not below `period_seconds`.
            rest_seconds: Seconds until the next call after an error; a wake does not shorten them.
            period_seconds: Shortest pause after a call if the job is woken; a call may return a shorter one.
        """
        machine = KeptMachine(
            self._world,
            f"{self._owner}/{name}",
            step,
            rest_seconds=rest_seconds,
            period_seconds=period_seconds,
        )
        self._kept.append(machine)
        machine.begin(first_seconds)
        return machine

    def run(self, steps: Steps[T]) -> "asyncio.Future[T]":
        """Run a generator of steps to its end, even if the returned future, which gets the outcome, is cancelled."""
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A separate future, because a waiter may cancel the one that is returned.
        under_way: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(under_way)

        def end(result: Any, error: BaseException | None) -> None:
            self._under_way.discard(under_way)
            under_way.set_result(None)
            if ended.done():
                return
            if error is None:
                ended.set_result(result)
            else:
                ended.set_exception(error)

        StepsRun(self._world, steps, end).go_on()
        return ended

    async def close(self) -> None:
        """Stop the background jobs at their current waits, and wait for the end of steps that `run` started.

        If a job waits for work in a thread, the end of that work is waited for, too.
        """
        for machine in self._kept:
            stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._under_way.add(stopped)
            machine.stop(lambda stopped=stopped: stopped.set_result(None))  # type: ignore[misc]
        self._kept = []
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._under_way = set()
