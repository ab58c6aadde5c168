"""What a nameserver shows Prometheus is what it knows, whatever brokers call their clusters."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cometmq.nameserver.metrics import CLUSTERS_MAX, metrics_text
from cometmq.nameserver.routes import RouteTable
from tests.support.hand_clock import HandClock
from tests.support.pages import ROOT
from tests.unit.nameserver.brokers import Wire, header, topics


def samples(text: str) -> dict[tuple[str, str], float]:
    """What Prometheus reads, by name and cluster."""
    return {
        (
            sample.name.removeprefix("rocketmq_nameserver_"),
            sample.labels.get("cluster", ""),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_it_shows_who_is_here_and_whom_it_misses():
    clock = HandClock()
    table = RouteTable(clock)
    for name, number, cluster in (("a", 0, "East"), ("a", 1, "East"), ("b", 0, 'We"st\n\\')):
        address = f"{name}{number}:1"
        fields: dict[str, Any] = {"broker_id": number, "name": name, "cluster_name": cluster}
        table.register(header(address, **fields), topics("A", f"of-{name}"), Wire())
    clock.turn(30)
    table.touch("East", "a0:1")
    shown = samples(metrics_text(table, 7))
    assert shown["brokers", "East"] == 2
    assert shown["brokers", 'We"st\n\\'] == 1
    assert shown["broker_groups", "East"] == 1
    assert shown["topics", ""] == 3
    assert shown["connections", ""] == 7
    assert shown["silence_seconds", ""] == 30
    assert shown["missing_brokers", ""] == 0
    for key in list(table.live):
        table.drop(key)
    shown = samples(metrics_text(table, 0))
    assert shown["topics", ""] == 0
    assert shown["missing_brokers", ""] >= 1
    assert ("brokers", "East") not in shown


def test_clusters_have_a_bound():
    table = RouteTable(HandClock())
    for number in range(CLUSTERS_MAX + 5):
        fields: dict[str, Any] = {"name": f"b{number}", "cluster_name": f"c{number:05}"}
        table.register(header(f"h{number}:1", **fields), topics("A", "B"), Wire())
    text = metrics_text(table, 0)
    assert text.count("rocketmq_nameserver_brokers{") == CLUSTERS_MAX + 1
    assert (
        'rocketmq_nameserver_brokers{node_type="nameserver",otel_metric_overflow="true"} 5'
        in text
    )


def test_each_name_is_on_the_page_for_operators():
    page = (ROOT / "docs" / "operate" / "monitor.md").read_text()
    for name in {name for name, _ in samples(metrics_text(RouteTable(HandClock()), 0))}:
        assert f"`rocketmq_nameserver_{name}`" in page
