"""The connections of a process: one client for each cluster and role, shared by its tasks.

Spark keeps its Python workers, and modules in them, from task to task and batch to batch; a client
made anew for each would pay for connections and routes every time. Those that nobody used for a
while are closed when another is asked for, as Kafka's consumer pool of Spark does it.
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
    """A client that a pool holds."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody is in the middle of something with it."""

    def close(self) -> None:
        """Close the client's connections; nobody will use it again."""


C = TypeVar("C", bound=Pooled)


@dataclass(frozen=True)
class PoolLimits:
    """The limits of a pool.

    Attributes:
        idle_ms: a client that nobody asked for so long is closed.
        capacity: clients at most; beyond it the one that was not used longest is closed.
    """

    idle_ms: int = 300_000
    capacity: int = 64


class Pool:
    """Clients by key.

    Args:
        clock: seconds, ascending.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        # In the order of their last use: the pid, for a forked process must not write to its
        # parent's sockets.
        self._clients: dict[tuple[int, Hashable], _PooledClient] = {}

    def get(self, key: Hashable, make: Callable[[], C], limits: PoolLimits = PoolLimits()) -> C:
        """The client of this process for `key`, made where there is none."""
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
        """The clients to close: idle for too long, or too many; never the one that was just asked for."""
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
    """The client of this process for `key`: one of the pool, or a new one."""
    return _pool.get(key, make, limits)
