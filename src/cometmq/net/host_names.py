"""Resolution of host names that nameservers return: at most 16 at a time, with results kept for 10 s from the start of each."""

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from cometmq.model.clock import Clock
from cometmq.net.loop import may_have_threads
from cometmq.net.own_machine import plain_ip

NAMES_MAX = 16
WAIT_SECONDS = 2.0
KEPT_SECONDS = 10.0


@dataclass(slots=True)
class _Lookup:
    """A running or finished resolution of a host name.

    Attributes:
        began: Start of the resolution, monotonic seconds.
        found: Task that returns the IPs of the host; an empty set if it is unknown.
    """

    began: float
    found: asyncio.Task[frozenset[str]]


class HostNames:
    """Cache of resolved host names, with the resolutions that still run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lookups: dict[str, _Lookup] = {}

    async def ips_of(self, name: str) -> frozenset[str]:
        """Return the set of a host's IPs as `plain_ip` texts; empty if it is unknown or slow, or 16 others are kept.

        A call waits up to 2 s. A slow lookup continues, as its thread cannot be stopped; later calls for it also wait.
        """
        now = self._clock.monotonic()
        self._lookups = {
            known: each
            for known, each in self._lookups.items()
            if not each.found.done() or now - each.began < KEPT_SECONDS
        }
        lookup = self._lookups.get(name)
        if lookup is None:
            if len(self._lookups) >= NAMES_MAX:
                return frozenset()
            lookup = _Lookup(now, asyncio.ensure_future(_look_up(name)))
            self._lookups[name] = lookup
        done, _ = await asyncio.wait([lookup.found], timeout=WAIT_SECONDS)
        return lookup.found.result() if done else frozenset()


async def _look_up(name: str) -> frozenset[str]:
    try:
        found = await (_in_thread(name) if may_have_threads() else _on_loop(name))
    except (OSError, ValueError):  # ValueError: the name is malformed.
        return frozenset()
    return frozenset(plain_ip(str(address[0])) for *_, address in found)


async def _on_loop(name: str) -> list[Any]:
    return await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)


def _in_thread(name: str) -> "asyncio.Future[list[Any]]":
    """Return a future for a name's `getaddrinfo` entries, from a daemon thread instead of the loop's pool.

    A silent resolver blocks a thread for 10 s or more. Few such names would block the pool (four threads in uvloop) for
    other lookups, and closing the loop would wait for them.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[Any]] = loop.create_future()

    def look() -> None:
        try:
            end = partial(
                found.set_result, socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            )
        except (OSError, ValueError) as error:
            end = partial(found.set_exception, error)
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(lambda: found.done() or end())

    threading.Thread(target=look, name="host-name", daemon=True).start()
    return found
