"""What a nameserver shows Prometheus is what it knows, whatever brokers call their clusters."""

from __future__ import annotations

import platform
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cometmq.nameserver.metrics import METRICS, SERIES_MAX, metrics_text
from cometmq.nameserver.routes import RouteTable
from cometmq.process.vitals import VITALS
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


def test_it_shows_who_is_here_and_whom_it_misses(clock):
    table = RouteTable(clock)
    for name, number, cluster in (("a", 0, "East"), ("a", 1, "East"), ("b", 0, 'We"st\n\\')):
        address = f"{name}{number}:1"
        fields: dict[str, Any] = {"broker_id": number, "name": name, "cluster_name": cluster}
        table.register(header(address, **fields), topics("A", f"of-{name}"), Wire())
    clock.turn(30)
    table.touch("East", "a0:1")
    shown = samples(metrics_text(table, 7).decode())
    assert shown["brokers", "East"] == 2
    assert shown["brokers", 'We"st\n\\'] == 1
    assert shown["broker_groups", "East"] == 1
    assert shown["topics", ""] == 3
    assert shown["connections", ""] == 7
    assert shown["silence_seconds", ""] == 30
    assert shown["missing_brokers", ""] == 0
    for key in list(table.live):
        table.drop(key)
    shown = samples(metrics_text(table, 0).decode())
    assert shown["topics", ""] == 0
    assert shown["missing_brokers", ""] >= 1
    assert ("brokers", "East") not in shown


def test_clusters_have_a_bound():
    table = RouteTable(HandClock())
    for number in range(SERIES_MAX + 5):
        fields: dict[str, Any] = {"name": f"b{number}", "cluster_name": f"c{number:05}"}
        table.register(header(f"h{number}:1", **fields), topics("A", "B"), Wire())
    text = metrics_text(table, 0).decode()
    assert text.count("rocketmq_nameserver_brokers{") == SERIES_MAX + 1
    assert (
        'rocketmq_nameserver_brokers{node_type="nameserver",otel_metric_overflow="true"} 5'
        in text
    )


def test_it_names_a_group_that_is_gone_and_one_without_its_master():
    table = RouteTable(HandClock())
    for name, number in (("a", 0), ("b", 0), ("b", 1)):
        table.register(
            header(f"{name}{number}:1", broker_id=number, name=name), topics("A", "B"), Wire()
        )
    for key in [key for key in table.live if key.address in ("a0:1", "b0:1")]:
        table.drop(key)
    text = metrics_text(table, 0).decode()
    labels = 'node_type="nameserver",cluster="DefaultCluster",broker='
    assert f'\ncometmq_nameserver_broker_missing{{{labels}"a"}} 1\n' in text
    assert f'\ncometmq_nameserver_broker_without_master{{{labels}"b"}} 1\n' in text
    assert text.count("broker_missing{") == text.count("without_master{") == 1


def test_it_shows_its_build_and_its_process():
    text = metrics_text(RouteTable(HandClock()), 0).decode()
    found = {
        sample.name: sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert VITALS.keys() <= found.keys()
    assert found["cometmq_build_info"].labels["python"] == platform.python_version()
    assert found["process_resident_memory_bytes"].value > 1 << 20
    assert 0 < found["process_open_fds"].value < found["process_max_fds"].value
    assert abs(found["process_cpu_seconds_total"].value - time.process_time()) < 5
    assert found["process_start_time_seconds"].value <= time.time()


def test_each_name_is_on_the_page_for_operators():
    page = (ROOT / "docs" / "operate" / "monitor.md").read_text()
    for name in METRICS:
        assert f"`{name}`" in page
