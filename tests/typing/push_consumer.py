"""Listeners of every kind, with both faces of the push consumer."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    DeadLetter,
    JsonCodec,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    Received,
    RetryLater,
    StoredMessage,
    Tag,
    Topic,
)
from cometmq.connect import TopicCounts

SETTINGS = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=4)
ORDERS: Topic[dict[str, int]] = Topic("typed", JsonCodec())


def blocking(nameserver: str) -> None:
    """Consume with functions that run in threads."""
    seen = threading.Event()

    def handle(message: StoredMessage) -> None:
        if message.reconsume_times > 3:
            raise DeadLetter("it never works", message)
        if message.tag is None and message.body == b"":
            raise RetryLater(timedelta(seconds=1))
        seen.set()

    def handle_many(messages: Sequence[StoredMessage]) -> bool:
        return all(len(message.body) < 100 for message in messages)

    with Producer(nameserver) as producer:
        producer.send(Message("typed", b"1", tag="a"))
    with PushConsumer(
        nameserver,
        group="typed_push",
        listener=handle,
        subscriptions={"typed": Tag("a || b")},
        settings=SETTINGS,
    ) as consumer:
        assert seen.wait(30)
        consumer.set_concurrency(2)
        consumer.pause()
        consumer.resume()
        assert_type(consumer.statistics(), dict[str, TopicCounts])
    PushConsumer(nameserver, group="typed_push", batch_listener=handle_many)


async def with_asyncio(nameserver: str) -> None:
    """Consume with a coroutine, and with a function of decoded values."""
    seen = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        await asyncio.sleep(0)
        seen.set()

    async def book(order: Received[dict[str, int]]) -> None:
        assert_type(order.value, dict[str, int])
        await asyncio.sleep(0)

    async with AsyncProducer(nameserver) as producer:
        await producer.send(ORDERS.message({"id": 1}, keys="o-1"))
    async with AsyncPushConsumer(
        nameserver,
        group="typed_async_push",
        listener=handle,
        subscriptions=["typed"],
        settings=SETTINGS,
    ) as consumer:
        async with asyncio.timeout(30):
            await seen.wait()
        assert_type(consumer.group, str)
    AsyncPushConsumer(nameserver, group="typed_async_push", listener=ORDERS.listener(book))
