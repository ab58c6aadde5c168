"""/metrics, /healthz and /readyz: names, labels and buckets are those of a Java broker, as it was recorded."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cometmq.broker.metrics.metric_table import (
    METRICS,
    METRICS_OF_JAVA,
    NOT_HERE,
    OWN_METRICS,
    metrics_of,
)
from cometmq.broker.metrics.page import MetricsPage
from cometmq.broker.metrics.requests import extra_labels
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.codec.metrics_text import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Buckets,
    Column,
    LabelRows,
    Metric,
)
from cometmq.model.codes import RequestCode
from cometmq.nameserver import metrics as of_nameserver
from tests.support.pages import ROOT
from tests.unit.broker.billing import WANTED, pull_fields, send
from tests.unit.broker.conftest import serve
from tests.unit.broker.member import Member

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics" / "broker-5.3.3.txt"
OPERATE = ROOT / "docs" / "operate"
DEPLOY = ROOT / "deploy"
LINE = re.compile(r"(\w+)\{(.*)\} (\S+)(?: \d+)?")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Java's scope and target, which every exporter of OpenTelemetry adds.
OF_EXPORTER = {"target_info", "otel_scope_info"}
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def series(text: str) -> dict[str, list[dict[str, str]]]:
    """Labels by the names of samples."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is not None:
            found.setdefault(match[1], []).append(dict(LABEL.findall(match[2])))
    return found


def family(name: str) -> str:
    return SUFFIX.sub("", name)


def http_port(served) -> int:
    port: int = served.feature("health").port
    return port


async def get(served, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", http_port(served))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split(" ")[1]), body


def values(text: str) -> dict[tuple[str, ...], float]:
    """What Prometheus reads, by name and the values of topic and group."""
    return {
        (
            sample.name,
            sample.labels.get("topic", ""),
            sample.labels.get("consumer_group", ""),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_every_metric_of_java_is_here_or_it_is_said_why_not():
    java = {family(name) for name in series(GOLDEN.read_text())} - OF_EXPORTER
    assert java == {*METRICS_OF_JAVA, *NOT_HERE}
    assert not METRICS.keys() & NOT_HERE.keys()
    page = (OPERATE / "monitor.md").read_text()
    for name in (*METRICS, *NOT_HERE):
        assert f"`{name}`" in page, f"{name} is not on the page for operators"


@pytest.mark.parametrize("name", METRICS_OF_JAVA)
def test_its_labels_kind_and_buckets_are_javas(name):
    metric, java = METRICS[name], series(GOLDEN.read_text())
    common = {"otel_scope_name", "cluster", "node_id", "node_type"}
    ours = {*metric.labels, *(label for label, _ in metric.fixed), *common}
    seen = java[f"{name}_count" if metric.kind == HISTOGRAM else name]
    labels = set().union(*(each.keys() for each in seen))
    assert labels == ours
    assert (metric.kind == COUNTER) == name.endswith("_total")
    bounds = {each["le"] for each in java.get(f"{name}_bucket", [])}
    assert bounds == (
        {f"{bound}.0" for bound in metric.bounds} | {"+Inf"} if metric.bounds else set()
    )


def test_our_own_have_names_of_ours_and_say_whose_they_are():
    assert all(re.match("cometmq_|process_", name) for name in OWN_METRICS)
    assert (
        of_nameserver.METRICS.keys() & METRICS.keys()
        == OWN_METRICS.keys() & of_nameserver.METRICS.keys()
    )
    for name, metric in metrics_of(2, is_slave=True).items():
        whose = dict(metric.fixed)
        if name in OWN_METRICS:
            assert whose == {"broker_id": "2", "role": "slave"}
        else:
            assert not whose.keys() & {"broker_id", "role"}


NAME = re.compile(r"\b(?:rocketmq|cometmq|process)_\w+")
RECORDED = re.compile(r"\bcometmq:[\w:]+")
MATCHER = re.compile(r"\{([^}]*)\}")
BY = re.compile(r"(?:by|on) \(([^)]*)\)")
RULES = {
    kind: [
        rule
        for group in yaml.safe_load((DEPLOY / "prometheus" / f"{kind}.yml").read_text())[
            "groups"
        ]
        for rule in group["rules"]
    ]
    for kind in ("recording", "alerts")
}


def queries() -> list[str]:
    """What Grafana's file, the rules and the page for operators ask Prometheus."""
    board = json.loads((DEPLOY / "grafana" / "cometmq.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked += [rule["expr"] for rules in RULES.values() for rule in rules]
    asked += [
        each["query"] for each in board["templating"]["list"] if "rocketmq" in each["query"]
    ]
    page = (OPERATE / "monitor.md").read_text().partition("## What to look at")[2]
    rows = page.partition("## Metrics")[0].splitlines()
    return asked + [
        each
        for row in rows
        for each in re.findall(r"`([^`]*(?:rocket|comet)mq[_:][^`]*)`", row)
    ]


@pytest.mark.parametrize("query", queries())
def test_what_dashboards_ask_is_there(query):
    names = [family(name) for name in NAME.findall(query)]
    recorded = RECORDED.findall(query)
    assert names or recorded or re.search(r"\b(up|ALERTS)\{", query)
    assert set(recorded) <= {rule["record"] for rule in RULES["recording"]}
    # Prometheus adds the instance that it scrapes and its job, and labels of alerts.
    known = {
        "cluster",
        "node_id",
        "node_type",
        "le",
        "instance",
        "job",
        "alertstate",
        "alertname",
    }
    for name in names:
        metric = {**of_nameserver.METRICS, **METRICS}[name]
        known.update(metric.labels, {"broker_id", "role"} if name in OWN_METRICS else ())
    for name in recorded:
        (rule,) = [rule for rule in RULES["recording"] if rule["record"] == name]
        known.update(labels_of(rule["expr"]))
    assert labels_of(query) <= known


def labels_of(query: str) -> set[str]:
    """The labels by which it selects or groups."""
    return {
        *re.findall(r"(\w+)=", " ".join(MATCHER.findall(query))),
        *(each.strip() for group in BY.findall(query) for each in group.split(",")),
    }


# What a master and its slave both show, or each broker of the same clients.
SHOWN_TWICE = re.compile(
    r"rocketmq_(consumer_(?!lag_latency)\w+|producer_connections|half_messages|timing_messages)"
    r"|cometmq_(consumer_(?!group_changes)\w+|dead_letters|delayed_messages)"
)


@pytest.mark.parametrize("query", queries())
def test_no_query_counts_a_master_and_its_slave_or_a_client_of_two_brokers_twice(query):
    for match in SHOWN_TWICE.finditer(query):
        before = query[: match.start()]
        assert "max by" in before or "max(sum by (instance)" in before or "sum" not in before


async def test_a_broker_shows_what_it_did_as_prometheus_reads_it(tmp_path):
    async with serve(tmp_path, cluster_name='C "1"', metrics_labels="zone:a b,0-x:y") as served:
        for _ in range(3):
            await send(served, b"x" * 2_000)
        await Member(served).beat(WANTED)
        await served.done(RequestCode.PULL_MESSAGE, pull_fields(1))
        await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {
            "consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "1",
        })  # fmt: skip
        status, text = await get(served, "/metrics")
        assert status == 200
        seen = values(text)
        assert seen["rocketmq_messages_in_total", "orders", ""] == 3
        assert seen["rocketmq_messages_out_total", "orders", "billing"] == 2
        assert seen["rocketmq_consumer_lag_messages", "orders", "billing"] == 2
        assert seen["rocketmq_message_size_count", "orders", ""] == 3
        assert seen["rocketmq_message_size_sum", "orders", ""] > 6_000
        assert (
            seen["rocketmq_throughput_in_total", "orders", ""]
            == seen["rocketmq_message_size_sum", "orders", ""]
        )
        for labels in series(text)["rocketmq_consumer_connections"]:
            assert (labels["consume_mode"], labels["version"]) == ("push", "v5_3_3")
            assert (labels["cluster"], labels["zone"]) == ('C \\"1\\"', "a b")
        sizes = [
            each
            for each in series(text)["rocketmq_message_size_bucket"]
            if each["topic"] == "orders"
        ]
        assert [each["le"] for each in sizes] == [
            *(f"{bound}.0" for bound in METRICS["rocketmq_message_size"].bounds),
            "+Inf",
        ]
        codes = {
            each["request_code"]
            for each in series(text)["rocketmq_rpc_latency_milliseconds_count"]
        }
        assert {"send_message_v2", "pull_message", "update_consumer_offset"} <= codes
        assert {family(name) for name in series(text)} <= {*METRICS, *OF_EXPORTER}
        assert len(series(text)["rocketmq_storage_message_reserve_time_milliseconds"]) == 1


async def test_every_metric_has_a_source(served):
    assert served.feature("health")._page._sources.keys() == METRICS.keys()


async def test_health_is_said_in_words(served):
    status, text = await get(served, "/healthz")
    assert (status, text.startswith("ok: broker broker-a has run for ")) == (200, True)
    assert await get(served, "/readyz") == (
        200, "ready: ASYNC_MASTER, recovered, registered, its log accepts messages\n",
    )  # fmt: skip
    served.broker._store.refuse_for_now("the disk is full")
    status, text = await get(served, "/readyz")
    assert (status, "the disk is full" in text) == (503, True)
    assert (await get(served, "/healthz"))[0] == 200


async def test_a_broker_that_no_nameserver_knows_is_not_ready(tmp_path):
    async with serve(tmp_path, nameservers="127.0.0.1:9") as served:
        status, text = await get(served, "/readyz")
        assert (status, "not registered at 127.0.0.1:9" in text) == (503, True)


async def test_a_taken_port_is_said_once_and_the_broker_serves(tmp_path, caplog):
    async with serve(tmp_path / "a") as first, serve(tmp_path / "b") as second:
        assert (http_port(first), http_port(second)) == (5557, 0)
        said = [
            each.getMessage()
            for each in caplog.records
            if "metrics are not served" in each.getMessage()
        ]
        assert len(said) == 1
        assert "metricsPromExporterPort" in said[0]
        await send(second)


async def test_none_are_served_where_none_are_wanted(tmp_path):
    async with serve(tmp_path, metrics_exporter=MetricsExporter.DISABLE) as served:
        assert http_port(served) == 0


def made(page: MetricsPage) -> str:
    steps = page.text()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return b"".join(end.value).decode()


def test_what_is_beyond_the_limit_is_one_line():
    metrics = {
        "a_total": Metric(COUNTER, ("topic",), "."),
        "b": Metric(HISTOGRAM, ("topic",), ".", (1, 2)),
        "c_total": Metric(COUNTER, ("topic",), "."),
    }
    rows = LabelRows(("topic",), [(str(number),) for number in range(10)])
    sources: dict[str, Any] = {
        "c_total": lambda: Column(rows, range(10)),
        "a_total": lambda: [((str(number),), number) for number in range(10)],
        "b": lambda: [((str(number),), Buckets([1, 2, 3], 7.0)) for number in range(4)],
    }
    text = made(MetricsPage({}, sources, metrics=metrics, series_max=2))
    for name in ("a_total", "c_total"):
        assert len(series(text)[name]) == 3
        assert (
            f'{name}{{otel_scope_name="broker-meter",otel_metric_overflow="true"}} 44\n' in text
        )
    assert (
        'b_bucket{otel_scope_name="broker-meter",otel_metric_overflow="true",le="2.0"} 4\n'
        in text
    )
    assert 'b_count{otel_scope_name="broker-meter",otel_metric_overflow="true"} 6\n' in text


def test_metrics_with_labels_in_common_are_written_as_those_with_their_own():
    """In pieces, too: the labels of a piece are made when its lines are."""
    names = ("topic", "consumer_group")
    metrics = {
        "a": Metric(GAUGE, names, "."),
        "b": Metric(GAUGE, names, ".", fixed=(("x", "y"),)),
    }
    rows = [(f"t{number}", 'g"' if number == 2_500 else "g") for number in range(5_000)]
    labels, counts = LabelRows(names, rows), range(5_000)
    alone = {name: lambda: zip(rows, counts, strict=True) for name in metrics}
    shared = {name: lambda: Column(labels, counts) for name in metrics}
    texts = [
        made(MetricsPage({}, each, metrics=metrics, series_max=9_000))
        for each in (alone, shared)
    ]
    assert texts[0] == texts[1]
    assert len(series(texts[1])["b"]) == 5_000


@pytest.mark.parametrize("value", ['"', "\\", "\n", 'a"b\\c\nd', "ü<script>", "\u202e", ""])
def test_any_label_can_be_read_again(value):
    metrics = {"a_total": Metric(COUNTER, ("topic",), ".")}
    text = made(
        MetricsPage({}, {"a_total": lambda: [((value,), 1)]}, metrics=metrics, series_max=9)
    )
    assert values(text) == {
        ("a_total", value, ""): 1.0, ("otel_scope_info", "", ""): 1.0, ("target_info", "", ""): 1.0,
    }  # fmt: skip


def test_labels_of_the_settings_are_labels():
    told = extra_labels("a:b, c-d:e:f ,nothing,:x,0:1,topic:mine,cluster:mine")
    assert told == {"a": "b", "c_d": "e:f", "nothing": "", "_0": "1"}


async def test_a_page_of_10_000_topics_lets_others_have_their_turns(tmp_path):
    async with serve(tmp_path, topics_max=20_000) as served:
        puts = served.broker._counters.puts
        for number in range(10_000):
            puts.of(f"topic-{number}", queue_id=0).add(1, 100, 1)
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        turn()
        status, text = await get(served, "/metrics")
        assert status == 200
        assert len(series(text)["rocketmq_messages_in_total"]) >= 10_000
        assert turns > 40
