"""The log of a world whose machines wait for none."""

from __future__ import annotations

from cometmq.broker.loop.on_loop import LoopWorld
from cometmq.net.clock import SystemClock
from cometmq.net.loop import BeatTimers


class NoLog:
    """Fails who waits for it (a `machines.on_loop.Log`)."""

    max_offset = 0

    def wait_flushed(self, end_offset: int, on_done: object) -> None:
        raise AssertionError("there is no log")

    wait_confirmed = wait_flushed


def system_world() -> LoopWorld:
    """The world of machines on the running loop, under the system's time."""
    return LoopWorld(None, NoLog(), timers=BeatTimers(SystemClock()))
