"""The simple consumer: receive, acknowledge, hide for longer; on a whole cluster."""

import asyncio
from typing import Any

import pytest

from cometmq import (
    ALL,
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    SimpleConsumer,
    SimpleConsumerSettings,
    Sql,
    StoredMessage,
    Tag,
)
from cometmq.embedded import AsyncEmbedded, Embedded
from cometmq.model.errors import BrokerRefused, ClientClosed, ClientError, SubscriptionError
from cometmq.model.flags import PERM_WRITE
from tests.support import topics

TOPIC = "orders"


@pytest.fixture
def names(fresh: AsyncEmbedded) -> str:
    return fresh.nameserver


def consumer_of(
    names: str, group: str = "g", subscriptions: Any = (TOPIC,), **settings: Any
) -> AsyncSimpleConsumer:
    return AsyncSimpleConsumer(
        names,
        group=group,
        subscriptions=subscriptions,
        settings=SimpleConsumerSettings(**settings),
    )


async def send(names, *bodies, topic=TOPIC, **rest):
    await topics.send_async(names, topic, *bodies, **rest)


async def receive_all(consumer, count, **how):
    got: list[StoredMessage] = []
    async with asyncio.timeout(60):
        while len(got) < count:
            got += await consumer.receive(32, **how)
    return got


async def test_every_message_is_received_once_and_acknowledged(names):
    await send(names, *(b"%d" % number for number in range(20)))
    async with consumer_of(names) as consumer:
        got = await receive_all(consumer, 20, invisible_ms=3_000)
        assert sorted(int(message.body) for message in got) == list(range(20))
        assert {message.topic for message in got} == {TOPIC}
        await consumer.ack(got[:19])
        await consumer.ack(got[19])
        assert await consumer.receive(wait_ms=3_500) == []


async def test_what_is_not_acknowledged_comes_again_under_its_own_topic(names):
    await send(names, b"one", tag="t", keys="k")
    async with consumer_of(names, subscriptions={TOPIC: Tag("t")}) as consumer:
        (first,) = await consumer.receive(invisible_ms=300)
        (again,) = await consumer.receive(invisible_ms=60_000)
        assert (again.body, again.topic, again.tag) == (b"one", TOPIC, "t")
        assert (first.reconsume_times, again.reconsume_times) == (0, 1)
        assert again.message_id == first.message_id
        await consumer.ack(again)


async def test_a_message_is_hidden_for_longer_and_acknowledged_by_its_new_handle(names):
    await send(names, b"one")
    async with consumer_of(names) as consumer:
        (message,) = await consumer.receive(invisible_ms=2_000)
        message = await consumer.change_invisibility(message, 5_000)
        assert await consumer.receive(wait_ms=2_500) == []
        await consumer.ack(message)
        assert await consumer.receive(wait_ms=3_000) == []


async def test_an_acknowledgement_by_the_handle_before_a_change_is_an_error_of_the_caller(
    names,
):
    """`consumer.change_invisibility(m, ...)` without `m = ` hid it once more, and it came again for ever."""
    await send(names, b"one")
    async with consumer_of(names) as consumer:
        (old,) = await consumer.receive(invisible_ms=60_000)
        new = await consumer.change_invisibility(old, 30_000)
        for call in (consumer.ack(old), consumer.change_invisibility(old, 1_000)):
            with pytest.raises(BrokerRefused, match="was replaced"):
                await call
        await consumer.ack(new)


async def test_a_waiting_consumer_of_two_topics_has_a_message_at_once(names):
    await send(names, b"first")
    await send(names, b"first", topic="parcels")
    both = {TOPIC: ALL, "parcels": Sql("n > 5 OR n IS NULL")}
    async with consumer_of(names, subscriptions=both) as consumer:
        await consumer.ack(await receive_all(consumer, 2))
        waiting = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await send(names, b"not this", topic="parcels", properties={"n": "5"})
        await send(names, b"this", topic="parcels", properties={"n": "6"})
        (message,) = await waiting
        assert (message.body, message.topic) == (b"this", "parcels")


async def test_a_consumer_of_a_topic_that_must_not_be_read_waits_and_lets_others_run(names):
    async with AsyncAdmin(names) as admin:
        await admin.topics.create(TOPIC, queues=1, perm=PERM_WRITE)
    async with consumer_of(names) as consumer:
        receiving = asyncio.ensure_future(consumer.receive(wait_ms=500))
        await asyncio.sleep(0.2)
        assert not receiving.done()
        assert await receiving == []


async def test_a_poison_message_is_a_dead_letter_at_once_and_does_not_come_again(names, caplog):
    """Its body cannot be decoded, for example; 16 redeliveries would take hours."""
    await send(names, b"{")
    async with (
        AsyncSimpleConsumer(names, group="g", subscriptions=[TOPIC]) as consumer,
        AsyncAdmin(names) as admin,
    ):
        (message,) = await consumer.receive(invisible_ms=1_000)
        with caplog.at_level("INFO"):
            await consumer.dead_letter(message, "no JSON")
        assert [each for each in caplog.messages if "no JSON" in each] != []
        letters = [letter async for letter in admin.dead_letters.read("g")]
        assert [letter.body for letter in letters] == [b"{"]
        assert await consumer.receive(wait_ms=1_500) == []


def test_a_blocking_simple_consumer_refuses_only_what_it_received():
    with Embedded() as cluster, Producer(cluster.nameserver) as producer:
        sent = producer.send(Message(TOPIC, b"x"))
        with (
            SimpleConsumer(cluster.nameserver, group="g", subscriptions=[TOPIC]) as consumer,
            Admin(cluster.nameserver) as admin,
        ):
            found = admin.messages.view(sent.offset_message_id)
            with pytest.raises(ClientError, match="was not received from a simple consumer"):
                consumer.dead_letter(found)
            (message,) = consumer.receive(invisible_ms=60_000)
            consumer.dead_letter(message)
            (letter,) = admin.dead_letters.read("g")
            assert letter.body == b"x"


async def test_a_message_that_came_too_often_goes_to_the_dead_letters(names):
    await send(names, b"poison")
    settings: dict[str, Any] = {"invisible_ms": 200, "retries_max": 1}
    async with consumer_of(names, **settings) as consumer:
        assert [len(await consumer.receive(wait_ms=30_000)) for _ in range(2)] == [1, 1]
        assert await consumer.receive(wait_ms=1_500) == []
    async with consumer_of(names, "dead", ["%DLQ%g"], **settings) as consumer:
        (message,) = await consumer.receive(wait_ms=30_000)
        assert message.body == b"poison"


async def test_members_of_a_group_share_and_groups_do_not(names):
    await send(names, *(b"%d" % number for number in range(40)))
    async with (
        consumer_of(names) as one,
        consumer_of(names) as two,
        consumer_of(names, "h") as other,
    ):
        shared: list[StoredMessage] = []
        while len(shared) < 40:
            for parts in await asyncio.gather(one.receive(5), two.receive(5)):
                shared += parts
        assert sorted(int(message.body) for message in shared) == list(range(40))
        assert len(await receive_all(other, 40)) == 40


async def test_misuse_is_told(names):
    consumer = AsyncSimpleConsumer(names, group="g")
    with pytest.raises(ClientClosed):
        await consumer.receive()
    async with consumer:
        with pytest.raises(SubscriptionError):
            await consumer.receive()
        await send(names, b"one")
        consumer.subscribe(TOPIC)
        with pytest.raises(ClientError, match="1 to 32"):
            await consumer.receive(33)
        with pytest.raises(BrokerRefused, match="invisibleTime"):
            await consumer.receive(invisible_ms=0)


async def test_in_a_namespace_names_are_short_also_where_messages_come_again(names):
    async with AsyncProducer(names, settings=ProducerSettings(namespace="shop")) as producer:
        await producer.send(Message(TOPIC, b"in the shop"))
    async with consumer_of(names, namespace="shop") as consumer:
        (first,) = await receive_all(consumer, 1, invisible_ms=300)
        (again,) = await receive_all(consumer, 1, invisible_ms=60_000)
        assert (first.topic, again.topic, again.reconsume_times) == (TOPIC, TOPIC, 1)
        await consumer.ack(await consumer.change_invisibility(again, 2_000))
        assert await consumer.receive(wait_ms=2_500) == []


def test_the_blocking_twin_does_the_same():
    with Embedded() as cluster, Producer(cluster.nameserver) as producer:
        producer.send(Message(TOPIC, b"one"))
        settings = SimpleConsumerSettings(consume_from=ConsumeFrom.LAST)
        with SimpleConsumer(
            cluster.nameserver, group="g", subscriptions=[TOPIC], settings=settings
        ) as consumer:
            (message,) = consumer.receive(invisible_ms=5_000)
            consumer.ack([message])
            assert consumer.receive(wait_ms=100) == []
