"""The connections of a process: one client for each cluster and role, shared by its tasks.

Spark keeps its Python workers, and modules in them, from task to task and batch to batch; a client
made anew for each would pay for connections and routes every time.

Next: cometmq.spark.client_cluster
"""

import os
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

from cometmq.spark.client_cluster import ClientSinkCluster, ClientSourceCluster
from cometmq.spark.cluster import SinkCluster, SourceCluster
from cometmq.spark.settings import SinkSettings, SourceSettings

C = TypeVar("C")

_clients: dict[Hashable, object] = {}
_lock = Lock()


def source_cluster(settings: SourceSettings) -> SourceCluster:
    """The cluster that a source reads, connected."""
    retries = settings.retries, settings.retry_interval_ms
    key = ("source", settings.name_servers, settings.group, retries)
    return _shared(key, lambda: ClientSourceCluster(settings))


def sink_cluster(settings: SinkSettings) -> SinkCluster:
    """The cluster that a sink writes, connected."""
    key = ("sink", settings.name_servers, settings.group, settings.timeout_ms, settings.retries)
    return _shared(key, lambda: ClientSinkCluster(settings))


def _shared(key: Hashable, make: Callable[[], C]) -> C:
    # A forked process must not write to its parent's sockets.
    whole = (os.getpid(), key)
    with _lock:
        if whole not in _clients:
            _clients[whole] = make()
        found: C = _clients[whole]  # type: ignore[assignment]
        return found
