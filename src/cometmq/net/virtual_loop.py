"""An event loop under virtual time: instead of waiting, it advances the clock to the next timer.

Everything runs on one thread, with connections in memory and random numbers from a seed. Days pass in moments, and a
program repeats with the same seed as far as it takes time and chance from the loop. Code and files are real. Computing
takes no virtual time; an iteration usually takes `TURN_SECONDS` or more, so a program that polls for a time reaches it.

Idle days can be skipped. Periodic work that changes nothing on an idle system (heartbeats, renewed long polls) uses
*beats*: timers set by `beat_later` instead of `call_later`. After `QUIET_SECONDS` with only beats, a loop with
`has_leaps` goes to the next other timer at once. Wall clock and the loop's `time` advance then, but the monotonic clock
stands still, as on a sleeping machine: deadlines, leases and beats, which use it, continue with the same time left.
"""

import asyncio
import heapq
import itertools
import random
import selectors
from collections.abc import Callable
from math import inf
from typing import Any

from cometmq.net.memory_network import MemoryNetwork

# Wall clock (2026-01-01 00:00 UTC, in ms since 1970) and monotonic clock (seconds) at the start.
START_MS = 1_767_225_600_000
_START_SECONDS = 1_000.0
TURN_SECONDS = 1e-6
# Leap after this many seconds with only beats. Every chain of beats is shorter: a broker may be silent for 120 s,
# routes are fetched every 30 s, queues are rebalanced every 20 s.
QUIET_SECONDS = 300.0
# Longer timers are no beats, so that each beat runs at least once before a leap.
BEAT_SECONDS_MAX = QUIET_SECONDS / 2


class LoopDeadlock(RuntimeError):
    """Error of a loop that would wait forever: all tasks wait, without a timer (with leaps: for long only beats)."""


class _PassingSelector(selectors.DefaultSelector):
    """A selector that advances virtual time instead of waiting."""

    def __init__(self, let_pass: Callable[[float | None], None]) -> None:
        super().__init__()
        self._let_pass = let_pass

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            self._let_pass(timeout)
        return ready


class VirtualClock:
    """The clock of a virtual loop (a `model.clock.Clock`)."""

    is_steady = True

    def __init__(self, start_ms: int) -> None:
        """Set the wall time, in ms since 1970; the clock advances only through `turn` and `leap`."""
        self._start_ms = start_ms
        self._seconds = _START_SECONDS
        self._leapt = 0.0

    def now_ms(self) -> int:
        """Return the wall time in ms since 1970."""
        return self._start_ms + int((self._seconds - _START_SECONDS) * 1000)

    def monotonic(self) -> float:
        """Return seconds that never decrease; idle time that was skipped does not count."""
        return self._seconds - self._leapt

    def boot_ms(self) -> int:
        """Return ms that never decrease; idle time that was skipped counts."""
        return int(self._seconds * 1000)

    def all_seconds(self) -> float:
        """Return seconds that never decrease; idle time that was skipped counts."""
        return self._seconds

    def turn(self, seconds: float) -> None:
        """Advance wall clock, monotonic clock and loop time by some seconds."""
        self._seconds += seconds

    def leap(self, seconds: float) -> None:
        """Advance wall clock and loop time, but not the monotonic clock, over a time without activity."""
        self._seconds += seconds
        self._leapt += seconds


class Beat:
    """A timer of the monotonic clock for periodic work; a virtual loop may skip idle time despite it."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the beat."""
        self.call = None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop under virtual time.

    Attributes:
        network: Connections between the programs on the loop.
        chance: Source of the programs' random numbers.
        executor_seconds: Virtual seconds before a function for an executor runs; other work continues meanwhile.
    """

    def __init__(
        self, *, seed: int = 0, start_ms: int = START_MS, has_leaps: bool = False
    ) -> None:
        """Create a loop, for example by `Runner(loop_factory=VirtualLoop)`; with `has_leaps` it skips idle times."""
        self.clock = VirtualClock(start_ms)
        self.chance = random.Random(seed)  # noqa: S311  To repeat a run.
        self._beats: list[tuple[float, int, Beat]] = []
        self._beat_numbers = itertools.count()
        self._quiet_since = inf if not has_leaps else self.clock.monotonic()
        self._has_leaps = has_leaps
        super().__init__(_PassingSelector(self._let_pass))
        self.network = MemoryNetwork(self)
        self.executor_seconds = 0.0

    def time(self) -> float:
        """Return seconds that never decrease; idle time that was skipped counts."""
        return self.clock.all_seconds()

    def run_forever(self) -> None:
        """Run until the loop is stopped; work of the caller between two runs counts as activity."""
        self.not_quiet()
        super().run_forever()

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call back at `when`, a time as `time` returns it; a leap never passes such a timer."""
        self.not_quiet()
        return super().call_at(when, self._call_timer, callback, *args, context=context)

    def _call_timer(self, callback: Callable[..., Any], *args: Any) -> None:
        self.not_quiet()
        callback(*args)

    def beat_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back after `seconds` of the monotonic clock (over 150: by `call_later`); return a function to cancel."""
        if seconds > BEAT_SECONDS_MAX:
            return self.call_later(seconds, callback).cancel
        beat = Beat(self.clock.monotonic() + max(seconds, 0.0), callback)
        heapq.heappush(self._beats, (beat.due, next(self._beat_numbers), beat))
        return beat.cancel

    def not_quiet(self) -> None:
        """Record activity other than beats, which prevents a leap for QUIET_SECONDS."""
        if self._has_leaps:
            self._quiet_since = self.clock.monotonic()

    def _let_pass(self, timeout: float | None) -> None:
        """Advance to the next beat or the end of `timeout`, whichever is first, or leap to the latter over beats.

        Raises LoopDeadlock if neither is to come or, with leaps, if there have been only beats for long.
        """
        clock, beats = self.clock, self._beats
        while beats and beats[0][2].call is None:
            heapq.heappop(beats)
        until_beat = beats[0][2].due - clock.monotonic() if beats else inf
        until_timer = inf if timeout is None else timeout or TURN_SECONDS
        is_quiet = clock.monotonic() - self._quiet_since >= QUIET_SECONDS
        if until_timer == inf and (not beats or is_quiet):
            raise LoopDeadlock(
                "every task waits, but no event is pending on this loop and no timer is set"
            )
        if is_quiet and until_beat < until_timer:
            clock.leap(until_timer)
            return
        # Advance by at least one iteration; a beat that runs early by a rounding error would be set again for now.
        clock.turn(max(min(until_timer, until_beat), TURN_SECONDS))
        while beats and beats[0][0] <= clock.monotonic():
            due = heapq.heappop(beats)[2]
            if due.call is not None:
                self.call_soon(self._call_beat, due)

    def _call_beat(self, beat: Beat) -> None:
        if beat.call is not None:
            beat.call()

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,
        func: Callable[..., Any],
        *args: Any,
    ) -> "asyncio.Future[Any]":
        """Call a function soon or after `executor_seconds`, on this thread; return a future for its result."""
        called: asyncio.Future[Any] = self.create_future()

        def call() -> None:
            if called.cancelled():
                return
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  Reported through the future.
                called.set_exception(error)
            else:
                called.set_result(result)

        if self.executor_seconds:
            self.call_later(self.executor_seconds, call)
        else:
            self.call_soon(call)
        return called

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: str,
        port: int,
        *,
        ssl: object = None,
        local_addr: tuple[str, int] | None = None,
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a program on this loop, without TLS; return (transport, protocol) as `MemoryNetwork.connect`."""
        assert ssl is None, "connections in memory have no TLS"
        if local_addr is None:
            return await self.network.connect(protocol_factory, host, port)
        return await self.network.connect(protocol_factory, host, port, local_addr[0])
