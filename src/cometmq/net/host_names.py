"""IPs of host names that peers give: looked up beside the loop, few at a time, and kept for a while."""

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
    """A name that is looked up, or was."""

    began: float
    found: asyncio.Task[frozenset[str]]


class HostNames:
    """Names that were looked up, and their IPs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lookups: dict[str, _Lookup] = {}

    async def ips_of(self, name: str) -> frozenset[str]:
        """The IPs of a host as `plain_ip` writes them; none where nobody knows the name, or says so late.

        A lookup that takes longer goes on: it holds a thread, which nobody can take back, so who asks again waits for the same.
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
    except (OSError, ValueError):  # Python says with the latter that a name cannot be.
        return frozenset()
    return frozenset(plain_ip(str(address[0])) for *_, address in found)


async def _on_loop(name: str) -> list[Any]:
    return await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)


def _in_thread(name: str) -> "asyncio.Future[list[Any]]":
    """Look a name up in a thread that ends with the process.

    A loop has a few for all names, four in uvloop, and waits for them at its end, a resolver that is mute for 10 s or more: nameservers
    would not be found meanwhile, and a broker that is told to stop would stay.
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
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            loop.call_soon_threadsafe(lambda: found.done() or end())

    threading.Thread(target=look, name="host-name", daemon=True).start()
    return found
