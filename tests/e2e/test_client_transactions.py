"""Transactions from the client's side: blocks, listeners, checks, and producers that die in the middle."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from cometmq import (
    AsyncProducer,
    AsyncPullConsumer,
    Message,
    Producer,
    StoredMessage,
    TransactionState,
)
from cometmq.model.errors import BrokerRefused, MessageError, RequestTimeout
from tests.support.programs import small_cluster

SETTINGS = {
    "transactionTimeOut": 0,
    "transactionCheckInterval": 200,
    "defaultTopicQueueNums": 1,
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that asks soon and often."""
    with small_cluster(tmp_path_factory.mktemp("transactions"), **SETTINGS) as (nameserver, _):
        yield nameserver.address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"Tx_{abs(hash(request.node.name)) % 10**8}"


async def bodies(names: str, topic: str, *, count: int, seconds: float = 10) -> list[bytes]:
    """The messages of the topic's only queue once there are so many, or time is over."""
    deadline = time.monotonic() + seconds
    async with AsyncPullConsumer(names) as consumer:
        (queue,) = await consumer.queues(topic)
        while True:
            top = await consumer.max_offset(queue)
            if top >= count or time.monotonic() > deadline:
                return (
                    [m.body for m in (await consumer.fetch(queue, 0)).messages] if top else []
                )
            await asyncio.sleep(0.05)


async def make(names: str, topic: str) -> AsyncProducer:
    """A producer whose topic exists."""
    producer = AsyncProducer(names, group=f"g_{topic}")
    await producer.start()
    await producer.send(Message(topic, b"first"))
    return producer


async def test_a_block_commits_at_its_end_and_rolls_back_at_an_exception(names, topic):
    producer = await make(names, topic)
    async with producer:
        async with producer.transaction(Message(topic, b"good")) as transaction:
            assert await bodies(names, topic, count=2, seconds=0.2) == [b"first"]
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction(Message(topic, b"bad")):
                _ = 1 / 0
        async with producer.transaction(Message(topic, b"not wanted")) as transaction:
            transaction.rollback()
        async with producer.transaction(Message(topic, b"early")) as transaction:
            await transaction.commit()
            with pytest.raises(MessageError, match="has ended already"):
                transaction.commit()
        found = await bodies(names, topic, count=4, seconds=0.6)
    assert found == [b"first", b"good", b"early"]


async def test_while_the_block_runs_checks_change_nothing(names, topic):
    producer = await make(names, topic)
    async with producer, producer.transaction(Message(topic, b"slow")):
        await asyncio.sleep(0.7)
        assert await bodies(names, topic, count=2, seconds=0) == [b"first"]
    assert await bodies(names, topic, count=2) == [b"first", b"slow"]
    assert await bodies(names, topic, count=3, seconds=0.5) == [b"first", b"slow"]


async def test_an_end_that_was_lost_is_told_when_the_broker_asks(names, topic, monkeypatch):
    producer = await make(names, topic)
    async with producer:
        ask = producer._instance.ask

        async def deaf(address, command, **more):
            if command.code == 37:
                raise RequestTimeout("the end is lost")
            return await ask(address, command, **more)

        monkeypatch.setattr(producer._instance, "ask", deaf)
        async with producer.transaction(Message(topic, b"told late")):
            pass
        assert await bodies(names, topic, count=2) == [b"first", b"told late"]


class Books:
    """A listener whose work is written down where another process finds it."""

    def __init__(self) -> None:
        self.written: dict[bytes, TransactionState] = {}
        self.checked: list[bytes] = []

    def execute(self, message: Message, argument: object) -> TransactionState:
        assert isinstance(argument, TransactionState)
        self.written[bytes(message.body)] = argument
        return argument

    async def check(self, message: StoredMessage) -> TransactionState:
        self.checked.append(message.body)
        return self.written[message.body]


async def test_a_listener_does_the_work_and_says_how_it_ends(names, topic):
    books = Books()
    async with AsyncProducer(names, group=f"g_{topic}", transaction_listener=books) as producer:
        await producer.send(Message(topic, b"first"))
        for state in (TransactionState.COMMIT, TransactionState.ROLLBACK):
            result = await producer.send_in_transaction(
                Message(topic, state.name.encode()), state
            )
            assert result.state is state
        unknown = await producer.send_in_transaction(
            Message(topic, b"LATER"), TransactionState.UNKNOWN
        )
        assert unknown.state is TransactionState.UNKNOWN
        assert await bodies(names, topic, count=2) == [b"first", b"COMMIT"]
        books.written[b"LATER"] = TransactionState.COMMIT
        assert await bodies(names, topic, count=3) == [b"first", b"COMMIT", b"LATER"]
    assert set(books.checked) == {b"LATER"}


async def test_another_producer_of_the_group_settles_what_a_dead_one_left(names, topic):
    producer = await make(names, topic)
    left = await producer.transaction(Message(topic, b"left")).__aenter__()
    await producer.close()
    books = Books()
    books.written[b"left"] = TransactionState.COMMIT
    async with AsyncProducer(names, group=f"g_{topic}", transaction_listener=books) as other:
        await other.send(Message(topic, b"second"))
        found = await bodies(names, topic, count=3)
        assert sorted(found) == [b"first", b"left", b"second"]
        # The first one wakes up and thinks otherwise.
        async with AsyncProducer(names, group=f"g_{topic}") as woken:
            await woken.queues(topic)
            message = Message(topic, b"left")
            with pytest.raises(BrokerRefused, match="another outcome: it was committed"):
                await woken._transactions.end(left.half, message, TransactionState.ROLLBACK)


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"deliver": timedelta(seconds=1)}])
async def test_a_delay_is_refused_before_anything_is_sent(names, topic, delay):
    async with AsyncProducer(names) as producer:
        with pytest.raises(MessageError, match="delay"):
            async with producer.transaction(Message(topic, b"x", **delay)):
                pass
        with pytest.raises(MessageError, match="no transaction_listener"):
            await producer.send_in_transaction(Message(topic, b"x"))


def test_the_blocking_twin_has_the_same_block(names, topic):
    with Producer(names, group=f"g_{topic}") as producer:
        producer.send(Message(topic, b"first"))
        with producer.transaction(Message(topic, b"good")) as transaction:
            assert transaction.half.queue.topic == topic
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"bad")):
            _ = 1 / 0
        with producer.transaction(Message(topic, b"early")) as transaction:
            transaction.commit()
    assert asyncio.run(bodies(names, topic, count=4, seconds=0.6)) == [
        b"first", b"good", b"early",
    ]  # fmt: skip
