"""Where a group begins: while somebody sends, after a short first run, and in queues that were added while it was away."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cometmq
from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    MessageQueue,
    ProducerSettings,
    PullConsumerSettings,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.group_member import GroupMember
from cometmq.client.consumer.offset_store import ClusterOffsets, ConsumedProgress
from cometmq.client.consumer.start_offset import StartOffset
from cometmq.embedded import AsyncEmbedded, Embedded
from tests.support import processes, topics
from tests.support.scripted import until

QUEUE = MessageQueue("young", "broker-a", 0)


class Interrupted(OffsetApi):
    """Asks where a queue ends only after somebody has sent to it."""

    def __init__(self, instance: ClientInstance, producer: AsyncProducer) -> None:
        super().__init__(instance)
        self._producer = producer

    async def max_offset(self, queue: MessageQueue) -> int:
        await self._producer.send(Message(queue.topic, b"x"), queue=queue)
        return await super().max_offset(queue)


async def test_the_first_message_of_a_queue_is_not_passed_over() -> None:
    with Embedded() as cluster:
        topics.make(cluster.nameserver, QUEUE.topic)
        instance = ClientInstance(cluster.nameserver)
        await instance.start()
        try:
            async with AsyncProducer(cluster.nameserver) as producer:
                offsets = Interrupted(instance, producer)
                progress = ConsumedProgress(ClusterOffsets(offsets, "new"))
                settings = PushConsumerSettings(consume_from=ConsumeFrom.LAST)
                start = StartOffset(
                    progress, offsets, settings, instance.clock, instance.known, "new"
                )
                assert await start.find(QUEUE) == 0
        finally:
            await instance.close()


# As where the log is larger than the memory: no first message counts as being in memory.
COLD = {"accessMessageInMemoryMaxRatio": 0}
TOPIC, GROUP, QUEUES = "history", "deployed", 4
QUICK: dict[str, Any] = {"rebalance_interval_ms": 200, "route_interval_ms": 200}
LAST = PushConsumerSettings(consume_from=ConsumeFrom.LAST, **QUICK)
SECONDS_MAX = 20.0


async def make_queues(nameserver: str, count: int = QUEUES) -> None:
    """Create the topic with so many queues, or add to those it has."""
    async with AsyncAdmin(nameserver) as admin:
        await admin.topics.create(TOPIC, queues=count)


async def fill(nameserver: str, count: int, text: str, broker: str | None = None) -> set[bytes]:
    """Send two messages to each of so many queues; their bodies."""
    sent: set[bytes] = set()
    async with AsyncProducer(
        nameserver, settings=ProducerSettings(route_interval_ms=200)
    ) as producer:
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                queues = [
                    each
                    for each in await producer.queues(TOPIC)
                    if broker in (None, each.broker_name)
                ]
                if len(queues) >= count:
                    break
                await asyncio.sleep(0.05)
        for n in range(2):
            for queue in queues:
                body = f"{text} {queue} {n}".encode()
                await producer.send(Message(TOPIC, body), queue=queue)
                sent.add(body)
    return sent


def is_pulling(member: GroupMember, count: int) -> bool:
    loops = list(member.loops.values())
    own = [loop for loop in loops if loop.queue.topic == TOPIC]
    return len(own) == count and all(loop.pulled_ms for loop in own)


async def run_push(
    nameserver: str, settings: PushConsumerSettings, count: int, expected: int
) -> set[bytes]:
    """Consume until all queues are pulled and so many messages have come; their bodies."""
    got: set[bytes] = set()

    async def listen(message: StoredMessage) -> None:
        got.add(message.body)

    async with AsyncPushConsumer(
        nameserver, group=GROUP, listener=listen, subscriptions=[TOPIC], settings=settings
    ) as consumer:
        await until(lambda: is_pulling(consumer._member, count), "all queues are pulled")
        await until(lambda: len(got) >= expected, f"{expected} messages")
    return got


async def away(nameserver: str, settings: PushConsumerSettings = LAST) -> None:
    """The topic has messages; the group begins behind them, and closes before any other comes."""
    await make_queues(nameserver)
    await fill(nameserver, QUEUES, "history")
    assert not await run_push(nameserver, settings, QUEUES, 0)


async def comes_back(
    nameserver: str,
    sent: set[bytes],
    settings: PushConsumerSettings = LAST,
    count: int = QUEUES,
) -> None:
    """The group gets what was sent to so many queues while it was away."""
    assert await run_push(nameserver, settings, count, len(sent)) == sent


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_group_that_closes_before_its_first_answer_keeps_where_it_began(orderly):
    settings = replace(LAST, orderly=orderly)
    async with AsyncEmbedded(settings=COLD) as cluster:
        await away(cluster.nameserver, settings)
        sent = await fill(cluster.nameserver, QUEUES, "new")
        await comes_back(cluster.nameserver, sent, settings)


async def test_a_pull_consumer_that_closes_before_its_first_answer_keeps_where_it_began():
    settings = PullConsumerSettings(consume_from=ConsumeFrom.LAST, **QUICK)

    async def run(expected: int) -> set[bytes]:
        got: set[bytes] = set()
        async with AsyncPullConsumer(
            cluster.nameserver, group=GROUP, subscriptions=[TOPIC], settings=settings
        ) as consumer:
            await until(lambda: is_pulling(consumer._member, QUEUES), "all queues are pulled")
            async with asyncio.timeout(SECONDS_MAX):
                while len(got) < expected:
                    got |= {each.body for each in await consumer.receive()}
        return got

    async with AsyncEmbedded(settings=COLD) as cluster:
        await make_queues(cluster.nameserver)
        await fill(cluster.nameserver, QUEUES, "history")
        assert not await run(0)
        sent = await fill(cluster.nameserver, QUEUES, "new")
        assert await run(len(sent)) == sent


async def test_a_broadcasting_pull_consumer_without_automatic_commits_writes_no_offsets(
    tmp_path: Path,
):
    settings = PullConsumerSettings(
        consume_from=ConsumeFrom.FIRST,
        broadcasting=True,
        auto_commit=False,
        offsets_folder=str(tmp_path),
        persist_interval_ms=50,
        **QUICK,
    )
    async with AsyncEmbedded() as cluster:
        async with AsyncProducer(cluster.nameserver) as producer:
            await producer.send(Message(TOPIC, b"x"))
        async with AsyncPullConsumer(
            cluster.nameserver, group=GROUP, subscriptions=[TOPIC], settings=settings
        ) as consumer:
            assert await consumer.receive(wait_ms=20_000)
            assert not await consumer.receive(wait_ms=200)
    assert not [*os.scandir(tmp_path)]


def test_a_group_that_starts_at_the_time_0_has_all_messages():
    came: list[bytes] = []

    async def consume(nameserver: str) -> None:
        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=0
        )
        async with AsyncPushConsumer(
            nameserver,
            group=GROUP,
            listener=lambda message: came.append(message.body),
            subscriptions=[TOPIC],
            settings=settings,
        ):
            await asyncio.sleep(60)

    with cometmq.virtual(settings=COLD) as mq:
        mq.run(make_queues(mq.nameserver, 1))
        mq.put(Message(TOPIC, b"old"))
        mq.sleep("1h")
        mq.put(Message(TOPIC, b"new"))
        mq.run(consume(mq.nameserver))
    assert came == [b"old", b"new"]


async def test_a_place_that_was_sought_is_kept_by_a_consumer_that_closes_at_once(fresh):
    settings = PullConsumerSettings(consume_from=ConsumeFrom.FIRST, **QUICK)
    queue = MessageQueue(TOPIC, "broker-a", 0)
    await make_queues(fresh.nameserver, 1)
    await fill(fresh.nameserver, 1, "old")
    async with AsyncPullConsumer(
        fresh.nameserver, group=GROUP, subscriptions=[TOPIC], settings=settings
    ) as consumer:
        await until(lambda: is_pulling(consumer._member, 1), "the queue is pulled")
        consumer._member.pause()
        await consumer.seek(queue, 1)
    async with AsyncPullConsumer(fresh.nameserver, group=GROUP) as consumer:
        assert await consumer.committed(queue) == 1


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_queue_that_was_added_while_the_group_was_away_begins_at_its_first_message(
    tmp_path: Path, is_restarted: bool
):
    async with AsyncEmbedded(tmp_path, settings=COLD) as cluster:
        await away(cluster.nameserver)
        if not is_restarted:
            await _added(cluster.nameserver)
            return
    async with AsyncEmbedded(tmp_path, settings=COLD) as cluster:
        await _added(cluster.nameserver)


async def _added(nameserver: str) -> None:
    """Add queues to the topic, and send to all; the group gets that."""
    await make_queues(nameserver, 2 * QUEUES)
    sent = await fill(nameserver, 2 * QUEUES, "away")
    await comes_back(nameserver, sent, count=2 * QUEUES)


async def test_a_broker_that_was_added_while_the_group_was_away_begins_at_its_first_message(
    tmp_path: Path,
):
    names = processes.nameserver(tmp_path / "names")
    first = processes.broker(tmp_path / "a", names.address, settings=COLD)
    second = processes.broker(
        tmp_path / "b", names.address, settings={**COLD, "brokerName": "broker-b"}
    )
    with names, first:
        await away(names.address)
        with second:
            await make_queues(names.address)
            sent = await fill(names.address, QUEUES, "away", broker="broker-b")
            await comes_back(names.address, sent, count=2 * QUEUES)


async def test_a_new_group_still_begins_at_the_end_of_each_queue(tmp_path: Path):
    """Not at the first message of one queue because it has just begun in another."""
    async with AsyncEmbedded(tmp_path, settings=COLD) as cluster:
        await make_queues(cluster.nameserver)
        async with AsyncProducer(cluster.nameserver) as producer:
            queues = await producer.queues(TOPIC)
            # The last message of the log counts as being in memory: it must not be a queue's first.
            for queue in (*queues, queues[0]):
                await producer.send(Message(TOPIC, b"history"), queue=queue)
        assert not await run_push(cluster.nameserver, LAST, QUEUES, 0)
        sent = await fill(cluster.nameserver, QUEUES, "new")
        await comes_back(cluster.nameserver, sent)


async def test_a_consumer_that_is_reset_says_so_and_warns_of_no_missing_offset(caplog):
    """Its next offset is the end of the queue, which is no offset that the broker lacks."""
    caplog.set_level("INFO", logger="cometmq.client")
    got: list[bytes] = []

    async def listen(message: StoredMessage) -> None:
        got.append(message.body)

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, **QUICK)
    async with AsyncEmbedded() as cluster, AsyncAdmin(cluster.nameserver) as admin:
        await admin.topics.create(TOPIC, queues=1)
        sent = await fill(cluster.nameserver, 1, "old")
        async with AsyncPushConsumer(
            cluster.nameserver, group=GROUP, listener=listen, subscriptions=[TOPIC], settings=settings
        ):  # fmt: skip
            await until(lambda: len(got) == len(sent), "all messages")
            await admin.offsets.reset(GROUP, TOPIC, 0)
            await until(lambda: len(got) == 2 * len(sent), "all messages again")
    said = [each for each in caplog.records if TOPIC in each.getMessage()]
    assert not [each for each in said if each.levelname == "WARNING"], caplog.text
    assert [each for each in said if "reset" in each.getMessage()], caplog.text
