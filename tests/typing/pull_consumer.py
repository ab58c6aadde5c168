"""Receiving by subscription and reading by offset, with both faces of the pull consumer."""

from typing import assert_type

from cometmq import (
    AsyncProducer,
    AsyncPullConsumer,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullConsumerSettings,
    StoredMessage,
)
from cometmq.connect import PullResult

SETTINGS = PullConsumerSettings(consume_from=ConsumeFrom.FIRST)


def blocking(nameserver: str) -> None:
    """Receive, iterate, fetch, seek and commit."""
    with Producer(nameserver) as producer:
        producer.send_many([Message("typed", b"1"), Message("typed", b"2")])
    with PullConsumer(
        nameserver, group="typed_pull", subscriptions=["typed"], settings=SETTINGS
    ) as consumer:
        assert_type(consumer.receive(1, wait_ms=30_000), list[StoredMessage])
        for message in consumer:
            assert_type(message, StoredMessage)
            break
        (queue, *_rest) = consumer.queues("typed")
        pulled = consumer.fetch(queue, 0, max_count=8)
        assert_type(pulled, PullResult)
        assert_type(pulled.messages, tuple[StoredMessage, ...])
        assert_type(consumer.committed(queue), int | None)
        consumer.commit(queue, consumer.max_offset(queue))
        assert_type(consumer.assignment(), list[MessageQueue])


async def with_asyncio(nameserver: str) -> None:
    """Receive from assigned queues."""
    async with AsyncProducer(nameserver) as producer:
        await producer.send(Message("typed", b"1"))
    async with AsyncPullConsumer(nameserver, group="typed_async_pull") as consumer:
        queues = await consumer.queues("typed")
        await consumer.assign(queues)
        await consumer.seek(queues[0], await consumer.min_offset(queues[0]))
        async for message in consumer:
            assert_type(message.body, bytes)
            break
        assert_type(await consumer.offset_by_time(queues[0], 0), int)
