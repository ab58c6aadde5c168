"""The errors that a user meets first: one line each that says what, which, and what now."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from cometmq import (
    Admin,
    Credentials,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    Sql,
)
from cometmq.embedded import Embedded
from cometmq.errors import (
    BrokerRefused,
    ClientClosed,
    CometError,
    ConnectError,
    GroupNotFound,
    MessageError,
    RequestError,
    SettingsError,
    SubscriptionError,
    TopicNotFound,
)
from tests.support.accounts import CANARY, account, guarded_cluster

SETTINGS: dict[str, str | int | bool] = {
    "autoCreateTopicEnable": False,
    "autoCreateSubscriptionGroup": False,
    "maxMessageSize": 1_000,
}
QUICK = ProducerSettings(send_timeout_ms=1_500)


@pytest.fixture(scope="module")
def names():
    with Embedded(settings=SETTINGS) as made, Admin(made.nameserver) as admin:
        admin.topics.create("orders")
        yield made.nameserver


def send(nameserver: str, topic: str = "orders", body: Any = b"x") -> None:
    with Producer(nameserver, settings=QUICK) as producer:
        producer.send(Message(topic, body))


def change_group(names: str, group: str, field: str = "retry_queues") -> None:
    with Admin(names) as admin:
        admin.groups.set(group, {field: 2})


def change_topic(names: str, topic: str) -> None:
    with Admin(names) as admin:
        admin.topics.set(topic, {"perm": 6})


def pull(nameserver: str, topic: str, group: str) -> None:
    with PullConsumer(nameserver, group=group) as consumer:
        for queue in consumer.queues(topic):
            consumer.fetch(queue, 0)


def pop(nameserver: str, group: str) -> None:
    with SimpleConsumer(nameserver, group=group, subscriptions=["orders"]) as consumer:
        consumer.receive(wait_ms=500)


def push(nameserver: str, group: str = "g", **arguments: Any) -> None:
    with PushConsumer(nameserver, group=group, **arguments):
        pass


CASES: dict[str, tuple[Callable[[str], object], type[CometError], str]] = {
    "nobody at the address": (
        lambda _: send("127.0.0.1:1"),
        ConnectError, r"cannot connect to 127\.0\.0\.1:1: .*refused; is it running there\?",
    ),
    "no such host": (
        lambda _: send("no-such-host.invalid:9876"),
        ConnectError, r"cannot connect to no-such-host\.invalid:9876: .*; is it running there\?",
    ),
    "an address without a port": (
        lambda _: Producer("localhost"), SettingsError, "'localhost' has no port from 1 to 65535; write host:port",
    ),
    "an address with a port that there is not": (
        lambda _: Producer("127.0.0.1:99999"), SettingsError, "'127.0.0.1:99999' has no port from 1 to 65535; write host:port",
    ),
    "a host's name that cannot be": (
        lambda _: send("no..host:9876"), ConnectError, r"cannot connect to no\.\.host:9876: ",
    ),
    "a topic that there is not": (
        lambda names: send(names, "ordres"),
        TopicNotFound, r"no route of topic 'ordres'; create it \(cometmq topic create\)",
    ),
    "reading a topic that there is not": (
        lambda names: pull(names, "ordres", "g"), TopicNotFound, "topic 'ordres'; create it",
    ),
    "the topic of traces, which brokers make": (
        lambda names: pull(names, "RMQ_SYS_TRACE_TOPIC", "g"),
        TopicNotFound, r"'RMQ_SYS_TRACE_TOPIC'; brokers create it with traceTopicEnable=true",
    ),
    "changing a group that there is not": (
        lambda names: change_group(names, "nobody"),
        GroupNotFound, r"no broker has the settings of group 'nobody'; create it with cometmq group create or Admin.groups.create",
    ),
    "changing what a group does not have": (
        lambda names: change_group(names, "nobody", "retries"),
        SettingsError, r"changes: 'retries' is not a field of GroupConfig that can be changed; these are consume_enabled, ",
    ),
    "changing a topic that there is not": (
        lambda names: change_topic(names, "nothing"),
        TopicNotFound, r"no broker has the topic 'nothing'; create it with cometmq topic create or Admin.topics.create",
    ),
    "a topic's name that cannot be": (
        lambda _: Message("or ders", b"x"), MessageError, "'or ders' contains illegal characters, allowing only",
    ),
    "text for bytes": (
        lambda names: send(names, body="x"), MessageError, "body must be bytes, not str; encode text",
    ),
    "a group that there is not, pulling": (
        lambda names: pull(names, "orders", "nobody"),
        BrokerRefused, r"\[nobody\] does not exist, create it or set autoCreateSubscriptionGroup",
    ),
    "a group that there is not, popping": (
        lambda names: pop(names, "nobody"),
        BrokerRefused, r"\[nobody\] does not exist, create it or set autoCreateSubscriptionGroup",
    ),
    "a group's name that cannot be": (
        lambda names: pop(names, "a b"), RequestError, "group 'a b' contains illegal characters",
    ),
    "a group's name that leaves no room for its retry topic": (
        lambda names: push(names, group="g" * 249, listener=print, subscriptions=["orders"]),
        RequestError, r"topic '%RETRY%ggg.* has 256 bytes, and at most 255 are allowed; use a shorter name for the group",
    ),
    "too large for the client": (
        lambda names: send(names, body=bytes(5_000_000)),
        MessageError, r"the body for topic 'orders' has 5000000 bytes; at most 4194304 are allowed \(body_size_max",
    ),
    "too large for the broker": (
        lambda names: send(names, body=bytes(2_000)),
        BrokerRefused, r"MESSAGE_ILLEGAL: message body size 2000 exceeds 1000 \(maxMessageSize\)",
    ),
    "a setting out of its bounds": (
        lambda _: PushConsumerSettings(concurrency=0),
        SettingsError, r"PushConsumerSettings\.concurrency is 0; it must be a whole number from 1 to 10000",
    ),
    "a consumer without a topic": (
        lambda names: push(names, listener=print),
        SubscriptionError, r"has no topic; call subscribe\(topic\) first",
    ),
    "a consumer without a listener": (
        lambda names: push(names, subscriptions=["orders"]), SettingsError, "needs listener= .*none is given",
    ),
    "a text for a filter": (
        lambda names: push(names, listener=print, subscriptions={"orders": "paid"}),
        SubscriptionError, r"topic 'orders' is 'paid'; write Tag\('paid'\)",
    ),
    "a producer that was not started": (
        lambda names: Producer(names).send(Message("orders", b"x")),
        ClientClosed, r"is not running; use it inside `(async )?with`, or call start\(\) first",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_error_says_in_one_line_what_which_and_what_now(case: str, names: str):
    work, kind, says = CASES[case]
    with pytest.raises(CometError) as raised:
        work(names)
    assert type(raised.value) is kind
    assert re.search(says, str(raised.value)), str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_sql_expression_is_shown_with_the_place_that_is_wrong():
    with pytest.raises(SubscriptionError) as raised:
        Sql("price >> 10")
    said, shown, mark = str(raised.value).splitlines()
    assert said.startswith("SQL92, column 8: ")
    assert (shown.strip(), mark.index("^")) == ("price >> 10", shown.index(">") + 1)


def test_whoever_lacks_a_right_is_told_which(tmp_path):
    alice = Credentials("alice-the-reader", f"{CANARY}-alice")
    with guarded_cluster(tmp_path, account(alice, topicPerms=["orders=SUB"])) as (
        names,
        _broker,
    ):
        for credentials, says in [
            (alice, r"alice-the-reader.*orders|orders.*alice-the-reader"),
            (None, "has no access key: give the client credentials"),
            (
                Credentials("alice-the-reader", "wrong"),
                "not that of a known user: check that the access key exists",
            ),
        ]:
            settings = ProducerSettings(credentials=credentials, retries=0)
            with (
                Producer(names.address, settings=settings) as producer,
                pytest.raises(BrokerRefused) as raised,
            ):
                producer.send(Message("orders", b"x"))
            assert re.search(says, str(raised.value)), str(raised.value)
            assert "\n" not in str(raised.value)
            assert CANARY not in str(raised.value)
