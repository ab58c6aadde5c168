"""An event loop under virtual time: nothing waits, the clock goes to the next timer instead.

Everything that runs on it runs on one thread, with connections in memory and chance from a seed: days pass in
moments, and the same program with the same seed does the same again. What is real is the code, and the files.
Computing takes no time here; a turn of the loop takes `TURN_SECONDS`, so that who looks again and again until
some time has passed comes to an end.

Days in which nothing happens are leapt over. What only says that nothing has changed (a heartbeat, a renewed long poll, a look
for who is silent) is a *beat*: it is set by `beat_later` and not by `call_later`. After `QUIET_SECONDS` of beats alone each of
them would do again what it did, so the loop leaps to the next timer that is no beat. In a leap the monotonic
clock stands, as that of a machine that sleeps: deadlines and leases, which it measures, are as long afterwards as they were
before, and beats, which go by it, go on where they were. The wall clock and the loop's `time` go on.
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

# When it begins: 2026-01-01 00:00 UTC, ms since 1970; and what the monotonic clock says then, seconds.
START_MS = 1_767_225_600_000
_START_SECONDS = 1_000.0
TURN_SECONDS = 1e-6
# Where nothing but beats has happened for so long, the loop leaps; the longest chain of them is shorter: a broker that is
# silent for 120 s, a route that is asked for each 30 s, queues that are shared out each 20 s.
QUIET_SECONDS = 300.0
# A longer one is no beat: each has come at least once before a leap.
BEAT_SECONDS_MAX = QUIET_SECONDS / 2


class LoopDeadlock(RuntimeError):
    """Everything on the loop waits for something, and no timer is set: it would wait for ever."""


class _PassingSelector(selectors.DefaultSelector):
    """Lets time pass where a selector would wait."""

    def __init__(self, let_pass: Callable[[float | None], None]) -> None:
        super().__init__()
        self._let_pass = let_pass

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            self._let_pass(timeout)
        return ready


class VirtualClock:
    """The time of a virtual loop (a `model.clock.Clock`)."""

    is_steady = True

    def __init__(self, start_ms: int) -> None:
        """Begin at a time; the clock stands until it is turned."""
        self._start_ms = start_ms
        self._seconds = _START_SECONDS
        self._leapt = 0.0

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        return self._start_ms + int((self._seconds - _START_SECONDS) * 1000)

    def monotonic(self) -> float:
        """Seconds that never go back, without those of leaps."""
        return self._seconds - self._leapt

    def all_seconds(self) -> float:
        """Seconds that never go back, with those of leaps."""
        return self._seconds

    def turn(self, seconds: float) -> None:
        """Turn the clock on by some seconds."""
        self._seconds += seconds

    def leap(self, seconds: float) -> None:
        """Turn the clock on by some seconds in which nothing happens."""
        self._seconds += seconds
        self._leapt += seconds


class Beat:
    """A timer by the monotonic clock; see the module."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the beat."""
        self.call = None


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop under virtual time.

    Attributes:
        clock: its time.
        network: connections between its programs.
        chance: what its programs leave to chance.
        executor_seconds: how long each function takes that is left to an executor; others go on meanwhile.
    """

    def __init__(
        self, *, seed: int = 0, start_ms: int = START_MS, has_leaps: bool = False
    ) -> None:
        """Make a loop to be run as any other, by `asyncio.Runner(loop_factory=VirtualLoop)` for example.

        With `has_leaps` quiet days are leapt over; else each beat of them comes.
        """
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
        """Seconds that never go back."""
        return self.clock.all_seconds()

    def run_forever(self) -> None:
        """Run until the loop is stopped; work that its caller did meanwhile ends the quiet."""
        self.not_quiet()
        super().run_forever()

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call back at a time of `time`; such a timer is never leapt over."""
        self.not_quiet()
        return super().call_at(when, self._call_timer, callback, *args, context=context)

    def _call_timer(self, callback: Callable[..., Any], *args: Any) -> None:
        self.not_quiet()
        callback(*args)

    def beat_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back after so many seconds of the monotonic clock; what it gives takes that back."""
        if seconds > BEAT_SECONDS_MAX:
            return self.call_later(seconds, callback).cancel
        beat = Beat(self.clock.monotonic() + max(seconds, 0.0), callback)
        heapq.heappush(self._beats, (beat.due, next(self._beat_numbers), beat))
        return beat.cancel

    def not_quiet(self) -> None:
        """Something happens that is no beat: there is no leap for a while."""
        if self._has_leaps:
            self._quiet_since = self.clock.monotonic()

    def _let_pass(self, timeout: float | None) -> None:
        """Go on to the next beat or the end of `timeout`, whatever comes first; or leap to the latter."""
        clock, beats = self.clock, self._beats
        while beats and beats[0][2].call is None:
            heapq.heappop(beats)
        until_beat = beats[0][2].due - clock.monotonic() if beats else inf
        until_timer = inf if timeout is None else timeout or TURN_SECONDS
        is_quiet = clock.monotonic() - self._quiet_since >= QUIET_SECONDS
        if until_timer == inf and (not beats or is_quiet):
            raise LoopDeadlock(
                "every task waits for something that nothing on this loop will bring, and no timer is set"
            )
        if is_quiet and until_beat < until_timer:
            clock.leap(until_timer)
            return
        # Never less than a turn: a beat that came early by the last digit of a time would be set again for now.
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
        """Call a function later, on this thread whatever the executor."""
        called: asyncio.Future[Any] = self.create_future()

        def call() -> None:
            if called.cancelled():
                return
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  It goes to whoever waits.
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
        """Connect to a program on this loop; there is no TLS in memory."""
        assert ssl is None, "connections in memory have no TLS"
        if local_addr is None:
            return await self.network.connect(protocol_factory, host, port)
        return await self.network.connect(protocol_factory, host, port, local_addr[0])
