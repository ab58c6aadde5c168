"""IPs of host names that peers give: looked up beside the loop, few at a time, and kept for a while."""

import asyncio
import socket
from dataclasses import dataclass

from cometmq.model.clock import Clock
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
        found = await asyncio.get_running_loop().getaddrinfo(
            name, None, type=socket.SOCK_STREAM
        )
    except (OSError, ValueError):  # Python says with the latter that a name cannot be.
        return frozenset()
    return frozenset(plain_ip(str(address[0])) for *_, address in found)
