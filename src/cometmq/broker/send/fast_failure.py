"""Requests that have waited too long are refused at once: SYSTEM_BUSY, and the client goes elsewhere.

RocketMQ has queues before its threads, and looks into them each 10 ms (BrokerFastFailure of 5.3.3).
Here a request waits in two places only: in the socket while the loop is held up (a page cache that is
busy makes a write take long), and before the pool when many read old messages.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.reader import GetResult

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
READ_SECONDS = 0.005  # The loop reads what is in its sockets in one turn; this is behind it.
BUSY = "broker busy, start flow control for a while"


class ColdReads:
    """Reads that wait for the device, in the pool."""

    def __init__(self, pool: Executor, clock: Clock, settings: BrokerSettings) -> None:
        self._pool = pool
        self._clock = clock
        self._is_limited = settings.is_fast_failure
        self._wait_ms_max = settings.pull_wait_ms_max

    async def read(self, cold: Callable[[], GetResult]) -> GetResult:
        """Run a read.

        Raises:
            RequestError: it waited longer than waitTimeMillsInPullQueue for a thread.
        """
        asked = self._clock.monotonic()

        def read() -> GetResult:
            waited_ms = (self._clock.monotonic() - asked) * 1000
            if self._is_limited and waited_ms >= self._wait_ms_max:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY,
                    f"[TIMEOUT_CLEAN_QUEUE]{BUSY}, period in queue: {waited_ms:.0f}ms",
                )
            return cold()

        return await asyncio.get_running_loop().run_in_executor(self._pool, read)


class StallWatch(Feature):
    """Notices that the loop stalled, and refuses the sends that came meanwhile.

    A timer that comes late says it: after a read whose write took long, uvloop runs timers before it
    reads again. Whoever had sent by then is told to go elsewhere: storing what its client may have
    given up would only make it twice.
    """

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._seconds_max = parts.settings.busy_timeout_ms / 1000
        # A virtual loop is never late.
        self._is_on = parts.settings.is_fast_failure and not parts.clock.is_steady
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to look."""
        if self._is_on:
            self._loop = asyncio.get_running_loop()
            self._look_later(TICK_SECONDS, self._look)

    async def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self, seconds: float, look: Callable[[], None]) -> None:
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_later(seconds, look)

    def _look(self) -> None:
        late = self._loop.time() - self._due
        if late <= self._seconds_max:
            self._look_later(TICK_SECONDS, self._look)
            return
        _log.warning("the broker stood still for %.1f s; sends that waited are refused", late)
        reason = f"[PCBUSY_CLEAN_QUEUE]{BUSY}, period in queue: {late * 1000:.0f}ms"
        self._store.refuse_for_now(reason)
        self._look_later(READ_SECONDS, self._over)

    def _over(self) -> None:
        """End the stall: what came meanwhile has been read."""
        self._store.take_again()
        self._look_later(TICK_SECONDS, self._look)
