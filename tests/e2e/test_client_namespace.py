"""Clients with a namespace: short names for their users, long ones at the broker."""

from collections.abc import AsyncIterator

import pytest

from cometmq import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    ClientSettings,
    ConsumeFrom,
    Message,
    ProducerSettings,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
    StoredMessage,
    TransactionState,
)
from cometmq.admin import GroupConfig
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.namespace import NO_NAMESPACE, Namespace, namespace_of
from tests.support.scripted import until

CHECKING = {"transactionTimeOut": 0, "transactionCheckInterval": 500}
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


async def test_each_namespace_has_topics_and_groups_of_its_own(fresh):
    names = fresh.nameserver
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

    settings = PushConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
    async with AsyncPushConsumer(
        names, group="billing", listener=listen, subscriptions=["orders"],
        settings=settings,
    ) as consumer:  # fmt: skip
        assert consumer.group == "shop%billing"
        # The third is "ours" again, from the retry topic, after 10 s at level 3.
        await until(lambda: len(got) >= 2, "both messages")
    assert {message.topic for message in got} == {"orders"}
    assert {message.body for message in got} == {b"ours", b"by queue"}
    reading = PullConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
    async with AsyncPullConsumer(names, group="reads", settings=reading) as reader:
        reader.subscribe("orders")
        pulled = await reader.receive(wait_ms=10_000)
        assert {message.topic for message in pulled} == {"orders"}


async def test_a_request_crosses_namespaces_by_the_clusters_reply_topic(fresh):
    names = fresh.nameserver
    async with (
        AsyncProducer(names, settings=SENDING) as asking,
        AsyncProducer(names, settings=SENDING, group="answers") as answering,
    ):
        await asking.send(Message("prices", b"first"))

        async def listen(message: StoredMessage) -> None:
            if message.body != b"first":
                await answering.reply(message, b"0.30")

        settings = PushConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
        async with AsyncPushConsumer(
            names, group="shop", listener=listen, subscriptions=["prices"],
            settings=settings,
        ):  # fmt: skip
            reply = await asking.request(Message("prices", b"apple"), timeout_ms=20_000)
        assert reply.body == b"0.30"


def test_the_broker_knows_the_long_names(cometmq):
    from cometmq import Producer

    with Producer(settings=SENDING) as producer, Admin() as admin:
        producer.send(Message("orders", b"x"))
        assert "shop%orders" in admin.topics.list()
        assert "orders" not in admin.topics.list()


async def test_a_messages_queue_is_a_queue_of_its_consumer_and_commits_go_to_its_own_namespace(
    fresh,
):
    """Another tenant has a topic of the same short name."""
    reading = PullConsumerSettings(
        namespace="shop", consume_from=ConsumeFrom.FIRST, auto_commit=False
    )
    names = fresh.nameserver
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


async def test_a_simple_consumer_settles_messages_of_its_namespace(fresh):
    names = fresh.nameserver
    async with AsyncProducer(names, settings=SENDING) as shop:
        await shop.send(Message("orders", b"one"))
    settings = SimpleConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
    async with AsyncSimpleConsumer(
        names, group="g", subscriptions=["orders"], settings=settings
    ) as consumer:
        (message,) = await consumer.receive(wait_ms=10_000)
        message = await consumer.change_invisibility(message, 60_000)
        await consumer.ack(message)


@pytest.fixture
async def tenants(fresh: AsyncEmbedded) -> AsyncIterator[tuple[str, AsyncAdmin, AsyncAdmin]]:
    """A cluster, an administrator of `shop` and one of everything; each has made a topic `orders` and a group `g`."""
    names = fresh.nameserver
    ours = ClientSettings(namespace="shop")
    async with AsyncAdmin(names, settings=ours) as shop, AsyncAdmin(names) as everything:
        for admin in (shop, everything):
            made = await admin.topics.create("orders", queues=1)
            assert {config.name for config in made.values()} == {"orders"}
            await admin.groups.create(GroupConfig("g"))
        yield names, shop, everything


async def test_an_admin_of_a_namespace_sees_and_changes_its_own_topics_and_groups_alone(
    tenants,
):
    names, shop, everything = tenants
    assert {"orders", "shop%orders"} <= {*await everything.topics.list()}
    assert {"g", "shop%g"} <= {*await everything.groups.configs()}
    topics, groups = await shop.topics.list(), await shop.groups.configs()
    assert [name for name in topics if "orders" in name] == ["orders"]
    assert groups["g"].name == "g"
    assert not [name for name in (*topics, *groups) if "%" in name]
    for changed in (
        await shop.topics.set("orders", {"write_queues": 2}),
        await shop.topics.configs("orders"),
    ):
        assert {(each.name, each.write_queues) for each in changed.values()} == {("orders", 2)}
    changed_group = await shop.groups.set("g", {"retry_queues": 3})
    assert {each.name for each in changed_group.values()} == {"g"}
    await shop.topics.set_request_mode("orders", "g", "POP")
    assert (await shop.topics.route("orders")).brokers
    reading = PullConsumerSettings(namespace="shop")
    async with AsyncPullConsumer(names, group="g", subscriptions=["orders"], settings=reading):
        (seen,) = (await shop.groups.connections("g")).values()
        assert [*seen.subscriptions] == ["orders"]
    assert await shop.groups.connections("g") == {}
    await shop.groups.delete("g")
    await shop.topics.delete("orders")
    left = [name for name in await everything.topics.list() if "orders" in name]
    assert left == ["orders"]
    assert "g" in await everything.groups.configs()


async def test_an_admin_of_a_namespace_finds_its_messages_and_moves_its_groups_alone(tenants):
    names, shop, everything = tenants
    async with AsyncProducer(names, settings=SENDING) as producer:
        sent = await producer.send(Message("orders", b"x", keys="k"))
    (queue,) = await shop.topics.offsets("orders")
    assert queue.topic == "orders"
    (by_key,) = await shop.messages.by_key("orders", "k")
    by_id = await shop.messages.by_id("orders", sent.message_id)
    viewed = await shop.messages.view(sent.offset_message_id)
    assert {by_key.queue, viewed.queue, by_id and by_id.queue} == {queue}
    await shop.offsets.set("g", {queue: 0})
    assert await shop.offsets.committed("g", "orders") == {queue: 0}
    assert (await shop.groups.show("g")).name == "g"
    assert [each.name for each in await shop.topics.groups("orders")] == ["g"]
    assert {*(await shop.groups.show("g")).progress} == {
        *(await shop.topics.show("orders")).queues
    }
    assert "g" in [each.name for each in await shop.groups.list()]
    assert await shop.offsets.lag("g") == await shop.offsets.lag("g", "orders") == {queue: 1}
    assert await shop.offsets.at("orders", None) == {queue: 1}
    assert await shop.offsets.reset("g", "orders", None) == {queue: 1}
    (theirs,) = (await everything.offsets.committed("g", "orders")).values()
    assert theirs is None


async def test_counts_of_a_push_consumer_and_checks_of_transactions_have_short_topics():
    async with AsyncEmbedded(settings=CHECKING) as cluster:
        names = cluster.nameserver
        asked: list[str] = []

        class Listener:
            async def execute(self, _message: Message, _argument: object) -> TransactionState:
                return TransactionState.UNKNOWN

            async def check(self, message: StoredMessage) -> TransactionState:
                asked.append(message.topic)
                return TransactionState.COMMIT

        async with AsyncProducer(
            names, group="g", settings=SENDING, transaction_listener=Listener()
        ) as producer:
            await producer.send_in_transaction(Message("orders", b"x"))
            await until(lambda: asked, "a check")
        assert {*asked} == {"orders"}

        async def listen(_message: StoredMessage) -> None: ...

        settings = PushConsumerSettings(namespace="shop", consume_from=ConsumeFrom.FIRST)
        async with AsyncPushConsumer(
            names, group="counts", listener=listen, subscriptions=["orders"], settings=settings
        ) as consumer:
            await until(lambda: consumer.statistics().get("orders"), "the message is counted")
            assert not [topic for topic in consumer.statistics() if "shop%" in topic]
