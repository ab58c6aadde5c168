"""`cometmq explain` names what keeps a message from a group; `conflicts` and `transactions` beside it."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson
import pytest

from cometmq import (
    ALL,
    Admin,
    AsyncAdmin,
    ConsumeFrom,
    Filter,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    Tag,
)
from cometmq.client.api.broker import BrokerApi
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.codec.host import encode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.remoting import Command
from cometmq.connect import ClientInstance
from cometmq.embedded import Embedded
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerNotFound, MessageError
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import SQL92, Subscription
from tests.support.command_line import json_lines, output, run
from tests.support.processes import wait_until

FAST = PushConsumerSettings(
    consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=200, persist_interval_ms=100
)
ORDERLY = replace(FAST, orderly=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    settings = {
        "defaultTopicQueueNums": 1,
        "transactionTimeOut": 0,
        "transactionCheckInterval": 50,
        "transactionCheckMax": 1,
    }
    with Embedded(settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def producer(cluster: Embedded) -> Iterator[Producer]:
    with Producer(cluster.nameserver) as producer:
        yield producer


@pytest.fixture(scope="module")
def admin(cluster: Embedded) -> Iterator[Admin]:
    with Admin(cluster.nameserver) as admin:
        yield admin


@pytest.fixture
def topic(request: pytest.FixtureRequest, producer: Producer) -> str:
    name = f"Why_{abs(hash(request.node.name)) % 10**8}"
    producer.send(Message(name, b"first"))
    return name


@pytest.fixture
def group(topic: str) -> str:
    return f"g_{topic}"


def consumer(
    cluster: Embedded,
    group: str,
    topic: str,
    listener: Callable[[StoredMessage], bool | None] = lambda _: None,
    *,
    expression: Filter = ALL,
    settings: PushConsumerSettings = FAST,
) -> PushConsumer:
    return PushConsumer(
        cluster.nameserver,
        group=group,
        listener=listener,
        subscriptions={topic: expression},
        settings=settings,
    )


def answer_to(admin: Admin, message_id: str, group: str, topic: str, word: str) -> None:
    """Ask until the answer has the word in it."""

    def look() -> bool:
        return word in admin.messages.explain(message_id, group, topic=topic).answer

    try:
        wait_until(look, seconds=15, what=word)
    except TimeoutError:
        raise AssertionError(admin.messages.explain(message_id, group, topic=topic)) from None


def test_no_host_is_connected_to_because_a_producer_named_it_in_an_id(
    cluster, producer, admin, topic, group
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        host = encode_host(f"127.0.0.1:{listener.getsockname()[1]}")
        message_id = encode_message_id(host, 7)
        admin.messages.explain(message_id, group, topic=topic)
        with pytest.raises(BrokerNotFound, match="is no registered broker"):
            admin.messages.view(message_id)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_message_that_was_consumed_is_said_to_be(cluster, producer, admin, topic, group):
    sent = producer.send(Message(topic, b"done"))
    with consumer(cluster, group, topic):
        answer_to(admin, sent.message_id, group, topic, "it was consumed")
        # The offset id and a group that is there need no topic.
        found = admin.messages.explain(sent.offset_message_id, group)
        assert found.message.body == b"done"
        assert "it was consumed" in found.answer


def test_nobody_there_a_tag_that_is_not_wanted_and_a_topic_that_nobody_wants(
    cluster, producer, admin, topic, group
):
    sent = producer.send(Message(topic, b"x", tag="red"))
    admin.groups.create(GroupConfig(group))
    answer_to(admin, sent.message_id, group, topic, "no connected members")
    with pytest.raises(MessageError, match="name the topic"):
        admin.messages.explain("7F" * 16 + "00", group)
    with consumer(cluster, group, topic, expression=Tag("blue || green")):
        answer_to(admin, sent.message_id, group, topic, "subscribes to 'blue || green'")
    producer.send(Message("Elsewhere", b"x"))
    with consumer(cluster, group, "Elsewhere"):
        answer_to(admin, sent.message_id, group, topic, "no member subscribes to")


async def test_an_invalid_filter_of_a_member_is_a_finding(cluster, producer, topic, group):
    sent = producer.send(Message(topic, b"x"))
    subscription = Subscription(topic, "a ===", kind=SQL92)
    beat = Heartbeat("me@1", (), (ConsumerPart(group, (subscription,)),))
    instance = ClientInstance(cluster.nameserver)
    async with AsyncAdmin(instance=instance) as admin:
        command = Command(RequestCode.HEART_BEAT, body=encode_heartbeat(beat))
        await instance.ask(cluster.broker, command)
        found = await admin.messages.explain(sent.message_id, group, topic=topic)
    await instance.close()
    assert "filter 'a ===' is invalid: SQL92, column" in found.answer


def test_a_topic_that_may_not_be_read_and_a_group_that_may_not_consume(
    cluster, producer, admin, topic, group
):
    sent = producer.send(Message(topic, b"x"))
    admin.groups.create(GroupConfig(group, consume_enabled=False))
    answer_to(admin, sent.message_id, group, topic, "consumeEnable")
    admin.topics.create(topic, queues=1, perm=2)
    with Admin(cluster.nameserver) as fresh:
        answer_to(fresh, sent.message_id, group, topic, "may not be read")


def test_a_refused_message_waits_for_its_next_try(cluster, producer, admin, topic, group):
    sent = producer.send(Message(topic, b"bad"))
    with consumer(cluster, group, topic, lambda message: message.body != b"bad"):
        answer_to(admin, sent.message_id, group, topic, "its attempt 2 waits at delay level 3")


def test_what_waits_before_its_topic_is_found(cluster, producer, admin, topic, group):
    delayed = producer.send(Message(topic, b"later", delay_level=18))
    answer_to(admin, delayed.message_id, group, topic, "delayed at delay level 18")
    answer_to(admin, "7F" * 16 + "00", group, topic, "never stored")


def test_a_slow_owner_and_a_lock_of_somebody_else_are_told(
    cluster, producer, admin, topic, group
):
    sent = [producer.send(Message(topic, b"%d" % number)) for number in range(5)][-1]
    ended = threading.Event()
    with consumer(cluster, group, topic, lambda _: ended.wait(60), settings=ORDERLY) as one:

        def owner() -> str:
            found = admin.messages.explain(sent.message_id, group, topic=topic)
            return "".join(
                each.text for each in found.findings if each.check in ("queue", "lock")
            )

        # The lock comes first, and a moment later the queue is the member's own.
        told = (
            f"{one.client_id} has the queue",
            f"{one.client_id} holds the lock of the queue",
        )
        wait_until(
            lambda: all(each in owner() for each in told), seconds=15, what="owner and lock"
        )
        assert set(admin.groups.locks(group).values()) == {one.client_id}
        status, printed = looked(cluster, "explain", sent.message_id, "--group", group)
        ended.set()
        assert status == 0, printed
        assert b"nothing blocks it" in printed


def looked(cluster, *arguments: str) -> tuple[int, bytes]:
    """The status and the output of a command."""
    done = run(*arguments, nameserver=cluster.nameserver)
    return done.returncode, done.stdout


def test_the_command_prints_the_checks_and_the_answer(cluster, producer, topic, group):
    sent = producer.send(Message(topic, b"x", tag="red"))
    arguments = ("explain", sent.message_id, "--group", group)
    with consumer(cluster, group, topic, expression=Tag("blue")):
        wait_until(
            lambda: b"subscribes to 'blue'" in looked(cluster, *arguments)[1],
            seconds=20,
            what="the answer",
        )
        status, printed = looked(cluster, *arguments, "--json")
        told = orjson.loads(printed)
    assert status == 1, "something is in its way"
    assert "subscribes to 'blue'" in told["answer"]
    assert told["message"]["tag"] == "red"
    assert [each["check"] for each in told["findings"]][:3] == ["message", "route", "group"]


def test_members_at_odds_are_shown(cluster, topic, group):
    with (
        consumer(cluster, group, topic, expression=Tag("a")),
        consumer(cluster, group, topic, expression=Tag("b")),
    ):
        status, table = looked(cluster, "group", "conflicts", group)
        told = orjson.loads(looked(cluster, "group", "conflicts", group, "--json")[1])
    assert status == 1
    assert f"CLUSTERING {topic}: a".encode() in table
    assert f"CLUSTERING {topic}: b".encode() in table
    assert [each["kind"] for each in told] == ["SUBSCRIPTION"] * 2


def test_a_discarded_transaction_is_shown_and_resumed(cluster, topic):
    with Producer(cluster.nameserver, group=f"p_{topic}") as producer:
        producer.transaction(Message(topic, b"lost")).__enter__()
        found: list[dict[str, object]] = []

        def is_there() -> bool:
            found[:] = json_lines("transactions", "list", cluster=cluster)
            return any(each["body"] == "lost" for each in found)

        wait_until(is_there, seconds=20, what="the discarded half")
        (lost,) = [each for each in found if each["body"] == "lost"]
        output("transactions", "resume", str(lost["offset_id"]), cluster=cluster)

        def is_there_again() -> bool:
            is_there()
            return len([each for each in found if each["body"] == "lost"]) == 2

        # Checked from the start, and given up once more.
        wait_until(is_there_again, seconds=20, what="the discarded half, again")


async def test_a_broker_gives_the_topics_in_which_a_group_has_offsets(cluster: Embedded):
    async with AsyncAdmin(cluster.nameserver) as admin:
        await admin.topics.create("Counted", queues=1)
        (queue,) = await admin.topics.offsets("Counted")
        await admin.offsets.set("counting", {queue: 0})
        api = BrokerApi(admin._instance)
        assert await api.topics_of_group(cluster.broker, "counting") == ("Counted",)
