"""Order holds: keys over queues, consumers that come and go, a broker that is killed; and what a refusal does."""

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq import (
    Admin,
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    OrderlyStatus,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
    by_hash,
)
from cometmq.embedded import Embedded
from cometmq.model.errors import CometError
from tests.support import processes, topics
from tests.support.processes import Program
from tests.support.scripted import until

KEYS, CONSUMERS, QUEUES = 64, 4, 8
PER_KEY = 120
SETTINGS = PushConsumerSettings(
    orderly=True,
    consume_from=ConsumeFrom.FIRST,
    rebalance_interval_ms=500,
    persist_interval_ms=300,
    lock_interval_ms=1_000,
    suspend_queue_ms=50,
)


class Watch:
    """Sees every call of every consumer, in the order in which they happen."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.calls: Counter[int] = Counter()
        self.overlaps: list[int] = []
        self.chance = random.Random(7)

    async def listen(self, message: StoredMessage) -> bool:
        queue_id = message.queue.queue_id
        self.calls[queue_id] += 1
        if self.calls[queue_id] > 1:
            self.overlaps.append(queue_id)
        key, number = message.body.decode().split(":")
        self.seen[key].append(int(number))
        await asyncio.sleep(self.chance.random() * 0.004)
        self.calls[queue_id] -= 1
        return self.chance.random() > 0.01

    @property
    def is_complete(self) -> bool:
        return len(self.seen) == KEYS and all(
            max(numbers) == PER_KEY - 1 for numbers in self.seen.values()
        )


async def send_in_order(producer: AsyncProducer, topic: str, key: str) -> None:
    """All messages of a key, each until the broker has it."""
    for number in range(PER_KEY):
        while True:
            try:
                await producer.send(
                    Message(topic, f"{key}:{number}".encode()), selector=by_hash(key)
                )
                break
            except CometError:
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.05)


async def come_and_go(
    names: str, topic: str, watch: Watch, running: list, is_up: asyncio.Lock
) -> None:
    """A consumer leaves and a new one joins, again and again, while the broker is up.

    One that leaves while it is down cannot give its queues back, and 30 s are too long for a test.
    """
    while True:
        await asyncio.sleep(1.5)
        async with is_up:
            await running.pop(0).close()
            running.append(await consumer(names, topic, watch))


def reader(
    names: str, group: str, topic: str, listener: Any, settings: PushConsumerSettings = SETTINGS
) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        names, group=group, listener=listener, subscriptions=[topic], settings=settings
    )


async def consumer(names: str, topic: str, watch: Watch) -> AsyncPushConsumer:
    made = reader(names, "in_order", topic, watch.listen)
    await made.start()
    return made


@pytest.mark.timeout(180)
async def test_each_key_keeps_its_order_whoever_comes_goes_or_dies(tmp_path: Path):
    topic, watch, port = "InOrder", Watch(), processes.broker_port()
    is_up = asyncio.Lock()
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(processes.nameserver(tmp_path / "nameserver"))

        def broker() -> Program:
            one = processes.broker(tmp_path / "broker", names.address, port=port).start()
            stack.callback(one.kill)
            return one

        served = broker()
        with Admin(names.address) as admin:
            await asyncio.to_thread(admin.topics.create, topic, queues=QUEUES)
        running = [await consumer(names.address, topic, watch) for _ in range(CONSUMERS)]
        patient = ProducerSettings(send_timeout_ms=3_000)
        async with AsyncProducer(names.address, settings=patient) as producer:
            going = asyncio.create_task(
                come_and_go(names.address, topic, watch, running, is_up)
            )
            sending = [
                asyncio.create_task(send_in_order(producer, topic, f"key{n}"))
                for n in range(KEYS)
            ]
            await asyncio.sleep(4)
            async with is_up:
                served.kill()
                served = await asyncio.to_thread(broker)
            await asyncio.gather(*sending)
        await until(lambda: watch.is_complete, "all messages of all keys", seconds=90)
        going.cancel()
        await asyncio.gather(*(each.close() for each in running))
    for key, numbers in watch.seen.items():
        assert numbers[0] == 0, key
        wrong = [(a, b) for a, b in itertools.pairwise(numbers) if b > a + 1]
        assert wrong == [], f"{key} has a gap or goes on after a redelivery that still runs"
    assert watch.overlaps == [], "two calls for one queue at a time"
    given = sum(map(len, watch.seen.values()))
    print(f"{given - KEYS * PER_KEY} of {KEYS * PER_KEY} messages were given again")


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with Embedded(settings={"defaultTopicQueueNums": 1}) as cluster:
        yield cluster.nameserver


async def test_a_refused_message_holds_its_queue_and_becomes_a_dead_letter_after_its_tries(
    names,
):
    seen: list[tuple[bytes, int]] = []

    async def listen(message: StoredMessage) -> bool:
        seen.append((message.body, message.reconsume_times))
        return message.body != b"bad"

    settings = PushConsumerSettings(
        orderly=True, consume_from=ConsumeFrom.FIRST, retries_max=2, suspend_queue_ms=20
    )
    await topics.send_async(names, "Refused", b"before", b"bad", b"after")
    async with reader(names, "refusers", "Refused", listen, settings):
        await until(lambda: (b"after", 0) in seen, "the one behind it")
    assert seen == [(b"before", 0), (b"bad", 0), (b"bad", 1), (b"bad", 2), (b"after", 0)]
    dead: list[StoredMessage] = []

    async def bury(message: StoredMessage) -> None:
        dead.append(message)

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=200)
    async with reader(names, "undertakers", "%DLQ%refusers", bury, settings):
        await until(lambda: dead, "the dead letter")
    assert [message.body for message in dead] == [b"bad"]


async def test_a_listener_commits_by_hand_and_rolls_back_to_its_last_commit(names):
    seen: list[bytes] = []
    script: dict[bytes, list[bool | OrderlyStatus]] = {
        b"2": [OrderlyStatus.COMMIT],
        b"4": [OrderlyStatus.ROLLBACK, True],
        b"5": [False, OrderlyStatus.COMMIT],
    }

    async def listen(message: StoredMessage) -> bool | OrderlyStatus:
        seen.append(message.body)
        answers = script.get(message.body)
        return answers.pop(0) if answers else True

    settings = PushConsumerSettings(
        orderly=True, commit_by_listener=True, consume_from=ConsumeFrom.FIRST,
        suspend_queue_ms=20, rebalance_interval_ms=200,
    )  # fmt: skip

    def consumer() -> AsyncPushConsumer:
        return reader(names, "by_hand", "ByHand", listen, settings)

    await topics.send_async(names, "ByHand", *(b"%d" % number for number in range(1, 8)))
    async with consumer():
        await until(lambda: seen[-1:] == [b"7"], "the last one")
    assert seen == [b"1", b"2", b"3", b"4", b"3", b"4", b"5", b"5", b"6", b"7"]
    seen.clear()
    async with consumer():  # The last two were consumed and never committed.
        await until(lambda: seen == [b"6", b"7"], "those without a commit")


def test_a_plain_function_is_called_in_order_in_threads_and_lists_are_whole(names):
    seen: list[list[bytes]] = []

    def listen(messages: list[StoredMessage]) -> None:
        time.sleep(0.002)
        seen.append([message.body for message in messages])

    asyncio.run(
        topics.send_async(names, "Threads", *(b"%02d" % number for number in range(50)))
    )
    settings = PushConsumerSettings(orderly=True, consume_from=ConsumeFrom.FIRST, batch_count=8)
    with PushConsumer(
        names, group="threads", batch_listener=listen, subscriptions=["Threads"], settings=settings
    ):  # fmt: skip
        processes.wait_until(lambda: sum(map(len, seen)) >= 50, seconds=20, what="50 messages")
    assert [body for call in seen for body in call] == [b"%02d" % n for n in range(50)]
    assert max(map(len, seen)) <= 8


async def test_a_queue_whose_call_outlasts_the_end_of_its_subscription_is_given_up_after_it(
    names,
):
    seen: list[bytes] = []
    gate = asyncio.Event()

    async def slow(message: StoredMessage) -> None:
        seen.append(message.body)
        await gate.wait()

    await topics.send_async(names, "Outlasted", b"1")
    async with reader(names, "outlasted", "Outlasted", slow) as consumer:
        await until(lambda: seen, "the first call")
        consumer.unsubscribe("Outlasted")
        await asyncio.sleep(1.2)  # A second is how long the call is waited for.
        gate.set()
        await asyncio.sleep(0.05)
        await topics.send_async(
            names, "Outlasted", b"2"
        )  # It is pulled until the queue is given up.
        loops = consumer._member.loops
        await until(
            lambda: all(each.topic != "Outlasted" for each in loops), "no pulls", seconds=10
        )
        assert seen == [b"1"]


async def test_a_queue_that_somebody_else_holds_waits_until_it_is_given_back(names):
    owner_seen: list[bytes] = []
    gate = asyncio.Event()

    async def slow(message: StoredMessage) -> None:
        owner_seen.append(message.body)
        await gate.wait()

    seen: list[bytes] = []

    async def listen(message: StoredMessage) -> None:
        assert gate.is_set(), "the other one is still at work"
        seen.append(message.body)

    await topics.send_async(names, "Handed", b"1", b"2")
    owner = reader(names, "handers", "Handed", slow)
    await owner.start()
    await until(lambda: owner_seen, "the owner's call")
    async with reader(names, "handers", "Handed", listen):
        leaving = asyncio.create_task(owner.close())
        await asyncio.sleep(0.7)
        assert seen == []
        gate.set()
        await leaving
        await until(lambda: seen, "the call after it")
    assert owner_seen == [b"1"]
    assert seen == [b"2"]
