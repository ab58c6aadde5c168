"""Pool of clients of a process: tasks of a process share clients of the same role, cluster and settings.

Spark reuses its Python workers and their modules across tasks and batches; a new client per task
would reconnect and fetch routes every time. Clients that were idle for long are closed when the next
client is requested.
"""

import logging
import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TypeVar

log = logging.getLogger(__name__)


class Pooled(Protocol):
    """Client that a pool can hold.

    At each request for a client, the pool closes those that are not busy and were not requested for long, or are the
    least recently used ones beyond the capacity.
    """

    @property
    def is_busy(self) -> bool:
        """Whether the pool must not close the client now, because it is in use."""

    def close(self) -> None:
        """Close the client's connections; the pool has already removed the client and returns it no more."""


C = TypeVar("C", bound=Pooled)


@dataclass(frozen=True)
class PoolLimits:
    """Limits of a pool of clients, checked at each request for one; a busy client is never closed.

    Attributes:
        idle_ms: A client that was not requested for this long is closed.
        capacity: Number of clients beyond which the least recently used ones are closed, if they are not busy.
    """

    idle_ms: int = 300_000
    capacity: int = 64


class Pool:
    """Thread-safe pool of clients by key; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        # Least recently used first. The key includes the pid, because a forked process must not write to its
        # parent's sockets.
        self._clients: dict[tuple[int, Hashable], _PooledClient] = {}

    def get(self, key: Hashable, make: Callable[[], C], limits: PoolLimits = PoolLimits()) -> C:
        """Return this process's client for `key`, creating it if needed; close idle or surplus clients."""
        whole = (os.getpid(), key)
        with self._lock:
            held = self._clients.pop(whole, None)
            if held is None:
                held = _PooledClient(make())
            held.used_at = self._clock()
            self._clients[whole] = held
            unused = self._taken_out(limits)
        for client in unused:
            client.close()
        found: C = held.client
        return found

    def _taken_out(self, limits: PoolLimits) -> list[Pooled]:
        """Remove and return idle and surplus clients, least recently used first, but no busy or just requested one."""
        idle_since = self._clock() - limits.idle_ms / 1000
        mine = [each for each in self._clients if each[0] == os.getpid()][:-1]
        too_many = len(mine) + 1 - limits.capacity
        unused: list[Pooled] = []
        for key in mine:
            held = self._clients[key]
            if held.client.is_busy or (held.used_at > idle_since and len(unused) >= too_many):
                continue
            unused.append(self._clients.pop(key).client)
        return unused


@dataclass
class _PooledClient:
    client: Any
    used_at: float = field(default=0.0)


_pool = Pool()


def shared(key: Hashable, make: Callable[[], C], limits: PoolLimits = PoolLimits()) -> C:
    """Return the client for `key` from the pool of this process, creating it if needed; close idle or surplus ones."""
    return _pool.get(key, make, limits)
