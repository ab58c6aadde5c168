"""Receiving, acknowledging and refusing, with both faces of the simple consumer."""

from typing import assert_type

from cometmq import (
    AsyncProducer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    Message,
    Producer,
    SimpleConsumer,
    SimpleConsumerSettings,
    Sql,
    StoredMessage,
)

SETTINGS = SimpleConsumerSettings(consume_from=ConsumeFrom.FIRST, wait_ms=30_000)


def blocking(nameserver: str) -> None:
    """Acknowledge one message, refuse another."""
    with Producer(nameserver) as producer:
        producer.send_many([Message("typed", b"1"), Message("typed", b"2")])
    with SimpleConsumer(
        nameserver, group="typed_simple", subscriptions=["typed"], settings=SETTINGS
    ) as consumer:
        for message in consumer.receive(1, invisible_ms=30_000):
            later = consumer.change_invisibility(message, 60_000)
            assert_type(later, StoredMessage)
            consumer.ack(later)
        for message in consumer.receive(1):
            consumer.dead_letter(message, "no such customer")


async def with_asyncio(nameserver: str) -> None:
    """Acknowledge a list."""
    async with AsyncProducer(nameserver) as producer:
        await producer.send(Message("typed", b"1", properties={"n": "6"}))
    async with AsyncSimpleConsumer(
        nameserver,
        group="typed_async_simple",
        subscriptions={"typed": Sql("n > 5")},
        settings=SETTINGS,
    ) as consumer:
        messages = await consumer.receive(16)
        assert_type(messages, list[StoredMessage])
        await consumer.ack(messages)
