"""The event loop of a program, and what comes with it: its clock, its network, its chance.

Programs run on uvloop, where it is there, with the system's time and sockets. On a virtual loop (net.virtual_loop) time, network and
chance are its own: whoever needs one asks here instead of making it.
"""

import asyncio
import random
import secrets
from collections.abc import Coroutine
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


def may_have_threads() -> bool:
    """Whether programs of the running loop may start threads; a virtual one waits for none."""
    return _virtual_loop() is None


def _virtual_loop() -> VirtualLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualLoop) else None
