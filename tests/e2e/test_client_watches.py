"""What is told of sends and listeners where settings ask for it: traces, spans; and sends made into batches."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    ProducerSettings,
    PushConsumerSettings,
    StoredMessage,
    TransactionState,
)
from cometmq.codec.remoting import Command
from cometmq.codec.trace import Trace, TracedMessage, TraceKind, TraceOutcome, decode_traces
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.codes import RequestCode
from cometmq.model.errors import MessageError, SendFailed
from cometmq.model.names import TRACE_TOPIC
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.scripted import TOPIC, ScriptedCluster, stored, until

TRACED = ProducerSettings(trace=True)


@pytest.fixture
async def cluster() -> AsyncIterator[AsyncEmbedded]:
    async with AsyncEmbedded(settings={"traceTopicEnable": True}) as running:
        yield running


def consumer(
    cluster: AsyncEmbedded, listener: Any, topic: str = "orders", **settings: Any
) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        cluster.nameserver, group="CG", listener=listener, subscriptions=[topic],
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, **settings),
    )  # fmt: skip


async def traces_of(cluster: AsyncEmbedded, topic: str = TRACE_TOPIC) -> list[Trace]:
    async with AsyncPullConsumer(cluster.nameserver, group="reads_traces") as consumer:
        traces = []
        for queue in await consumer.queues(topic):
            pulled = await consumer.fetch(queue, 0)
            for message in pulled.messages:
                traces += decode_traces(message.body)
                assert set(message.keys) >= {trace.message_id for trace in traces[-1:]}
        return traces


# --- traces


async def test_a_traced_send_is_told_with_where_it_went(cluster):
    async with AsyncProducer(cluster.nameserver, group="PG", settings=TRACED) as producer:
        sent = await producer.send(Message("orders", b"12345", tag="paid", keys="order-17"))
    (trace,) = await traces_of(cluster)
    assert trace.kind is TraceKind.PUB
    told = (trace.group, trace.topic, trace.tags, trace.keys)
    assert told == ("PG", "orders", "paid", "order-17")
    ids = (trace.message_id, trace.offset_message_id)
    assert ids == (sent.message_id, sent.offset_message_id)
    assert (trace.store_host, trace.body_size) == (cluster.broker, 5)
    assert (trace.is_success, trace.message_kind) == (True, TracedMessage.NORMAL)


async def test_a_trace_is_found_by_the_id_of_its_message(cluster):
    """As a console looks for it: the id is a key of the trace topic (QUERY_MESSAGE)."""
    async with AsyncProducer(cluster.nameserver, group="PG", settings=TRACED) as producer:
        sent = await producer.send(Message("orders", b"wanted"))
        await producer.send(Message("orders", b"another"))
    async with AsyncAdmin(cluster.nameserver) as admin:
        # Keys are entered many at a time; an index that lags is a reason to look again.
        deadline = time.monotonic() + 20
        traces: list[Trace] = []
        while not traces and time.monotonic() < deadline:
            messages = await admin.messages.by_key(TRACE_TOPIC, sent.message_id)
            told = [trace for each in messages for trace in decode_traces(each.body)]
            traces = [trace for trace in told if trace.message_id == sent.message_id]
    assert [trace.kind for trace in traces] == [TraceKind.PUB]


async def test_a_listeners_calls_are_told_before_and_after(cluster):
    async def listen(message: StoredMessage) -> bool:
        return message.body == b"good"

    async with AsyncProducer(cluster.nameserver) as producer:
        await producer.send(Message("orders", b"good", keys="k"))
        await producer.send(Message("orders", b"bad"))
    async with consumer(cluster, listen, trace=True) as reader:
        await until(lambda: sum_of(reader) == 2, "both messages")
    traces = await traces_of(cluster)
    before = [trace for trace in traces if trace.kind is TraceKind.SUB_BEFORE]
    after = {trace.request_id: trace for trace in traces if trace.kind is TraceKind.SUB_AFTER}
    assert len(before) == len(after) == 2
    assert {after[trace.request_id].message_id for trace in before} == {
        trace.message_id for trace in before
    }
    assert sorted(trace.outcome for trace in after.values()) == [
        TraceOutcome.SUCCESS, TraceOutcome.FAILED,
    ]  # fmt: skip
    assert {trace.region for trace in before} == {"DefaultRegion"}


def sum_of(consumer: AsyncPushConsumer) -> int:
    counts = consumer.statistics().values()
    return sum(each.consumed + each.failed for each in counts)


async def test_a_broker_that_wants_no_traces_gets_none(tmp_path):
    settings = {"traceTopicEnable": True, "traceOn": False}
    async with AsyncEmbedded(settings=settings) as cluster:
        async with AsyncProducer(cluster.nameserver, settings=TRACED) as producer:
            await producer.send(Message("orders", b"1"))
        assert await traces_of(cluster) == []


async def test_traces_go_where_the_settings_say(cluster):
    settings = ProducerSettings(trace=True, trace_topic="my-traces")
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        await producer.send(Message("orders", b"1"))
        await producer.send(Message("orders", b"2", delay_level=1))
    kinds = [trace.message_kind for trace in await traces_of(cluster, "my-traces")]
    assert sorted(kinds) == [TracedMessage.NORMAL, TracedMessage.DELAY]


async def test_traces_under_way_are_waited_for_at_close():
    scripted = ScriptedCluster()
    scripted.topics.add(TRACE_TOPIC)
    held: list[tuple[Command, Peer]] = []

    def take(command: Command, peer: Peer) -> Answer | None:
        if command.fields["b"] == TRACE_TOPIC:
            held.append((command, peer))
            return None
        answer = stored(command, peer)
        return Answer(fields={**answer.fields, "MSG_REGION": "r"})

    for broker in (scripted.a, scripted.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = take
    async with scripted.names, scripted.a, scripted.b:
        producer = AsyncProducer(scripted.names.address, settings=TRACED)
        await producer.start()
        await producer.send_many([Message(TOPIC, b"x")] * 10)
        await until(lambda: held, "the traces")
        closing = asyncio.create_task(producer.close())
        await asyncio.wait([closing], timeout=0.1)
        assert not closing.done()
        ((command, peer),) = held
        peer.answer(command, stored(command, peer))
        await closing


# --- OpenTelemetry


def span_exporter() -> Any:
    """Where finished spans are kept; OpenTelemetry takes one provider a process."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


async def every_way_to_send(producer: AsyncProducer, names: str) -> dict[str, str]:
    """Send in every way; the ids of the messages with the name of the way."""

    async def answer(message: StoredMessage) -> None:
        await producer.reply(message, b"answer")

    answering = AsyncPushConsumer(
        names, group="answers", listener=answer, subscriptions=["questions"],
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, retries_max=0),
    )  # fmt: skip
    batch = await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
    ways = dict.fromkeys(batch.message_id.split(","), "batch")
    await producer.send_oneway(Message("orders", b"one-way"))
    async with producer.transaction(Message("orders", b"half", tag="t")) as transaction:
        ways[transaction.half.message_id] = "commit"
    async with producer.transaction(Message("orders", b"half")) as transaction:
        ways[transaction.half.message_id] = "rollback"
        await transaction.rollback()
    done = await producer.send_in_transaction(Message("orders", b"half"), None)
    ways[done.send.message_id] = "listener"
    async with answering:
        await producer.request(Message("questions", b"?"), timeout_ms=30_000)
    with pytest.raises(MessageError):
        await producer.send_batch([Message("orders", b"1"), Message("others", b"2")])
    return ways


class Commits:
    async def execute(self, _message: Message, _argument: object) -> TransactionState:
        return TransactionState.COMMIT

    async def check(self, _message: StoredMessage) -> TransactionState:
        return TransactionState.COMMIT


async def test_every_way_to_send_has_its_traces_and_spans(cluster):
    settings = ProducerSettings(trace=True, telemetry=True)
    exporter = span_exporter()
    async with AsyncAdmin(cluster.nameserver) as admin:
        await admin.topics.create("questions", queues=1)
    async with AsyncProducer(
        cluster.nameserver, group="PG", settings=settings, transaction_listener=Commits()
    ) as producer:
        ways = await every_way_to_send(producer, cluster.nameserver)
    check_traces(await traces_of(cluster), ways)
    spans = exporter.get_finished_spans()
    assert Counter(span.name.split("_")[0] for span in spans if span.status.is_ok) == {
        "send orders": 5, "send questions": 1, "commit orders": 2, "rollback orders": 1,
        "send DefaultCluster": 1,
    }  # fmt: skip
    assert [span.name for span in spans if not span.status.is_ok] == ["send orders"]


def check_traces(traces: list[Trace], ways: dict[str, str]) -> None:
    ends = {
        ways[trace.message_id]: (trace.state, trace.transaction_id == trace.message_id)
        for trace in traces
        if trace.kind is TraceKind.END_TRANSACTION
    }
    assert ends == {
        "commit": ("COMMIT_MESSAGE", True),
        "rollback": ("ROLLBACK_MESSAGE", True),
        "listener": ("COMMIT_MESSAGE", True),
    }
    kinds = Counter(
        (ways.get(each.message_id, each.topic), each.message_kind)
        for each in traces
        if each.kind is TraceKind.PUB and not each.topic.endswith("REPLY_TOPIC")
    )
    normal, half = TracedMessage.NORMAL, TracedMessage.HALF
    assert kinds == {
        ("batch", normal): 2, ("orders", normal): 1, ("commit", half): 1, ("rollback", half): 1,
        ("listener", half): 1, ("questions", normal): 1,
    }  # fmt: skip
    assert sum(each.topic.endswith("REPLY_TOPIC") for each in traces) == 1
    assert "" not in {each.store_host for each in traces}


async def test_a_one_way_message_carries_its_span_and_so_does_each_of_a_batch(cluster):
    span_exporter()
    async with AsyncProducer(
        cluster.nameserver, settings=ProducerSettings(telemetry=True)
    ) as producer:
        (queue, *_) = await producer.queues("orders")
        await producer.send_oneway(Message("orders", b"0"), queue=queue)
        await producer.send_batch(
            [Message("orders", b"1"), Message("orders", b"2")], queue=queue
        )
    async with AsyncPullConsumer(cluster.nameserver, group="reads") as consumer:
        pulled = await consumer.fetch(queue, 0)
    assert [bool(each.properties.get("traceparent")) for each in pulled.messages] == [True] * 3


async def test_spans_of_sender_and_listener_are_one_trace(cluster):
    from opentelemetry import trace

    exporter = span_exporter()
    inside = []

    async def listen(message: StoredMessage) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        if message.body == b"bad":
            raise ValueError("no such order")

    async with AsyncProducer(
        cluster.nameserver, settings=ProducerSettings(telemetry=True)
    ) as producer:
        for body in (b"good", b"bad"):
            await producer.send(Message("orders", body, properties={"shop": "5"}))
    async with consumer(cluster, listen, telemetry=True):
        await until(lambda: len(exporter.get_finished_spans()) == 4, "four spans")
    spans = exporter.get_finished_spans()
    sends = [span for span in spans if span.name == "send orders"]
    calls = [span for span in spans if span.name == "process orders"]
    assert len(sends) == len(calls) == 2
    by_id = {span.context.span_id: span for span in sends}
    for call in calls:
        assert call.parent is not None
        assert call.parent.span_id in by_id
        assert call.context.trace_id == by_id[call.parent.span_id].context.trace_id
        assert (call.attributes or {})["messaging.system"] == "rocketmq"
    assert {call.context.span_id for call in calls} == set(inside)
    assert sorted(call.status.is_ok for call in calls) == [False, True]


# --- batches


async def test_sends_that_come_together_leave_together_and_each_has_its_own_result(cluster):
    settings = ProducerSettings(auto_batch=True)
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        bodies = [b"%d" % n for n in range(40)]
        results = await asyncio.gather(
            *(producer.send(Message("orders", body)) for body in bodies)
        )
        assert len({result.message_id for result in results}) == 40
        places = {(result.queue, result.queue_offset) for result in results}
        assert len(places) == 40
        assert len({result.queue for result in results}) == 1
        stored: dict[int, StoredMessage] = {}
        async with AsyncPullConsumer(cluster.nameserver, group="reads") as consumer:
            pulled = await consumer.fetch(results[0].queue, 0)
            stored |= {message.queue_offset: message for message in pulled.messages}
            pulled = await consumer.fetch(results[0].queue, 32)
            stored |= {message.queue_offset: message for message in pulled.messages}
        for result, body in zip(results, bodies, strict=True):
            assert stored[result.queue_offset].body == body
            assert stored[result.queue_offset].offset_message_id == result.offset_message_id


async def test_what_is_long_late_or_for_a_queue_goes_alone(cluster):
    settings = ProducerSettings(auto_batch=True, batch_delay_ms=60_000, batch_bytes=4000)
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        (queue, *_) = await producer.queues("orders")
        await asyncio.wait_for(producer.send(Message("orders", bytes(3000))), 5)
        await asyncio.wait_for(producer.send(Message("orders", b"x"), queue=queue), 5)
        # A batch that is full does not wait for its time.
        full = [producer.send(Message("orders", bytes(1000))) for _ in range(4)]
        await asyncio.wait_for(asyncio.gather(*full), 5)


async def test_closing_sends_what_waits(cluster):
    settings = ProducerSettings(auto_batch=True, batch_delay_ms=60_000)
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        waiting = producer.send(Message("orders", b"x"))
    assert (await waiting).queue_offset == 0


async def test_a_batch_that_fails_fails_each_of_its_sends(cluster):
    settings = ProducerSettings(auto_batch=True, body_size_max=100, batch_bytes=4000)
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        sends = [producer.send(Message("orders", bytes(60))) for _ in range(3)]
        done = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(each) for each in done] == [MessageError] * 3


async def test_a_batch_that_nobody_takes_fails_each_of_its_sends(cluster):
    settings = ProducerSettings(auto_batch=True, retries=0)
    async with AsyncProducer(cluster.nameserver, settings=settings) as producer:
        await producer.send(Message("orders", b"1"))
        await cluster.close()
        sends = [producer.send(Message("orders", b"x"), timeout_ms=300) for _ in range(3)]
        done = await asyncio.gather(*sends, return_exceptions=True)
        assert len({type(each) for each in done}) == 1
        assert isinstance(done[0], SendFailed | Exception)
