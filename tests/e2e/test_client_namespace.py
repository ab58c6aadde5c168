"""Clients with a namespace: short names for their users, long ones at the broker."""

from __future__ import annotations

import pytest

from cometmq.client import (
    Admin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    ConsumerSettings,
    Message,
    ProducerSettings,
    PushSettings,
    SimpleSettings,
    StoredMessage,
)
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.namespace import NO_NAMESPACE, Namespace, namespace_of
from tests.support.scripted import until

SENDING = ProducerSettings(namespace="shop")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("orders", "shop%orders"),
        ("shop%orders", "shop%orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC"),
    ],
)
def test_names_are_wrapped_as_java_wraps_them(short, long):
    namespace = Namespace("shop")
    assert namespace.wrap(short) == long
    assert namespace.unwrap(long) == short.replace("shop%", "")
    assert NO_NAMESPACE.wrap(short) == NO_NAMESPACE.unwrap(short) == short
    assert namespace_of("") is NO_NAMESPACE


async def test_each_namespace_has_topics_and_groups_of_its_own(tmp_path):
    async with AsyncEmbedded() as cluster:
        names = cluster.nameserver
        async with (
            AsyncProducer(names, settings=SENDING) as shop,
            AsyncProducer(names) as other,
        ):
            await other.send(Message("orders", b"of others"))
            sent = await shop.send(Message("orders", b"ours"))
            assert sent.queue.topic == "shop%orders"
            (queue, *_) = await shop.queues("orders")
            await shop.send(Message("orders", b"by queue"), queue=queue)
        got: list[StoredMessage] = []

        async def listen(message: StoredMessage) -> bool:
            got.append(message)
            return message.reconsume_times > 0 or message.body != b"ours"

        settings = PushSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
        async with AsyncPushConsumer(
            names, group="billing", listener=listen, subscriptions=["orders"],
            settings=settings,
        ) as consumer:  # fmt: skip
            assert consumer.group == "shop%billing"
            # The third is "ours" again, from the retry topic, after 10 s at level 3.
            await until(lambda: len(got) >= 2, "both messages")
        assert {message.topic for message in got} == {"orders"}
        assert {message.body for message in got} == {b"ours", b"by queue"}
        reading = ConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
        async with AsyncPullConsumer(names, group="reads", settings=reading) as reader:
            reader.subscribe("orders")
            pulled = await reader.receive(wait_ms=10_000)
            assert {message.topic for message in pulled} == {"orders"}


async def test_a_request_crosses_namespaces_by_the_clusters_reply_topic():
    async with AsyncEmbedded() as cluster:
        names = cluster.nameserver
        async with (
            AsyncProducer(names, settings=SENDING) as asking,
            AsyncProducer(names, settings=SENDING, group="answers") as answering,
        ):
            await asking.send(Message("prices", b"first"))

            async def listen(message: StoredMessage) -> None:
                if message.body != b"first":
                    await answering.reply(message, b"0.30")

            settings = PushSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
            async with AsyncPushConsumer(
                names, group="shop", listener=listen, subscriptions=["prices"],
                settings=settings,
            ):  # fmt: skip
                reply = await asking.request(Message("prices", b"apple"), timeout_ms=20_000)
            assert reply.body == b"0.30"


def test_the_broker_knows_the_long_names(cometmq):
    from cometmq.client import Producer

    with Producer(settings=SENDING) as producer, Admin() as admin:
        producer.send(Message("orders", b"x"))
        assert "shop%orders" in admin.topics()
        assert "orders" not in admin.topics()


async def test_a_messages_queue_is_a_queue_of_its_consumer_and_commits_go_to_its_own_namespace():
    """Another tenant has a topic of the same short name."""
    reading = ConsumerSettings(
        namespace="shop", consume_from=ConsumeFrom.FIRST, auto_commit=False
    )
    async with AsyncEmbedded() as cluster:
        names = cluster.nameserver
        async with (
            AsyncProducer(names, settings=SENDING) as shop,
            AsyncProducer(names) as other,
        ):
            for number in range(5):
                await shop.send(Message("orders", b"%d" % number))
                await other.send(Message("orders", b"of others"))
        async with AsyncPullConsumer(
            names, group="g", subscriptions=["orders"], settings=reading
        ) as reader:
            got: list[StoredMessage] = []
            while len(got) < 5:
                got += await reader.receive(wait_ms=10_000)
            assert (
                {m.queue for m in got}
                <= {*await reader.assignment()}
                == {*await reader.queues("orders")}
            )
            for message in got:
                await reader.commit(message.queue, message.queue_offset + 1)
                assert await reader.committed(message.queue) == message.queue_offset + 1
            assert (
                sum([await reader.max_offset(queue) for queue in await reader.queues("orders")])
                == 5
            )
            again = await reader.fetch(got[0].queue, got[0].queue_offset, max_count=1)
            assert [m.body for m in again.messages] == [got[0].body]
        async with AsyncPullConsumer(names, group="shop%g") as plain:
            others = [await plain.committed(queue) for queue in await plain.queues("orders")]
            assert not any(others), others
        async with AsyncPullConsumer(names, group="g", settings=reading) as reader:
            await reader.assign([got[0].queue])
            assert await reader.assignment() == [got[0].queue]


async def test_a_simple_consumer_settles_messages_of_its_namespace():
    async with AsyncEmbedded() as cluster:
        names = cluster.nameserver
        async with AsyncProducer(names, settings=SENDING) as shop:
            await shop.send(Message("orders", b"one"))
        settings = SimpleSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
        async with AsyncSimpleConsumer(
            names, group="g", subscriptions=["orders"], settings=settings
        ) as consumer:
            (message,) = await consumer.receive(wait_ms=10_000)
            message = await consumer.change_invisibility(message, 60_000)
            await consumer.ack(message)
