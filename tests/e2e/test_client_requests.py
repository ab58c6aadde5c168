"""Requests that are messages: asked, answered by a consumer, and given to who asked and nobody else."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.errors import (
    BrokerRefused,
    MessageError,
    RequestTimeout,
    SendFailed,
)
from tests.support.scripted import until

SETTINGS = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=500)


@pytest.fixture
async def echo(fresh: AsyncEmbedded) -> AsyncIterator[list[StoredMessage]]:
    """A consumer of the topic `ask` that replies with what it was asked; what it got."""
    got: list[StoredMessage] = []
    producer = AsyncProducer(fresh.nameserver, group="answers")

    async def listen(message: StoredMessage) -> None:
        got.append(message)
        if message.body != b"ignore me":
            await producer.reply(message, b"re:" + message.body, properties={"shop": "5"})

    async with producer:
        await producer.send(Message("ask", b"ignore me"))  # Makes the topic.
        async with AsyncPushConsumer(
            fresh.nameserver, group="G", listener=listen, subscriptions=["ask"],
            settings=SETTINGS,
        ):  # fmt: skip
            await until(lambda: got, "the consumer")
            yield got


async def test_each_asker_gets_the_reply_to_its_own_request(fresh, echo):
    async with (
        AsyncProducer(fresh.nameserver) as one,
        AsyncProducer(fresh.nameserver) as two,
    ):
        asked = [(producer, b"%d" % n) for n in range(20) for producer in (one, two)]
        replies = await asyncio.gather(
            *(producer.request(Message("ask", body)) for producer, body in asked)
        )
    assert [reply.body for reply in replies] == [b"re:" + body for _, body in asked]
    reply = replies[0]
    assert reply.user_properties["shop"] == "5"
    assert reply.topic == "DefaultCluster_REPLY_TOPIC"
    assert "ARRIVE_TIME" in reply.properties


async def test_a_blocking_producer_asks_and_a_blocking_listener_replies(fresh):
    def run() -> bytes:
        with Producer(fresh.nameserver, group="answers") as answering:
            answering.send(Message("calm", b"first"))

            def listen(message: StoredMessage) -> None:
                if message.body != b"first":
                    answering.reply(message, message.body.upper())

            with (
                PushConsumer(
                    fresh.nameserver, group="C", listener=listen, subscriptions=["calm"],
                    settings=SETTINGS,
                ),
                Producer(fresh.nameserver) as producer,
            ):  # fmt: skip
                return producer.request(Message("calm", b"hello"), timeout_ms=20_000).body

    assert await asyncio.to_thread(run) == b"HELLO"


async def test_a_request_without_a_reply_ends_with_its_time(fresh, echo):
    async with AsyncProducer(fresh.nameserver) as producer:
        began = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimeout, match="within 300 ms"):
            await producer.request(Message("ask", b"ignore me"), timeout_ms=300)
        assert 0.25 < asyncio.get_running_loop().time() - began < 3


async def test_a_request_that_cannot_be_sent_fails_at_once(fresh):
    nowhere = MessageQueue("ask", "broker-z", 0)
    async with AsyncProducer(fresh.nameserver) as producer:
        await producer.send(Message("ask", b"x"))
        with pytest.raises(Exception, match="broker-z"):
            await producer.request(Message("ask", b"x"), queue=nowhere, timeout_ms=20_000)


async def test_a_request_to_a_queue_of_another_topic_leaves_nothing_behind(fresh, caplog):
    other = MessageQueue("other", "broker-a", 0)
    async with AsyncProducer(fresh.nameserver) as producer:
        with pytest.raises(MessageError, match="belongs to topic 'other'"):
            await producer.request(Message("ask", b"x"), queue=other)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_message_that_asks_nothing_cannot_be_replied_to(fresh, echo):
    async with AsyncProducer(fresh.nameserver) as producer:
        with pytest.raises(MessageError, match="asks for no reply"):
            await producer.reply(echo[0], b"?")


async def test_who_replies_too_late_is_told(fresh, echo):
    async with AsyncProducer(fresh.nameserver) as producer:
        with pytest.raises(RequestTimeout):
            await producer.request(Message("ask", b"ignore me"), timeout_ms=200)
        await until(lambda: len(echo) == 2, "the request")
        with pytest.raises((BrokerRefused, SendFailed), match="fail"):
            await producer.reply(echo[1], b"late")
