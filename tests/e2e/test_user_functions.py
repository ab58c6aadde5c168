"""Functions that the user passes to a client raise whatever they like: its caller gets it, and no part of the client ends."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    TransactionState,
)
from tests.support import processes
from tests.support.programs import small_cluster

SETTINGS = {"transactionTimeOut": 0, "transactionCheckInterval": 200}
SECONDS = 20


class Odd(BaseException):
    """An exception that is no Exception."""


def cancelled() -> None:
    raise asyncio.CancelledError


def interrupted() -> None:
    raise KeyboardInterrupt


def odd() -> None:
    raise Odd


RAISED: dict[str, Callable[[], object]] = {
    "sys.exit": lambda: sys.exit(3),
    "a cancellation": cancelled,
    "Ctrl-C": interrupted,
    "no Exception": odd,
    "StopIteration": lambda: next(iter(())),
    "an exception": lambda: int("missing"),
}
CASES = pytest.mark.parametrize("raised", RAISED)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_cluster(tmp_path_factory.mktemp("functions"), **SETTINGS) as (nameserver, _):
        yield nameserver.address


def name_of(*parts: object) -> str:
    return "_".join("".join(filter(str.isalnum, str(part))) for part in parts)


def reader(names: str, topic: str, came: set[bytes], **settings: Any) -> PushConsumer:
    """The member of a group of this topic; what came to it is in `came`."""
    return PushConsumer(
        names,
        group=topic,
        listener=lambda message: came.add(message.body),
        subscriptions=[topic],
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, **settings),
    )


@CASES
def test_whatever_a_queue_selector_raises_the_send_ends_with_it_even_before_the_topic_is_known(
    names, raised
):
    def choose(*_given: object) -> Any:
        RAISED[raised]()

    with Producer(names) as producer:
        for _ in ("unknown", "known"):
            message = Message(name_of("selected", raised), b"1")
            error = producer.send_async(message, selector=choose).exception(SECONDS)
            assert error is not None
            assert not isinstance(error, TimeoutError)
            producer.send(message)


@CASES
def test_whatever_order_key_raises_the_messages_come_and_the_next_ones(names, raised):
    keyed: list[bytes] = []
    came: set[bytes] = set()

    def key(message: StoredMessage) -> str:
        keyed.append(message.body)
        if message.body == b"0":
            RAISED[raised]()
        return [] if message.body == b"1" else "key"  # type: ignore[return-value]

    topic = name_of("keyed", raised)
    with Producer(names) as producer:
        queue = producer.send(Message(topic, b"0")).queue
        with reader(names, topic, came, orderly=True, order_key=key):
            processes.wait_until(lambda: came == {b"0"}, seconds=SECONDS, what="the first")
            producer.send(Message(topic, b"1"), queue=queue)
            producer.send(Message(topic, b"2"), queue=queue)
            processes.wait_until(lambda: len(came) == 3, seconds=SECONDS, what="the others")
    assert keyed == [b"0", b"1", b"2"]


@CASES
def test_whatever_an_allocation_raises_the_next_rebalance_is_tried(names, raised):
    calls = 0
    came: set[bytes] = set()

    def allocate(queues: Any, _members: Any, _own: str) -> Any:
        nonlocal calls
        calls += 1
        if calls < 10:
            RAISED[raised]()
        return list(queues)

    topic = name_of("allocated", raised)
    with Producer(names) as producer:
        producer.send(Message(topic, b"0"))
    with reader(names, topic, came, allocation=allocate, rebalance_interval_ms=100):
        processes.wait_until(lambda: came == {b"0"}, seconds=SECONDS, what="the message")


class Asked:
    """A listener of transactions that fails in its work and at its first check, and then commits."""

    def __init__(self, raised: str) -> None:
        self.raised = raised
        self.checks = 0

    def execute(self, _message: Message, _argument: object) -> TransactionState:
        RAISED[self.raised]()
        raise AssertionError

    def check(self, _message: StoredMessage) -> TransactionState:
        self.checks += 1
        if self.checks == 1:
            RAISED[self.raised]()
        return TransactionState.COMMIT


class AskedOnTheLoop:
    """The same with `async def`."""

    def __init__(self, raised: str) -> None:
        self.of = Asked(raised)

    async def execute(self, message: Message, argument: object) -> TransactionState:
        return self.of.execute(message, argument)

    async def check(self, message: StoredMessage) -> TransactionState:
        return self.of.check(message)


@CASES
@pytest.mark.parametrize("kind", [Asked, AskedOnTheLoop], ids=["def", "async def"])
def test_whatever_a_listener_of_transactions_raises_it_is_asked_again(names, raised, kind):
    topic = name_of("asked", kind.__name__, raised)
    came: set[bytes] = set()
    with (
        Producer(names, group=topic, transaction_listener=kind(raised)) as producer,
        reader(names, topic, came),
    ):
        producer.send(Message(topic, b"first"))
        try:
            done = producer.send_in_transaction(Message(topic, b"asked"))
        except BaseException as error:  # What is no Exception comes to the caller.
            assert not isinstance(error, Exception)  # noqa: PT017
        else:
            assert done.state is TransactionState.UNKNOWN
        processes.wait_until(lambda: len(came) == 2, seconds=SECONDS, what="the commit")
