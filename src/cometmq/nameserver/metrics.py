"""Prometheus metrics of a nameserver (RocketMQ's has none): present and missing brokers, topics, connections.

Brokers choose the names of clusters and of themselves, so a metric has at most SERIES_MAX lines with names; one more
line has the sum of the rest.
"""

from collections import Counter
from collections.abc import Mapping

from cometmq.codec.metrics_text import GAUGE, Metric, MetricText, Source
from cometmq.model.route import MASTER_ID
from cometmq.nameserver.routes import RouteTable
from cometmq.process.vitals import VITALS, vital_sources

SERIES_MAX = 1_000
_BY_CLUSTER = ("cluster",)

METRICS = {
    "rocketmq_nameserver_brokers": Metric(
        GAUGE, _BY_CLUSTER, "Number of registered brokers, masters and slaves."
    ),
    "rocketmq_nameserver_broker_groups": Metric(
        GAUGE, _BY_CLUSTER, "Number of registered broker groups."
    ),
    "rocketmq_nameserver_topics": Metric(
        GAUGE, (), "Number of topics that at least one broker has."
    ),
    "rocketmq_nameserver_missing_brokers": Metric(
        GAUGE, (), "Number of broker groups that left and have not returned."
    ),
    "rocketmq_nameserver_connections": Metric(GAUGE, (), "Number of open connections."),
    "rocketmq_nameserver_silence_seconds": Metric(
        GAUGE, (), "Time since the oldest last heartbeat of a registered broker, in seconds."
    ),
    "cometmq_nameserver_broker_missing": Metric(
        GAUGE,
        ("cluster", "broker"),
        "1 for each broker group that left and has not returned.",
    ),
    "cometmq_nameserver_broker_without_master": Metric(
        GAUGE, ("cluster", "broker"), "1 for each broker group of which only slaves are here."
    ),
    **VITALS,
}
_TEXT = MetricText({"node_type": "nameserver"}, series_max=SERIES_MAX)


def metrics_text(routes: RouteTable, connections: int) -> bytes:
    """Return the text of the Prometheus page for a route table and a number of open connections."""
    return _TEXT.whole(METRICS, {**_sources(routes, connections), **vital_sources()})


def _sources(routes: RouteTable, connections: int) -> Mapping[str, Source]:
    now = routes.clock.monotonic()
    brokers = Counter(key.cluster for key in routes.live)
    silent = max((now - each.last_heard for each in routes.live.values()), default=0.0)
    missing = routes.missing_brokers()
    return {
        "rocketmq_nameserver_brokers": lambda: (
            ((cluster,), count) for cluster, count in sorted(brokers.items())
        ),
        "rocketmq_nameserver_broker_groups": lambda: (
            ((cluster,), len(names)) for cluster, names in sorted(routes.clusters.items())
        ),
        "rocketmq_nameserver_topics": lambda: [((), len(routes.topics))],
        "rocketmq_nameserver_missing_brokers": lambda: [((), len(missing))],
        "rocketmq_nameserver_connections": lambda: [((), connections)],
        "rocketmq_nameserver_silence_seconds": lambda: [((), round(silent, 3))],
        "cometmq_nameserver_broker_missing": lambda: (
            ((each.cluster, each.name), 1) for each in missing
        ),
        "cometmq_nameserver_broker_without_master": lambda: (
            ((group.cluster, name), 1)
            for name, group in routes.groups.items()
            if MASTER_ID not in group.addresses
        ),
    }
