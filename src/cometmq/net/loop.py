"""The event loop of a program, with its clock, network and random numbers.

`run` uses uvloop if it is installed, with the system's time and sockets. A virtual loop (net.virtual_loop) has its own
time, network and random numbers. Code must therefore get them from this module instead of creating them.
"""

import asyncio
import random
import secrets
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.net.clock import SystemClock
from cometmq.net.network import Network
from cometmq.net.tcp_network import TcpNetwork
from cometmq.net.virtual_loop import VirtualLoop

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new uvloop event loop, or asyncio's own if uvloop is not installed (it does not support Windows)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine `main` on a new event loop and return its result."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def loop_clock() -> Clock:
    """Return the clock of the running virtual loop, or the system clock if no virtual loop is running here."""
    loop = _virtual_loop()
    return SystemClock() if loop is None else loop.clock


def loop_network() -> Network:
    """Return the network of the running virtual loop, or real TCP if no virtual loop is running here."""
    loop = _virtual_loop()
    return TcpNetwork() if loop is None else loop.network


def loop_chance() -> random.Random:
    """Return a new random generator for load spreading and ids, not for secrets; a virtual loop provides its seed."""
    loop = _virtual_loop()
    seed = secrets.randbits(64) if loop is None else loop.chance.getrandbits(64)
    return random.Random(seed)  # noqa: S311


def beat_later(seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
    """Call back after `seconds`, for periodic work without effect on an idle system; return a function to cancel.

    A virtual loop may skip idle time despite such a timer of up to 150 s. Other loops behave as with `call_later`.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop.beat_later(seconds, callback)
    return loop.call_later(seconds, callback).cancel


def not_quiet() -> None:
    """Keep a virtual loop from skipping idle time for a while, because the program polls; do nothing on other loops."""
    loop = _virtual_loop()
    if loop is not None:
        loop.not_quiet()


class BeatTimers:
    """Timers made by `beat_later`, together with a given clock (implements `steps.runner.Timers`)."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self.call_later = beat_later


async def beat_sleep(seconds: float) -> None:
    """Sleep for `seconds` by a timer of `beat_later`."""
    await beat_wait(asyncio.Event(), seconds)


async def beat_wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, which a timer of `beat_later` sets after `seconds`; return whether it was set before the timer."""
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
    """Return whether threads may be started: False on a running virtual loop, which cannot wait for them."""
    return _virtual_loop() is None


def check_threads() -> None:
    """Raise SettingsError if gevent or eventlet has replaced threads or their queues; do nothing on a running virtual loop.

    Threads are then greenlets, which never get a turn beside an event loop: whoever waits for one would wait forever.
    """
    if not may_have_threads():
        return
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "queue"))):
        library, patch = "gevent", "gevent.monkey.patch_all(thread=False, queue=False)"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        library, patch = "eventlet", "eventlet.monkey_patch(thread=False)"
    else:
        return
    raise SettingsError(
        f"CometMQ needs real threads, and {library} has replaced them; call {patch}, or use a worker with threads"
    )


def _virtual_loop() -> VirtualLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if isinstance(loop, VirtualLoop) else None
