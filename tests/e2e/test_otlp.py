"""A broker and a client send metrics and spans to a collector: a real gRPC server, which decodes OTLP's protobuf.

The collector is away, comes, and gets what the page says; a message's spans are one trace; off, nothing of it is loaded.
"""

import sys
from pathlib import Path

import pytest

from cometmq import Message, Producer
from cometmq.broker.metrics.metric_table import METRICS
from tests.support import processes
from tests.support.otlp_receiver import OtlpReceiver, attributes
from tests.support.processes import free_port, wait_until
from tests.support.programs import run_program, said_by_python

SECONDS_MAX = 60.0
NOT_SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

# A client as a program of its own: OpenTelemetry has one provider a process.
CLIENT = """
import sys
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from cometmq import ConsumeFrom, Message, Producer, ProducerSettings, PushConsumer, PushConsumerSettings
import threading

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[2])))
trace.set_tracer_provider(provider)
meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=sys.argv[2]))])
metrics.set_meter_provider(meters)
seen = threading.Event()
with Producer(sys.argv[1], settings=ProducerSettings(telemetry=True)) as producer:
    producer.send(Message("traced", b"one"))
settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, telemetry=True)

def listen(message):
    meters.force_flush()  # What it has now is told.
    seen.set()

with PushConsumer(sys.argv[1], group="g", listener=listen, subscriptions=["traced"], settings=settings):
    assert seen.wait(60)
provider.shutdown()
meters.shutdown()
"""


def exporting(target: str, **more: object) -> dict[str, object]:
    return {
        "metricsExporterType": "OTLP_GRPC",
        "metricsGrpcExporterTarget": target,
        "metricGrpcExporterIntervalInMills": 200,
        **more,
    }


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory):
    with processes.nameserver(tmp_path_factory.mktemp("names")) as program:
        yield program.address


def until(look, what: str):
    return wait_until(look, seconds=SECONDS_MAX, what=what)


def test_a_collector_that_comes_late_gets_what_a_broker_counts(names, tmp_path):
    port = free_port()
    more = {
        "metricsGrpcExporterHeader": "Api-Key:k1",
        "metricsLabel": "zone:a",
        "metricGrpcExporterTimeOutInMills": 500,
    }
    settings = exporting(f"http://127.0.0.1:{port}", **more)
    broker = processes.broker(tmp_path, names, settings=settings)
    with broker:

        def said(words: str) -> int:
            return broker.log.read_text(errors="replace").count(words)

        until(lambda: said("does not accept metrics"), "the collector is missed")
        with Producer(names) as producer:
            for _ in range(3):
                producer.send(Message("orders", b"x" * 2_000))
        labels = {"topic": "orders", "node_id": "broker-a", "zone": "a", "is_system": False}
        with OtlpReceiver(port) as receiver:
            until(
                lambda: receiver.value("rocketmq_messages_in_total", **labels) == 3,
                "three messages",
            )
            until(lambda: said("accepts metrics again"), "the collector is there again")
        assert said("does not accept metrics") == 1
        assert said("k1") == 0
    check_messages(receiver)
    assert receiver.headers[-1]["api-key"] == "k1"
    assert receiver.resources[-1]["service.instance.id"] == "broker-a:0"
    assert receiver.spans() == []  # They are asked for by a setting of their own.


def check_messages(receiver: OtlpReceiver) -> None:
    """Kinds, units and buckets, as they were decoded."""
    metric = receiver.metric("rocketmq_messages_in_total")
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
    (sizes, *_) = [
        each
        for each in receiver.points("rocketmq_message_size")
        if attributes(each)["topic"] == "orders" and each.count == 3
    ]
    assert list(sizes.explicit_bounds) == list(METRICS["rocketmq_message_size"].bounds)
    assert list(sizes.bucket_counts) == [0, 3, 0, 0, 0, 0, 0]  # From 1,024 to 4,096 bytes.
    assert not sizes.HasField("min")
    assert receiver.metric("rocketmq_storage_size").unit == "bytes"
    assert receiver.metric("rocketmq_rpc_latency").unit == "milliseconds"


def test_the_spans_of_sender_broker_and_listener_are_one_trace(names, tmp_path):
    with OtlpReceiver() as receiver:
        settings = exporting(receiver.target, spansExporterEnable="true")
        with processes.broker(tmp_path, names, settings=settings):
            with Producer(names) as producer:
                producer.send(Message("orders", b"no trace"))
                for wrong in (NOT_SAMPLED, "00-nonsense-01", "\u202e"):
                    producer.send(Message("orders", b"x", properties={"traceparent": wrong}))
            run_program(sys.executable, "-c", CLIENT, names, receiver.target, seconds=120)
            until(lambda: len(receiver.spans()) >= 3, "three spans")
        check_client_times(receiver)
        check_cached(receiver)
        spans = {each.name: each for each in receiver.spans()}
        assert set(spans) == {"send traced", "store traced", "process traced"}
        sent, stored = spans["send traced"], spans["store traced"]
        assert {each.trace_id for each in spans.values()} == {sent.trace_id}
        assert stored.parent_span_id == sent.span_id
        assert spans["process traced"].parent_span_id == sent.span_id
        assert stored.kind == 2  # SPAN_KIND_SERVER
        told = attributes(stored)
        assert told["messaging.rocketmq.broker"] == "broker-a"
        assert told["messaging.rocketmq.queue_offset"] == 0
        assert told["messaging.message.id"] == attributes(sent)["messaging.message.id"]


def check_client_times(receiver: OtlpReceiver) -> None:
    """The times of the client, under the names, labels and buckets of RocketMQ's own clients."""
    of_send = {"topic", "client_id", "invocation_status"}
    for name, labels, bounds in (
        ("rocketmq_send_cost_time", of_send, [1, 5, 10, 20, 50, 200, 500]),
        (
            "rocketmq_process_time",
            {*of_send, "consumer_group"},
            [1, 5, 10, 100, 1000, 10000, 60000],
        ),
    ):
        point = receiver.points(name)[-1]
        assert attributes(point).keys() == labels
        assert attributes(point)["invocation_status"] == "success"
        assert attributes(point)["topic"] == "traced"
        assert list(point.explicit_bounds) == bounds
        assert point.count == 1
        assert receiver.metric(name).unit == "milliseconds"


def check_cached(receiver: OtlpReceiver) -> None:
    """What the consumer had while its listener ran; once it is closed there is nothing to tell."""
    for name, count in (
        ("rocketmq_consumer_cached_messages", 1),
        ("rocketmq_consumer_cached_bytes", 3),
    ):
        assert receiver.metric(name).WhichOneof("data") == "gauge"
        (point,) = [
            each for each in receiver.points(name) if attributes(each)["topic"] == "traced"
        ]
        assert attributes(point).keys() == {"topic", "client_id", "consumer_group"}
        assert attributes(point)["consumer_group"] == "g"
        assert point.as_int == count


def test_a_broker_that_is_asked_for_none_has_nothing_of_it_loaded(tmp_path: Path):
    code = """
import asyncio, sys
from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.net.loop import loop_clock

async def main():
    broker = Broker(BrokerSettings(listen_port=0, store_path=sys.argv[1], metrics_port=0), loop_clock())
    await broker.start()
    await broker.close()

asyncio.run(main())
print([each for each in sys.modules if each.partition(".")[0] in ("grpc", "opentelemetry", "google")])
"""
    assert said_by_python("-c", code, tmp_path) == "[]"
