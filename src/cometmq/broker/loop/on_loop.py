"""Machines on asyncio's loop: the one place where the broker's machines meet sleeps, threads and futures."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

from cometmq.broker.loop.runner import REST_SECONDS, KeptMachine, StepsRun, Timers, World
from cometmq.broker.loop.steps import Steps
from cometmq.store.position_waiters import OnDone
from cometmq.store.positions import Durability

T = TypeVar("T")


class WaitedLog(Protocol):
    """The log as waiters see it: a broker's store."""

    @property
    def max_offset(self) -> int:
        """Behind all that is written."""
        ...

    def wait_flushed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is on the device up to an offset."""
        ...

    def wait_confirmed(self, end_offset: int, on_done: OnDone) -> None:
        """Call back when the log is confirmed up to an offset."""
        ...


class _LoopTimers:
    """Timers of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.monotonic = loop.time

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """See `Timers`."""
        return self._loop.call_later(seconds, callback).cancel


class LoopWorld:
    """The `World` of a broker that serves: the loop that runs, and its pool of readers."""

    def __init__(
        self, pool: Executor | None, store: WaitedLog, *, timers: Timers | None = None
    ) -> None:
        """The pool may be the loop's own (None), and so are timers."""
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._store = store
        self._timers = timers or _LoopTimers(self._loop)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._timers.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back after some time; what it gives takes that back."""
        return self._timers.call_later(seconds, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in the loop's next turn."""
        self._loop.call_soon(callback)

    def elsewhere(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Do `work` in the pool; call back on the loop."""

        def came(future: "asyncio.Future[Any]") -> None:
            error = future.exception()
            done(None if error is not None else future.result(), error)

        self._loop.run_in_executor(self._pool, work).add_done_callback(came)

    def on_device(self, end_offset: int | None, done: Callable[[bool], None]) -> None:
        """Call back when the log is on the device up to here, or will not be in time."""
        end = self._store.max_offset if end_offset is None else end_offset
        self._store.wait_flushed(
            end, lambda durability: self._later(done, durability is Durability.OK)
        )

    def confirmed(self, end_offset: int, done: Callable[[Durability], None]) -> None:
        """Call back when the log is confirmed up to here, or will not be in time."""
        self._store.wait_confirmed(end_offset, lambda durability: self._later(done, durability))

    def _later(self, done: Callable[[Any], None], outcome: object) -> None:
        """The store may know at once, and steps go on in a turn of their own."""
        self._loop.call_soon(done, outcome)


class Machines:
    """The machines of one owner: begun by it, and ended with it."""

    def __init__(self, world: World, owner: str) -> None:
        """`owner` is the first word of each machine's name in the log."""
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
        """Take a step again and again, until `close`; gives what wakes the machine.

        Args:
            name: for the log.
            step: gives the seconds until the next one, or steps to that; `NEVER`: until a wake.
            first_seconds: until the first one.
            rest_seconds: until the next one after an error.
            period_seconds: a wake has no step taken sooner after the last one.
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
        """Take steps to their end, whoever waits for it or goes away."""
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # Not the future that is given: who was waiting may cancel that one.
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

    def answer(self, steps: Steps[T]) -> "T | asyncio.Future[T]":
        """Take steps to their end; what came of them, at once where they wait for nothing.

        Raises:
            Exception: what they raise before their first wait.
        """
        future = self.run(steps)
        if not future.done():
            return future
        error = future.exception()
        if error is None:
            return future.result()
        try:
            raise error
        finally:
            # The error knows this frame; a frame that knew the error would leave both to the collector.
            del error, future

    async def close(self) -> None:
        """Stop what is kept, and wait for what is on its way."""
        for machine in self._kept:
            stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._under_way.add(stopped)
            machine.stop(lambda stopped=stopped: stopped.set_result(None))  # type: ignore[misc]
        self._kept = []
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._under_way = set()
