"""Prometheus metrics of a nameserver: present and missing brokers, topics, connections; that of RocketMQ has none.

Text format 0.0.4. Brokers choose the names of clusters, so at most CLUSTERS_MAX have own lines; another sums the rest.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from cometmq.model.text import label_value
from cometmq.nameserver.routes import RouteTable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLUSTERS_MAX = 1_000
_OVERFLOW = 'otel_metric_overflow="true"'


def metrics_text(routes: RouteTable, connections: int) -> str:
    """Return the text of the Prometheus page for a route table and a number of open connections."""
    now = routes.clock.monotonic()
    brokers = Counter(key.cluster for key in routes.live)
    groups = {cluster: len(names) for cluster, names in routes.clusters.items()}
    silent = max((now - each.last_heard for each in routes.live.values()), default=0.0)
    lines = [
        *_by_cluster("brokers", "Number of registered brokers, masters and slaves.", brokers),
        *_by_cluster("broker_groups", "Number of registered broker groups.", groups),
        *_one("topics", "Number of topics that at least one broker has.", len(routes.topics)),
        *_one(
            "missing_brokers",
            "Number of broker groups that left and have not returned.",
            len(routes.missing_brokers()),
        ),
        *_one("connections", "Number of open connections.", connections),
        *_one(
            "silence_seconds",
            "Time since the oldest last heartbeat of a registered broker, in seconds.",
            silent,
        ),
    ]
    return "\n".join(lines) + "\n"


def _head(name: str, says: str) -> Iterator[str]:
    yield f"# HELP rocketmq_nameserver_{name} {says}"
    yield f"# TYPE rocketmq_nameserver_{name} gauge"


def _one(name: str, says: str, value: float) -> Iterator[str]:
    yield from _head(name, says)
    yield f'rocketmq_nameserver_{name}{{node_type="nameserver"}} {value}'


def _by_cluster(name: str, says: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield from _head(name, says)
    shown = sorted(counts.items())
    for cluster, count in shown[:CLUSTERS_MAX]:
        labels = f'node_type="nameserver",cluster="{label_value(cluster)}"'
        yield f"rocketmq_nameserver_{name}{{{labels}}} {count}"
    if len(shown) > CLUSTERS_MAX:
        rest = sum(count for _, count in shown[CLUSTERS_MAX:])
        yield f'rocketmq_nameserver_{name}{{node_type="nameserver",{_OVERFLOW}}} {rest}'
