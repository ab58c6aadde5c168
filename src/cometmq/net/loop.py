"""The event loop of a program, and what comes with it: its clock, its network, its chance.

Programs run on uvloop, where it is there, with the system's time and sockets. On a virtual loop (net.virtual_loop) time, network and
chance are its own: whoever needs one asks here instead of making it.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cometmq.model.clock import Clock
from cometmq.net.clock import SystemClock
from cometmq.net.network import Network
from cometmq.net.tcp_network import TcpNetwork
from cometmq.net.virtual_loop import VirtualLoop

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop's; asyncio's own where that is absent (there is none for Windows)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` on a fresh event loop and return what it returns."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def loop_clock() -> Clock:
    """The time of the running loop; the system's where none runs."""
    loop = _virtual_loop()
    return SystemClock() if loop is None else loop.clock


def loop_network() -> Network:
    """The network of the running loop."""
    loop = _virtual_loop()
    return TcpNetwork() if loop is None else loop.network


def loop_chance() -> random.Random:
    """Chance for spreading load and for ids; it protects nothing."""
    loop = _virtual_loop()
    seed = secrets.randbits(64) if loop is None else loop.chance.getrandbits(64)
    return random.Random(seed)  # noqa: S311


def beat_later(seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
    """Call back after some time, with what leaves everything as it is where nothing else happens; gives what takes it back.

    A virtual loop leaps over such timers on quiet days; others call back as `call_later` does.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop.beat_later(seconds, callback)
    return loop.call_later(seconds, callback).cancel


def not_quiet() -> None:
    """Say that what waits now is no beat, though nothing else tells that: a program that asks again and again."""
    loop = _virtual_loop()
    if loop is not None:
        loop.not_quiet()


class BeatTimers:
    """Timers that are beats, and the time that they go by (`broker.loop.on_loop.Timers`)."""

    def __init__(self, clock: Clock) -> None:
        """The clock is the running loop's."""
        self.monotonic = clock.monotonic
        self.call_later = beat_later


async def beat_sleep(seconds: float) -> None:
    """Sleep as a `beat_later` does."""
    await beat_wait(asyncio.Event(), seconds)


async def beat_wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, or as long as a `beat_later` takes; whether it was the event. It is set afterwards."""
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = not event.is_set()
        event.set()

    take_back = beat_later(seconds, end)
    try:
        await event.wait()
    finally:
        take_back()
    return not is_over


def may_have_threads() -> bool:
    """Whether programs of the running loop may start threads; a virtual one waits for none."""
    return _virtual_loop() is None


def _virtual_loop() -> VirtualLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualLoop) else None
