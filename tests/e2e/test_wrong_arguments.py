"""Arguments of wrong kinds, for each parameter of the public constructors and methods: the error names the parameter."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from cometmq import AsyncProducer, AsyncPullConsumer, JsonCodec, Message, MessageQueue, Producer
from cometmq.client.sync.client import BlockingNoun
from cometmq.embedded import Embedded
from cometmq.errors import CometError, MessageError, SettingsError
from tests.support.public_names import public

WRONG: list[Any] = [5, "\x01", 3.5, [1], object(), b"b", {"a": 1}]
QUEUE = MessageQueue("orders", "broker-a", 0)
GOOD: dict[str, Any] = {
    "topic": "orders", "body": b"x", "group": "g", "access_key": "a", "secret_key": "b", "name": "n",
    "codec": JsonCodec(), "queues": [QUEUE], "rooms": {"r"}, "kind": int, "expression": "a = 1",
    "room_of_queue": str, "room_of_client": str, "broker_name": "broker-a", "queue_id": 0,
    "message": Message("orders", b"x"), "messages": [Message("orders", b"x")], "queue": QUEUE,
    "offset": 0, "topics": ["orders"], "ms": 0,
}  # fmt: skip
MADE = [
    "Admin", "AsyncAdmin", "AsyncProducer", "AsyncPullConsumer", "AsyncPushConsumer",
    "AsyncSimpleConsumer", "ConsistentHash", "PullConsumerSettings", "Credentials", "EncodedProducer", "FixedQueues",
    "MachineRooms", "Message", "MsgspecCodec", "NearbyRoom", "Producer", "ProducerSettings",
    "PullConsumer", "PushConsumer", "PushConsumerSettings", "PydanticCodec", "QueueReader", "ReplayClaims",
    "SimpleConsumer", "SimpleConsumerSettings", "Sql", "Tag", "TlsSettings", "Topic",
]  # fmt: skip
RUNNING: dict[str, dict[str, Any]] = {
    "Producer": {},
    "PullConsumer": {},
    "SimpleConsumer": {"group": "simple", "subscriptions": ["orders"]},
    "PushConsumer": {"group": "push", "listener": print, "subscriptions": ["orders"]},
    "Admin": {},
    "QueueReader": {},
}
# They end the client, wait for messages or for a signal, or act on brokers until all are through.
NOT_CALLED = {"close", "start", "wait", "iterate", "read", "receive"}


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with Embedded(settings={"defaultTopicQueueNums": 1}) as cluster:
        with Producer(cluster.nameserver) as producer:
            producer.send(Message("orders", b"0"))
        yield cluster.nameserver


def complaint(call: Any, arguments: dict[str, Any], name: str) -> str | None:
    """What is wrong with the error that a wrong argument gives; None: nothing."""
    try:
        call(**arguments)
    except CometError:
        return None
    except TypeError as error:
        return None if name in str(error) else f"{name}={arguments[name]!r:.20}: {error!r}"
    except Exception as error:
        return f"{name}={arguments[name]!r:.20}: {error!r}"
    return None


def complaints(call: Any) -> list[str]:
    parameters = {
        name: each
        for name, each in inspect.signature(call).parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    needed = {
        name: GOOD.get(name) for name, each in parameters.items() if each.default is each.empty
    }
    if "listener" in parameters and "batch_count" not in parameters:
        needed["listener"] = print
    found = (
        complaint(call, {**needed, name: value}, name) for name in parameters for value in WRONG
    )
    return [each for each in found if each]


@pytest.mark.parametrize("name", MADE)
def test_a_constructor_names_the_argument_of_a_wrong_kind(name: str):
    assert not complaints(public(name))


def nouns(client: Any) -> list[BlockingNoun[Any]]:
    """The subjects of an admin client, such as its topics."""
    given = [getattr(client, name) for name in dir(type(client)) if name[0] != "_"]
    return [each for each in given if isinstance(each, BlockingNoun)]


@pytest.mark.parametrize("name", RUNNING)
def test_a_method_names_the_argument_of_a_wrong_kind(names: str, name: str):
    with public(name)(names, **RUNNING[name]) as client:
        found = {
            method.__qualname__: wrong
            for one in (client, *nouns(client))
            for each, method in inspect.getmembers(one, inspect.ismethod)
            if each[0] != "_" and each not in NOT_CALLED and (wrong := complaints(method))
        }
    assert not found


async def test_an_argument_is_named_by_both_faces_with_the_class_that_was_made(names: str):
    """Also of the methods that have no function around them, since they are called too often for one."""
    wrong: dict[str, Any] = {"timeout_ms": "soon"}
    said = "send: timeout_ms is 'soon'; it must be a whole number or None"
    async with AsyncProducer(names) as producer:
        with pytest.raises(SettingsError, match=f"^AsyncProducer.{said}"):
            await producer.send(GOOD["message"], **wrong)
        with pytest.raises(
            SettingsError, match=r"^AsyncProducer.send: queue is 5; it must be MessageQueue or"
        ):
            await producer.send(GOOD["message"], queue=5)  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match=r"^AsyncProducer.send_oneway: queue is 5"):
            await producer.send_oneway(GOOD["message"], queue=5)  # type: ignore[arg-type]
    async with AsyncPullConsumer(names) as consumer:
        with pytest.raises(SettingsError, match=r"^AsyncPullConsumer.receive: wait_ms is 'x'"):
            await consumer.receive(wait_ms="x")  # type: ignore[arg-type]
    with Producer(names) as blocking:
        with pytest.raises(SettingsError, match=f"^Producer.{said}"):
            blocking.send(GOOD["message"], **wrong)
        with pytest.raises(SettingsError, match=f"^Producer.{said}"):
            blocking.send_async(GOOD["message"], **wrong).result(30)
        with pytest.raises(SettingsError, match=r"^Producer.send_oneway: queue is 'x'"):
            blocking.send_oneway(GOOD["message"], queue="x")  # type: ignore[arg-type]


def test_an_error_says_the_parameter_the_value_and_what_it_must_be(names: str):
    with pytest.raises(
        CometError, match=r"Producer.__init__: nameservers is 5; it must be text or None"
    ):
        Producer(5)  # type: ignore[arg-type]
    with (
        Producer(names) as producer,
        pytest.raises(MessageError, match="'orders' is not a Message"),
    ):
        producer.send("orders")  # type: ignore[arg-type]
