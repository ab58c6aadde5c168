"""Metrics as points of OTLP: RocketMQ's instruments, pieces with turns between them, and settings that cannot be used."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NoOpTracer

from cometmq.broker.metrics.collector import headers_of, target_of
from cometmq.broker.metrics.metric_table import METRICS
from cometmq.broker.metrics.otlp_points import POINTS_AT_ONCE, MetricPoints, instrument_of
from cometmq.broker.metrics.stored_spans import PIECE_SIZE, SpanScan, StoredSpans
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.codec.metrics_text import Buckets, Source
from cometmq.model.errors import SettingsError
from cometmq.steps.steps import Steps
from tests.unit.broker.conftest import serve


def test_every_name_is_that_of_rocketmqs_instrument():
    """As BrokerMetricsConstant, DefaultStoreMetricsConstant, PopMetricsConstant and RemotingMetricsConstant of 5.3.3 have them."""
    assert instrument_of("rocketmq_rpc_latency_milliseconds") == (
        "rocketmq_rpc_latency",
        "milliseconds",
    )
    assert instrument_of("rocketmq_delay_message_latency_seconds") == (
        "rocketmq_delay_message_latency",
        "seconds",
    )
    assert instrument_of("rocketmq_storage_size_bytes") == ("rocketmq_storage_size", "bytes")
    behind = "rocketmq_storage_flush_behind_bytes"
    assert instrument_of(behind) == (behind, "bytes")
    assert instrument_of("rocketmq_messages_in_total") == ("rocketmq_messages_in_total", "")
    names = [instrument_of(name)[0] for name in METRICS]
    assert len(set(names)) == len(names)


def walk(steps: Steps):
    """Take steps that wait for nothing but the end of a turn; what they give, and how often others had a turn."""
    turns = 0
    while True:
        try:
            next(steps)
            turns += 1
        except StopIteration as ended:
            return ended.value, turns


def test_many_points_go_in_pieces_with_turns_between_and_what_is_beyond_the_bound_is_one():
    name, sizes = "rocketmq_messages_in_total", "rocketmq_message_size"
    sources: dict[str, Source] = {
        name: lambda: (((f"t{number}", "normal", "false"), 1) for number in range(2_500)),
        sizes: lambda: (
            ((f"t{number}", "normal", "true"), Buckets([1, 1, 1, 1, 1, 1, 2], 7))
            for number in range(2_500)
        ),
    }
    points = MetricPoints(Resource({}), {"cluster": "c"}, sources, series_max=2_000, begun_ms=1)
    points.begin(2)
    counts: dict[str, int] = {}
    rest = {}
    while (piece := (told := walk(points.next_piece()))[0]) is not None:
        metrics = piece.resource_metrics[0].scope_metrics[0].metrics
        size = 0
        for metric in metrics:
            size += len(metric.data.data_points)
            counts[metric.name] = counts.get(metric.name, 0) + len(metric.data.data_points)
            last = metric.data.data_points[-1]
            if last.attributes.get("otel.metric.overflow"):
                rest[metric.name] = last
        assert size <= POINTS_AT_ONCE
        assert told[1] >= size // 400
    assert counts == {name: 2_001, sizes: 2_001}
    assert rest[name].value == 500
    assert rest[sizes].count == 1_000
    assert rest[sizes].bucket_counts == [500, 0, 0, 0, 0, 0, 500]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:4317", "https://127.0.0.1:4317"),
        (" http://c:4317 ", "http://c:4317"),
        ("https://c", "https://c"),
    ],
)
def test_a_target_without_a_scheme_is_encrypted(text, found):
    assert target_of(text) == found


def test_a_header_that_is_none_is_refused_without_its_value():
    assert headers_of("A:b, C: d:e,") == (("a", "b"), ("c", "d:e"))
    with pytest.raises(SettingsError, match=r"part 2 is not name:value") as refused:
        headers_of("a:b,s3cret")
    assert "s3cret" not in str(refused.value)


async def test_without_a_target_no_broker_starts(tmp_path):
    with pytest.raises(SettingsError, match="metricsGrpcExporterTarget"):
        async with serve(tmp_path, metrics_exporter=MetricsExporter.OTLP_GRPC):
            pass


@pytest.mark.parametrize("at", [7, PIECE_SIZE - 6, PIECE_SIZE, 2 * PIECE_SIZE + 9, None])
def test_records_are_looked_at_where_a_trace_stands_and_nowhere_else(caplog, at):
    """Also where its name lies across two pieces of the log; here are no records, which is said when they are looked at."""
    log = bytearray(3 * PIECE_SIZE)
    if at is not None:
        log[at : at + 12] = b"traceparent\x01"
    reads: list[int] = []

    def read(offset: int, size: int) -> bytes:
        reads.append(offset)
        return bytes(log[offset : offset + size])

    spans = StoredSpans(read, NoOpTracer(), "broker-a")
    assert spans.look(0, len(log)) == SpanScan(len(log), 0, 0)
    assert (at is None) == ("no record" not in caplog.text)
    assert len(reads) <= 5
