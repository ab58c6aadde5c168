"""A world of machines on the running loop, under the system's time; nothing of it waits for a log."""

from cometmq.net.clock import SystemClock
from cometmq.net.loop import BeatTimers
from cometmq.steps.on_loop import LoopWorld


def system_world() -> LoopWorld:
    """The world of machines on the running loop, under the system's time."""
    return LoopWorld(timers=BeatTimers(SystemClock()))
