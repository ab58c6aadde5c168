"""A `World` of the broker's machines without a loop, a thread or a second: only the test goes on."""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVar

from cometmq.steps.runner import StepsRun
from cometmq.steps.steps import Steps
from cometmq.store.positions import Durability
from tests.support.hand_clock import HandClock

T = TypeVar("T")


class HandWorld:
    """Time is a hand clock; work elsewhere is done when its turn comes, in order or as a seed says.

    Attributes:
        clock: what `pass_time` turns.
        is_flushed: what a wait for the device is told; None: it waits until `flush`.
        sleeps: each pause that was asked for, in order.
    """

    def __init__(self, clock: HandClock | None = None, *, chance: Random | None = None) -> None:
        self.clock = clock or HandClock()
        self.is_flushed: bool | None = True
        self.sleeps: list[float] = []
        self._chance = chance
        self._number = count()
        self._timers: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._soon: list[Callable[[], None]] = []
        self._for_device: list[Callable[[bool], None]] = []

    # --- the World

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        self.sleeps.append(seconds)
        entry = [callback]
        heappush(self._timers, (self.clock.monotonic() + seconds, next(self._number), entry))
        return entry.clear

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def elsewhere(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        def do() -> None:
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)

        self._soon.append(do)

    def on_device(self, end_offset: int | None, done: Callable[[bool], None]) -> None:
        if self.is_flushed is None:
            self._for_device.append(done)
        else:
            self._soon.append(partial(done, self.is_flushed))

    def confirmed(self, end_offset: int, done: Callable[[Durability], None]) -> None:
        self.on_device(
            end_offset,
            lambda is_there: done(Durability.OK if is_there else Durability.DISK_LATE),
        )

    # --- the test

    def run(self, steps: Steps[T]) -> T:
        """Take steps to their end, as far as no time is needed."""
        outcome = self.begin(steps)
        self.settle()
        return outcome.get()

    def begin(self, steps: Steps[T]) -> "Outcome":
        """Take steps up to their first wait."""
        outcome: Outcome = Outcome()
        StepsRun(self, steps, outcome.take).go_on()
        return outcome

    def turn(self) -> bool:
        """Do one thing that can be done now; whether there was one."""
        if not self._soon:
            return False
        place = 0 if self._chance is None else self._chance.randrange(len(self._soon))
        self._soon.pop(place)()
        return True

    def settle(self) -> None:
        """Do all that can be done without time."""
        while self.turn():
            pass

    def flush(self, *, is_there: bool = True) -> None:
        """Tell those who wait for the device."""
        waiting, self._for_device = self._for_device, []
        for done in waiting:
            done(is_there)
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time go by, with everything that falls into it at its moment."""
        end = self.clock.monotonic() + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= end:
            when, _, entry = heappop(self._timers)
            self.clock.turn(max(when - self.clock.monotonic(), 0.0))
            for callback in entry:
                callback()
            self.settle()
        self.clock.turn(end - self.clock.monotonic())

    @property
    def timers(self) -> int:
        """How many pauses are running."""
        return sum(bool(entry) for _, _, entry in self._timers)


class Outcome:
    """What came of steps."""

    is_over = False
    result: Any = None
    error: BaseException | None = None

    def take(self, result: Any, error: BaseException | None) -> None:
        assert not self.is_over, "steps end once"
        self.is_over, self.result, self.error = True, result, error

    def get(self) -> Any:
        assert self.is_over, "the steps wait for something that has not come"
        if self.error is not None:
            raise self.error
        return self.result
