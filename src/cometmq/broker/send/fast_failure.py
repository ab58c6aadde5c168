"""Refuses sends and pulls from the disk that have waited too long (brokerFastFailureEnable), so that clients can go elsewhere.

RocketMQ checks its request queues every 10 ms (BrokerFastFailure of 5.3.3). This broker has no such queues. A request
waits mainly in two places: in its socket while the event loop is blocked (a busy page cache makes a write slow), and
for a pool thread when many consumers read old messages.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from cometmq.broker.loop.caller import Caller
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.reader import GetResult

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
READ_SECONDS = 0.005  # The loop reads its sockets in one iteration; this comes after that.
BUSY = "broker busy, start flow control for a while"


class ColdReads:
    """Reads that a pool thread does because they must wait for the disk."""

    def __init__(self, clock: Clock, settings: BrokerSettings) -> None:
        self._clock = clock
        self._is_limited = settings.is_fast_failure
        self._wait_ms_max = settings.pull_wait_ms_max

    def read(self, cold: Callable[[], GetResult], caller: Caller[Any]) -> Steps[GetResult]:
        """Return the messages that `cold` reads for a caller, called in a pool thread; its errors are passed on.

        Raises:
            ConnectionLost: The client disconnected before the read began.
            RequestError: The read waited for a thread for waitTimeMillsInPullQueue or more, if brokerFastFailureEnable.
        """
        asked = self._clock.monotonic()

        def read() -> GetResult:
            if caller.is_gone:
                raise ConnectionLost("the client disconnected before its read began")
            waited_ms = (self._clock.monotonic() - asked) * 1000
            if self._is_limited and waited_ms >= self._wait_ms_max:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY,
                    f"[TIMEOUT_CLEAN_QUEUE]{BUSY}, period in queue: {waited_ms:.0f}ms",
                )
            return cold()

        return elsewhere(read)


class StallWatch(Feature):
    """A watch that notices when the event loop was blocked for too long, and then refuses messages for some milliseconds.

    If brokerFastFailureEnable is false, it refuses none and only counts the delays of the loop.

    The clients of sends that arrived meanwhile may have given up, so storing these would create duplicates. A
    timer that fires late shows the stall: after a slow write, uvloop runs timers before it reads sockets again.
    """

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._seconds_max = parts.settings.busy_timeout_ms / 1000
        # Under virtual time the loop is never late.
        self._is_on = not parts.clock.is_steady
        self._is_refusing = parts.settings.is_fast_failure
        self._delays = parts.counters.events.latencies("cometmq_loop_delay_seconds")
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start to watch the loop for stalls, unless time is virtual."""
        if self._is_on:
            self._loop = asyncio.get_running_loop()
            self._look_later(TICK_SECONDS, self._look)

    async def close(self) -> None:
        """Stop watching the loop, and end the refusals of sends after a stall, if any."""
        if self._timer is not None:
            self._timer.cancel()
            self._store.take_again()

    def _look_later(self, seconds: float, look: Callable[[], None]) -> None:
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_later(seconds, look)

    def _look(self) -> None:
        late = self._loop.time() - self._due
        if self._delays is not None:
            self._delays.add(int(max(late, 0.0) * 1_000_000))
        if late <= self._seconds_max or not self._is_refusing:
            self._look_later(TICK_SECONDS, self._look)
            return
        _log.warning(
            "the event loop was blocked for %.1f s; sends that arrived meanwhile are refused",
            late,
        )
        reason = f"[PCBUSY_CLEAN_QUEUE]{BUSY}, period in queue: {late * 1000:.0f}ms"
        self._store.refuse_for_now(reason)
        self._look_later(READ_SECONDS, self._over)

    def _over(self) -> None:
        """End the refusals: the sends that arrived during the stall should have been read."""
        self._store.take_again()
        self._look_later(TICK_SECONDS, self._look)
