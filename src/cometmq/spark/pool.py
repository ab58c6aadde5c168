"""The connections of a process: one client for each cluster and role, shared by its tasks.

Spark keeps its Python workers, and modules in them, from task to task and batch to batch; a client
made anew for each would pay for connections and routes every time.
"""

import os
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

C = TypeVar("C")

_clients: dict[Hashable, object] = {}
_lock = Lock()


def shared(key: Hashable, make: Callable[[], C]) -> C:
    """The client of this process for `key`, made where there is none yet."""
    # A forked process must not write to its parent's sockets.
    whole = (os.getpid(), key)
    with _lock:
        if whole not in _clients:
            _clients[whole] = make()
        found: C = _clients[whole]  # type: ignore[assignment]
        return found
