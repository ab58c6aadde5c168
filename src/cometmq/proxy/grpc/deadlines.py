"""The deadlines of calls that wait, in buckets of a tenth of a second, so that a call needs no timer of its own."""

import asyncio
import heapq
from typing import TYPE_CHECKING

from cometmq.model.clock import Clock

if TYPE_CHECKING:
    from cometmq.proxy.grpc.server_call import GrpcCall

_BUCKETS_A_SECOND = 10
# Longest sleep of the timer; clients ask for deadlines of a year.
_SECONDS_MAX = 3600.0


class Deadlines:
    """The open calls of a server that have a deadline; each is ended then, about 0.1 s late at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[int, set[GrpcCall]] = {}
        self._numbers: list[int] = []  # A heap of the keys.
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, call: "GrpcCall") -> None:
        """End a call when its deadline, if any, has passed, unless `discard` comes first."""
        if call.deadline is None:
            return
        number = _bucket_of(call.deadline)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = set()
            heapq.heappush(self._numbers, number)
            self._set_timer()
        bucket.add(call)

    def discard(self, call: "GrpcCall") -> None:
        """Forget a call that is over, if it is known."""
        if call.deadline is not None:
            bucket = self._buckets.get(_bucket_of(call.deadline))
            if bucket is not None:
                bucket.discard(call)

    def close(self) -> None:
        """Forget all calls and cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._buckets.clear()
        self._numbers.clear()

    def _set_timer(self) -> None:
        due = self._numbers[0] / _BUCKETS_A_SECOND
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        seconds = min(max(due - self._clock.monotonic(), 0.0), _SECONDS_MAX)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pass)

    def _pass(self) -> None:
        self._timer = None
        now = self._clock.monotonic() * _BUCKETS_A_SECOND
        while self._numbers and self._numbers[0] <= now:
            for call in self._buckets.pop(heapq.heappop(self._numbers)):
                call.expire()
        if self._numbers:
            self._set_timer()


def _bucket_of(deadline: float) -> int:
    return int(deadline * _BUCKETS_A_SECOND) + 1
