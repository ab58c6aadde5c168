"""Runs steps (generators of waits) and background jobs (`KeptMachine`): timers, threads, and retries after errors.

This module does no I/O: it uses a `World` (time, threads, disk). The broker's is asyncio's loop (`steps.on_loop`); a
test's is a clock that the test controls (tests/support/hand_world).
"""

import logging
import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from cometmq.model.errors import CometError
from cometmq.steps.steps import (
    CallBack,
    Confirmed,
    Done,
    Elsewhere,
    OnDevice,
    Steps,
    TurnEnd,
    Wait,
    called_back,
)
from cometmq.store.positions import Durability

_log = logging.getLogger(__name__)

T = TypeVar("T")

REST_SECONDS = 1.0  # After an error.
NEVER = math.inf  # The pause of a job that has nothing to do until it is woken.


class Timers(Protocol):
    """Interface of a clock with timers."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back after `seconds`; calling the result cancels the callback."""


class World(Timers, Protocol):
    """Interface to time, threads and disk for steps that wait; no callback is made within the call that requests it."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in the loop's next iteration."""

    def elsewhere(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `work` in a thread; call `done` with its result, or None and its error."""

    def on_device(self, end_offset: int | None, done: Callable[[bool], None]) -> None:
        """Call `done` with True once the log is flushed up to an offset (None: its end), False if late or failed."""

    def confirmed(self, end_offset: int, done: Callable[[Durability], None]) -> None:
        """Call `done` with a `Durability`: OK when messages up to an offset may be acknowledged, else why not in time."""


class StepsRun(Generic[T]):
    """One run of a generator of steps, until it returns, raises or is stopped."""

    __slots__ = ("_ended", "_is_over", "_steps", "_stopped", "_waits_for", "_world")

    def __init__(
        self,
        world: World,
        steps: Steps[T],
        ended: Callable[[T | None, BaseException | None], None],
    ) -> None:
        """Create a run; `ended` is called once with the result or the error, unless the steps are stopped before."""
        self._world = world
        self._steps = steps
        self._ended = ended
        self._waits_for: Wait | None = None
        self._stopped: Callable[[], None] | None = None
        self._is_over = False

    def go_on(self, result: Any = None, error: BaseException | None = None) -> None:
        """Run the generator to its next wait or end, unless stopped; the arguments are the outcome of the last wait."""
        if self._is_over:
            return  # They were stopped, but what they waited for still came.
        self._waits_for = None
        if self._stopped is not None:
            self._end()
            self._stopped()
            return
        try:
            wait = self._steps.send(result) if error is None else self._steps.throw(error)
        except StopIteration as end:
            self._tell_end(end.value, None)
        except CometError as refused:
            # Without its frames: through them it would refer to its waiters, which refer to it, and only the garbage collector
            # frees such a cycle. A peer may cause thousands a second.
            refused.__context__ = refused.__cause__ = None
            self._tell_end(None, refused.with_traceback(None))
        except Exception as raised:  # noqa: BLE001  The caller handles it.
            self._tell_end(None, raised)
        else:
            self.begin(wait)

    def _tell_end(self, result: T | None, error: BaseException | None) -> None:
        self._is_over = True
        ended = self._ended
        del self._ended  # It refers to the waiter.
        ended(result, error)

    def begin(self, wait: Wait) -> None:
        """Begin a wait; called from outside only if the caller has itself advanced the steps to their first wait."""
        self._waits_for = wait
        match wait:
            case Elsewhere(work):
                self._world.elsewhere(work, self.go_on)
            case OnDevice(end_offset):
                self._world.on_device(end_offset, self.go_on)
            case Confirmed(end_offset):
                self._world.confirmed(end_offset, self.go_on)
            case TurnEnd():
                self._world.call_soon(self.go_on)
            case CallBack(begin, seconds):
                done: Done = self.go_on
                if seconds is not None:
                    done = _Limited(self._world, seconds, done).done
                try:
                    begin(done)
                except Exception as error:  # noqa: BLE001  The steps handle it.
                    done(None, error)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Stop the generator at its current wait, then call `stopped`: at once, or when work in a thread has ended."""
        assert not self._is_over, "steps that ended have nothing to stop"
        if isinstance(self._waits_for, Elsewhere):
            self._stopped = stopped
        else:
            self._end()
            stopped()

    def _end(self) -> None:
        self._is_over = True
        self._steps.close()


class _Limited:
    """A wait for an operation with a time limit: its outcome or a TimeoutError, whichever comes first."""

    __slots__ = ("_cancel", "_go_on")

    def __init__(self, world: World, seconds: float, go_on: Done) -> None:
        self._go_on: Done | None = go_on
        self._cancel = world.call_later(seconds, self._late)

    def done(self, result: Any, error: BaseException | None) -> None:
        go_on, self._go_on = self._go_on, None
        if go_on is not None:
            self._cancel()
            go_on(result, error)

    def _late(self) -> None:
        self.done(None, TimeoutError())


def together(world: World, several: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Yield a wait for several generators of steps that run at the same time; return a list of their results in order.

    If some fail, raise the error that came first, but only after all have run to their end.
    """
    results: list[Any] = [None] * len(several)
    errors: list[BaseException] = []
    left = len(several)

    def begin(done: Done) -> None:
        def ended(number: int, result: Any, error: BaseException | None) -> None:
            nonlocal left
            left -= 1
            results[number] = result
            if error is not None:
                errors.append(error)
            if not left:
                done(None, errors[0] if errors else None)

        for number, steps in enumerate(several):
            StepsRun(world, steps, partial(ended, number)).go_on()

    if several:
        yield from called_back(begin)
    return results


class KeptMachine:
    """A background job: a step that is called repeatedly, with the pause that each call returns.

    Code that adds work for a job must wake it. A wake during a step leads to another step, because the current one may
    have missed the new work.
    """

    def __init__(
        self,
        world: World,
        name: str,
        step: Callable[[], Steps[float] | float],
        *,
        rest_seconds: float = REST_SECONDS,
        period_seconds: float = 0.0,
    ) -> None:
        self.name = name
        self._world = world
        self._step = step
        self._rest_seconds = rest_seconds
        self._period_seconds = period_seconds
        self._run: StepsRun[float] | None = None
        self._take_back: Callable[[], object] | None = None
        self._is_stopped = False
        self._is_asleep = False
        # Monotonic seconds: the next step while asleep; the earliest time of a step even if woken;
        self._due = NEVER
        self._earliest = 0.0
        self._wanted = NEVER  # the wake-up that was requested while awake.

    def begin(self, pause_seconds: float = 0.0) -> None:
        """Schedule the job's first step after a pause, which a wake may shorten to the job's period."""
        self._sleep(pause_seconds, min(pause_seconds, self._period_seconds))

    def wake(self) -> None:
        """Schedule the next step for now, or for when the running one, the period or an error's pause has ended."""
        self.wake_at(-NEVER)

    def wake_at(self, due: float) -> None:
        """Run a step at `due` (monotonic seconds) unless one begins earlier; then the request is forgotten.

        As with `wake`, the period since the last step, or the pause after an error, must have passed.
        """
        if not self._is_asleep:
            self._wanted = min(self._wanted, due)
            return
        due = max(due, self._earliest)
        if due < self._due:
            self._set_timer(due, max(due - self._world.monotonic(), 0.0))

    def _sleep(self, pause_seconds: float, least_seconds: float) -> None:
        """Schedule the next step after a pause, which a wake may shorten to `least_seconds`."""
        now = self._world.monotonic()
        self._is_asleep = True
        self._earliest = now + least_seconds
        if self._wanted < now + pause_seconds:
            pause_seconds = max(self._wanted - now, least_seconds)
        self._set_timer(now + pause_seconds, pause_seconds)

    def _set_timer(self, due: float, pause_seconds: float) -> None:
        if self._take_back is not None:
            self._take_back()
            self._take_back = None
        self._due = due
        if due < NEVER:
            self._take_back = self._world.call_later(pause_seconds, self._take_step)

    def _take_step(self) -> None:
        self._take_back = None
        self._is_asleep = False
        self._wanted = NEVER
        try:
            made = self._step()
        except Exception as error:  # noqa: BLE001  See _pause_after.
            self._next(None, error)
            return
        if isinstance(made, Generator):
            self._run = StepsRun(self._world, made, self._next)
            self._run.go_on()
        else:
            self._next(made, None)

    def _next(self, pause_seconds: float | None, error: BaseException | None) -> None:
        self._run = None
        if error is not None:
            # A wake does not shorten this pause; the step would probably fail again.
            rest = self._pause_after(error)
            pause_seconds = least_seconds = rest
        else:
            assert pause_seconds is not None
            least_seconds = min(pause_seconds, self._period_seconds)
        if not self._is_stopped:
            self._sleep(pause_seconds, least_seconds)

    def _pause_after(self, error: BaseException) -> float:
        """Log the error of a step and return the pause in seconds after which the job tries again."""
        rest = self._rest_seconds
        if isinstance(error, (CometError, OSError)):
            _log.warning("%s: %s; next try in %g s", self.name, error, rest)
        else:
            _log.error("%s failed; next try in %g s", self.name, rest, exc_info=error)
        return rest

    def stop(self, stopped: Callable[[], None]) -> None:
        """Stop the job; `stopped` is called when nothing of the current step is running any more."""
        self._is_stopped = True
        self._is_asleep = False
        if self._take_back is not None:
            self._take_back()
            self._take_back = None
        if self._run is None:
            stopped()
        else:
            self._run.stop(stopped)
