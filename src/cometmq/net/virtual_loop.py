"""An event loop under virtual time: nothing waits, the clock goes to the next timer instead.

Everything that runs on it runs on one thread, with connections in memory and chance from a seed: days pass in
moments, and the same program with the same seed does the same again. What is real is the code, and the files.
Computing takes no time here; a turn of the loop takes `TURN_SECONDS`, so that who looks again and again until
some time has passed comes to an end.

Next: cometmq.net.memory_network
"""

import asyncio
import random
import selectors
from collections.abc import Callable
from typing import Any

from cometmq.net.memory_network import MemoryNetwork

# When it begins: 2026-01-01 00:00 UTC, ms since 1970; and what the monotonic clock says then, seconds.
START_MS = 1_767_225_600_000
_START_SECONDS = 1_000.0
TURN_SECONDS = 1e-6


class NothingWillHappen(RuntimeError):
    """Everything on the loop waits for something, and no timer is set: it would wait for ever."""


class _TurningSelector(selectors.DefaultSelector):
    """Turns the clock where a selector would wait."""

    def __init__(self, turn: Callable[[float], None]) -> None:
        super().__init__()
        self._turn = turn

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise NothingWillHappen(
                "every task waits for something that nothing on this loop will bring, and no timer is set"
            )
        self._turn(timeout or TURN_SECONDS)
        return ready


class VirtualClock:
    """The time of a virtual loop (a `model.clock.Clock`)."""

    is_steady = True

    def __init__(self, start_ms: int) -> None:
        """It stands until it is turned."""
        self._start_ms = start_ms
        self._seconds = _START_SECONDS

    def now_ms(self) -> int:
        """Wall time in ms since 1970."""
        return self._start_ms + int((self._seconds - _START_SECONDS) * 1000)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._seconds

    def turn(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._seconds += seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop under virtual time.

    Attributes:
        clock: its time.
        network: connections between its programs.
        chance: what its programs leave to chance.
        executor_seconds: how long each function takes that is left to an executor; others go on meanwhile.
    """

    def __init__(self, *, seed: int = 0, start_ms: int = START_MS) -> None:
        """It is run as any other loop, by `asyncio.Runner(loop_factory=VirtualLoop)` for example."""
        self.clock = VirtualClock(start_ms)
        self.chance = random.Random(seed)  # noqa: S311  To repeat a run.
        super().__init__(_TurningSelector(self.clock.turn))
        self.network = MemoryNetwork(self)
        self.executor_seconds = 0.0

    def time(self) -> float:
        """Monotonic time, seconds."""
        return self.clock.monotonic()

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

        self.call_later(self.executor_seconds, call)
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
