"""Keeps the loop awake for a moment where one sender is expected back at once.

A sender who waits for each answer on this machine sends again some 20 us after it got one. A loop that
went to sleep meanwhile has to be woken, which takes as long again, and on a virtual machine longer. So the
loop looks again and again instead, and gives its core to whoever wants it between two looks. Expected in
vain, as a sender on another machine is, it sleeps behind the next ones (docs/design/0004).
"""

import asyncio
import os

from cometmq.model.clock import Clock

STAY_SECONDS = 60e-6
# So often the loop sleeps after it was awake in vain, and four times as often each time, up to a bound.
SLEEPS_AFTER_VAIN = 4
SLEEPS_AFTER_VAIN_MAX = 256


class BusyPoll:
    """Whether the loop stays awake; it does other work meanwhile as ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._until = 0.0  # monotonic seconds
        self._next_poll: asyncio.Handle | None = None  # None: nobody is expected.
        self._sleeps_left = 0
        self._after_vain = SLEEPS_AFTER_VAIN

    def begin(self) -> None:
        """Begin: one sender was answered, and nobody else waits."""
        if self._sleeps_left:
            self._sleeps_left -= 1
        elif self._next_poll is None:
            self._until = self._clock.monotonic() + STAY_SECONDS
            self._next_poll = self._loop.call_soon(self._poll)

    def end(self) -> None:
        """End the busy poll: somebody sent something."""
        if self._next_poll is not None:
            self._next_poll.cancel()
            self._next_poll = None
            self._after_vain = SLEEPS_AFTER_VAIN

    def _poll(self) -> None:
        """Once a turn of the loop: what came is found by the loop itself, before this runs again."""
        if self._clock.monotonic() < self._until:
            os.sched_yield()
            self._next_poll = self._loop.call_soon(self._poll)
            return
        self._next_poll = None
        self._sleeps_left = self._after_vain
        self._after_vain = min(4 * self._after_vain, SLEEPS_AFTER_VAIN_MAX)
