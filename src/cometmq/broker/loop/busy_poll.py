"""Keeps the event loop awake for a moment while a single producer is expected to send again at once.

A producer on this machine that waits for each answer sends again some 20 us after it. If the loop sleeps meanwhile, waking
it takes as long again, on a virtual machine longer. So the loop polls instead, and yields its core to other processes
between polls. If that was in vain, as for a producer on another machine, the loop sleeps the next times (docs/design/0004).
"""

import asyncio
import os

from cometmq.model.clock import Clock

STAY_SECONDS = 60e-6
# How often the loop sleeps after polling in vain; four times as often each time, up to the limit.
SLEEPS_AFTER_VAIN = 4
SLEEPS_AFTER_VAIN_MAX = 256


class BusyPoll:
    """Decides whether to keep the loop awake; the loop does other work as usual meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._until = 0.0  # monotonic seconds
        self._next_poll: asyncio.Handle | None = None  # None: not polling.
        self._sleeps_left = 0
        self._after_vain = SLEEPS_AFTER_VAIN

    def begin(self) -> None:
        """Start to poll, as a lone producer was answered; after a poll in vain, skip the next 4 to 256 calls."""
        if self._sleeps_left:
            self._sleeps_left -= 1
        elif self._next_poll is None:
            self._until = self._clock.monotonic() + STAY_SECONDS
            self._next_poll = self._loop.call_soon(self._poll)

    def end(self) -> None:
        """Stop polling, because records were written or the flusher closes."""
        if self._next_poll is not None:
            self._next_poll.cancel()
            self._next_poll = None
            self._after_vain = SLEEPS_AFTER_VAIN

    def _poll(self) -> None:
        """Poll once per loop iteration until STAY_SECONDS are over; the loop reads requests between polls."""
        if self._clock.monotonic() < self._until:
            os.sched_yield()
            self._next_poll = self._loop.call_soon(self._poll)
            return
        self._next_poll = None
        self._sleeps_left = self._after_vain
        self._after_vain = min(4 * self._after_vain, SLEEPS_AFTER_VAIN_MAX)
