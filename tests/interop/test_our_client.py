"""What else our client does the same with Java's servers 5.3.3 as with ours: asyncio, ranges, refusals,
retries, broadcasting, administration. (Plain sending and consuming: test_our_producer, test_our_consumer.)

Every test here runs on both clusters.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator

import pytest

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
    SendResult,
    StoredMessage,
    Tag,
)
from cometmq.codec.batch import encode_batch
from cometmq.codec.compression import Compression
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_records
from cometmq.connect import AsyncEncodedProducer, AsyncQueueReader, EncodedBatch, PullStatus
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, SendFailed, TopicNotFound
from cometmq.model.group import GroupConfig
from tests.interop import peer
from tests.interop.ours import SECONDS, Box, bodies
from tests.support.scripted import until

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

FROM_FIRST = PushConsumerSettings(consume_from=ConsumeFrom.FIRST)
PULL_FROM_FIRST = PullConsumerSettings(consume_from=ConsumeFrom.FIRST)


@pytest.fixture
async def sender(names: str) -> AsyncIterator[AsyncProducer]:
    """A producer on the test's own loop."""
    settings = ProducerSettings(send_timeout_ms=10_000)
    async with AsyncProducer(names, group="our_async_producer", settings=settings) as made:
        yield made


# ---------------------------------------------------------------- sending


async def test_an_encoded_batch_becomes_messages_of_one_queue(names, sender, topic):
    items = [(7, b"%d" % n, encode_properties({"n": str(n)})) for n in range(5)]
    queue = (await sender.queues(topic))[2]
    async with AsyncEncodedProducer(names, group="encodes") as producer:
        batch = EncodedBatch(topic, encode_batch(items))
        [result] = await producer.send_each([batch], queue=queue)
    assert isinstance(result, SendResult)
    assert result.queue == queue
    async with AsyncPullConsumer(names) as consumer:
        found = (await consumer.fetch(queue, result.queue_offset)).messages
    assert [each.body for each in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert [each.properties["n"] for each in found] == ["0", "1", "2", "3", "4"]
    assert {each.flag for each in found} == {7}


async def test_a_queue_that_does_not_exist_is_refused_by_its_code(sender, topic):
    with pytest.raises(BrokerRefused) as refused:
        await sender.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 99))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


async def test_a_topic_that_cannot_be_written_is_not_sent_to(names, topic):
    async with AsyncAdmin(names) as admin, AsyncProducer(names) as late:
        await admin.topics.create(topic, queues=4, perm=4)
        with pytest.raises(SendFailed, match=r"has no writable queue"):
            await late.send(Message(topic, b"too late"))


@pytest.mark.parametrize("algorithm", Compression, ids=lambda each: each.name)
async def test_each_compression_is_read_by_java(names, topic, algorithm):
    body = algorithm.name.encode() * 4000
    async with AsyncProducer(names, settings=ProducerSettings(compression=algorithm)) as made:
        await made.send(Message(topic, body))
    (told,) = await asyncio.to_thread(peer.read, names, topic, 1)
    assert told.body == body


# ---------------------------------------------------------------- pulling


async def test_a_range_is_read_raw_in_order_with_pulls_under_way(names, sender, topic):
    count = 2_000
    queue = (await sender.queues(topic))[1]
    # A window that a Java broker on a busy machine does not call a flood (waitTimeMillsInSendQueue).
    numbered = (Message(topic, b"%d" % n) for n in range(count))
    await sender.send_many(numbered, queue=queue, window=32)
    async with AsyncQueueReader(names) as reader:
        records = [
            record
            async for pull in reader.read(queue, 10, count - 10)
            for record in decode_records(pull.body)
        ]
        beyond = [pull async for pull in reader.read(queue, count - 5, count + 500)]
    assert [each.queue_offset for each in records] == list(range(10, count - 10))
    # A Java broker works on the sends of a connection in parallel, so their order may differ.
    assert len({each.body for each in records}) == count - 20
    assert sum(len(decode_records(pull.body)) for pull in beyond) == 5


async def test_a_pull_says_what_it_found_and_where_to_go_on(names, sender, topic):
    queue = (await sender.queues(topic))[0]
    await sender.send_many([Message(topic, b"x", tag="A")] * 10, queue=queue)
    async with AsyncPullConsumer(names) as consumer:
        found = await consumer.fetch(queue, 3, max_count=4)
        assert (found.status, found.next_offset, len(found.messages)) == (
            PullStatus.FOUND,
            7,
            4,
        )
        assert (found.min_offset, found.max_offset) == (0, 10)
        beyond = await consumer.fetch(queue, 1000)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
        other = await consumer.fetch(queue, 0, expression=Tag("B"))
        assert (other.status, other.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 10)
        with pytest.raises(BrokerRefused) as refused:
            await consumer.fetch(MessageQueue(topic, "broker-a", 99), 0)
        assert refused.value.code == ResponseCode.INVALID_PARAMETER


async def test_offsets_are_found_by_time_and_kept_for_the_group(names, sender, topic, group):
    queue = (await sender.queues(topic))[0]
    async with AsyncPullConsumer(names, group=group) as consumer:
        await sender.send_many([Message(topic, b"before")] * 5, queue=queue)
        last = (await consumer.fetch(queue, 4)).messages[0].stored_ms
        await until(lambda: time.time() * 1000 > last + 20, "a later time")
        between = int(time.time() * 1000) - 5
        await sender.send_many([Message(topic, b"after")] * 5, queue=queue)
        assert await consumer.offset_by_time(queue, between) == 5
        assert await consumer.offset_by_time(queue, 0) == 0
        await consumer.commit(queue, 7)
        assert await consumer.committed(queue) == 7


async def test_a_seek_does_not_wait_for_the_long_poll(names, sender, topic, group):
    queue = (await sender.queues(topic))[2]
    await sender.send_many((Message(topic, b"%d" % n) for n in range(20)), queue=queue)
    async with AsyncPullConsumer(names, group=group) as consumer:
        await consumer.assign([queue])
        await consumer.seek(queue, 18)
        assert [each.queue_offset for each in await receive(consumer, 2)] == [18, 19]
        began = time.monotonic()
        await consumer.seek(queue, 2)
        assert [each.queue_offset for each in await receive(consumer, 3)] == [2, 3, 4]
        assert time.monotonic() - began < 5


async def test_a_broken_off_loop_resumes_behind_what_it_was_given(names, sender, topic, group):
    seen: list[bytes] = []
    await sender.send_many(Message(topic, each) for each in bodies("n", 40))
    async with AsyncPullConsumer(names, group=group, settings=PULL_FROM_FIRST) as consumer:
        consumer.subscribe(topic)
        async for message in consumer:
            seen.append(message.body)
            if len(seen) == 25:
                break
    async with AsyncPullConsumer(names, group=group, settings=PULL_FROM_FIRST) as consumer:
        consumer.subscribe(topic)
        seen += [each.body for each in await receive(consumer, 15)]
    assert sorted(seen) == bodies("n", 40)


async def receive(consumer: AsyncPullConsumer, count: int) -> list[StoredMessage]:
    got: list[StoredMessage] = []
    deadline = time.monotonic() + SECONDS
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages"
        got += await consumer.receive(count - len(got), wait_ms=1000)
    return got


# ---------------------------------------------------------------- pushing


async def test_an_async_listener_is_awaited_several_at_once(names, sender, topic, group):
    running = most = done = 0

    async def listen(_message: StoredMessage) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        done += 1

    await sender.send_many([Message(topic, b"x")] * 60)
    async with AsyncPushConsumer(
        names, group=group, listener=listen, subscriptions=[topic], settings=FROM_FIRST
    ):
        await until(lambda: done >= 60, "60 messages")
    assert done == 60
    assert 1 < most <= FROM_FIRST.concurrency


async def test_a_listener_may_take_messages_by_the_list(names, sender, topic, group):
    sizes: list[int] = []
    await sender.send_many([Message(topic, b"x")] * 64)
    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, batch_count=8)
    async with AsyncPushConsumer(
        names,
        group=group,
        batch_listener=lambda messages: sizes.append(len(messages)),
        subscriptions=[topic],
        settings=settings,
    ):
        await until(lambda: sum(sizes) >= 64, "64 messages")
    assert sum(sizes) == 64
    assert max(sizes) == 8


async def test_broadcasting_members_each_get_all_and_remember_it_here(
    names, sender, topic, group, tmp_path
):
    boxes = [Box(), Box()]

    def member(number: int) -> AsyncPushConsumer:
        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST,
            broadcasting=True,
            offsets_folder=str(tmp_path / str(number)),
        )
        return AsyncPushConsumer(
            names,
            group=group,
            listener=boxes[number],
            subscriptions=[topic],
            settings=settings,
        )

    await sender.send_many(Message(topic, each) for each in bodies("b", 20))
    async with member(0), member(1):
        await until(lambda: all(len(box.messages) >= 20 for box in boxes), "20 messages twice")
    assert [path.name for path in (tmp_path / "0").rglob("*.json")] == ["offsets.json"]
    await sender.send(Message(topic, b"later"))
    async with member(0):
        await until(lambda: len(boxes[0].messages) >= 21, "what came while it was away")
    assert boxes[0].bodies == [*bodies("b", 20), b"later"]
    assert boxes[1].bodies == bodies("b", 20)


async def test_a_message_that_a_listener_refuses_comes_again(names, sender, topic, group):
    tries: list[StoredMessage] = []

    def listen(message: StoredMessage) -> bool:
        tries.append(message)
        return len(tries) > 1

    sent = await sender.send(Message(topic, b"twice", tag="A", keys="k"))
    async with AsyncPushConsumer(
        names,
        group=group,
        listener=listen,
        subscriptions={topic: Tag("A")},
        settings=FROM_FIRST,
    ):
        await until(lambda: len(tries) >= 2, "the second try")
    assert [(each.body, each.reconsume_times) for each in tries] == [
        (b"twice", 0),
        (b"twice", 1),
    ]
    assert {(each.topic, each.message_id, each.tag) for each in tries} == {
        (topic, sent.message_id, "A")
    }


# ---------------------------------------------------------------- administration


async def test_topics_and_groups_are_made_described_and_deleted(names, sender, topic, group):
    async with AsyncAdmin(names) as admin:
        assert topic in await admin.topics.list()
        assert "broker-a" in (await admin.brokers.cluster()).brokers
        assert [each.write_queues for each in (await admin.topics.route(topic)).queues] == [4]
        assert (await admin.topics.configs(topic))["broker-a"].read_queues == 4
        await sender.send_many([Message(topic, b"x")] * 8)
        # Java's broker makes its queues a moment behind the answers.
        async with asyncio.timeout(10):
            counts: list[int] = []
            while sum(counts) < 8:
                ranges = await admin.topics.offsets(topic)
                counts = [each.message_count for each in ranges.values()]
        assert counts == [2, 2, 2, 2]
        await admin.groups.create(GroupConfig(group, retry_max_times=3))
        assert (await admin.groups.configs())[group].retry_max_times == 3
        await admin.groups.delete(group)
        assert group not in await admin.groups.configs()
        await admin.topics.delete(topic)
        with pytest.raises(TopicNotFound):
            await admin.topics.route(topic)


async def test_members_of_a_group_are_listed_with_their_subscriptions(names, topic, group):
    async with (
        AsyncAdmin(names) as admin,
        AsyncPushConsumer(
            names, group=group, listener=Box(), subscriptions={topic: Tag("A || B")}
        ) as one,
        AsyncPushConsumer(
            names, group=group, listener=Box(), subscriptions={topic: Tag("A || B")}
        ) as two,
    ):
        (seen,) = (await admin.groups.connections(group)).values()
        assert {each.client_id for each in seen.connections} == {one.client_id, two.client_id}
        assert seen.subscriptions[topic].tags == ("A", "B")
        assert f"%RETRY%{group}" in seen.subscriptions
        assert one.client_id.split("#")[0].endswith(str(os.getpid()))
    async with AsyncAdmin(names) as admin:
        assert await admin.groups.connections(group) == {}
