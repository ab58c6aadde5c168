"""Our producer works the same on Java's servers 5.3.3 as on ours, and Java clients read what it sends.

Every test here runs on both clusters.
"""

import asyncio
import time
from collections import Counter

import pytest

from cometmq import (
    AsyncProducer,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    SendStatus,
    StoredMessage,
    by_hash,
)
from cometmq.model.errors import BrokerRefused, ClientError, MessageError
from tests.interop import peer
from tests.interop.ours import SECONDS, bodies, messages
from tests.support import topics
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def test_a_message_can_be_sent_in_each_way(names, producer, topic):
    one = producer.send(Message(topic, b"one"))
    assert one.status is SendStatus.OK
    many = producer.send_many(messages(topic, bodies("many", 300)))
    assert [result.status for result in many] == [SendStatus.OK] * 300
    assert len({result.message_id for result in many}) == 300
    batch = producer.send_batch(messages(topic, bodies("batch", 20)))
    assert len(batch.message_id.split(",")) == 20
    producer.send_oneway(Message(topic, b"oneway"))
    asyncio.run(send_at_once(names, messages(topic, bodies("at once", 50))))
    expected = 1 + 300 + 20 + 1 + 50
    wait_until(
        lambda: len(topics.read(names, topic)) == expected, seconds=SECONDS, what="all stored"
    )
    found = topics.read(names, topic)
    for queue, offsets in by_queue(found).items():
        assert offsets == list(range(len(offsets))), f"{queue} has a gap"
    assert Counter(message.body.split(b"-")[0] for message in found) == {
        b"one": 1,
        b"many": 300,
        b"batch": 20,
        b"oneway": 1,
        b"at once": 50,
    }


async def send_at_once(names: str, given: list[Message]) -> None:
    async with AsyncProducer(names, group="our_async_producer") as made:
        results = await asyncio.gather(*map(made.send, given))
    assert {result.status for result in results} == {SendStatus.OK}


def by_queue(found: list[StoredMessage]) -> dict[MessageQueue, list[int]]:
    offsets: dict[MessageQueue, list[int]] = {}
    for message in found:
        offsets.setdefault(message.queue, []).append(message.queue_offset)
    return offsets


def test_a_message_goes_to_the_queue_that_was_chosen(names, producer, topic):
    queue = producer.queues(topic)[2]
    results = [producer.send(Message(topic, b"x"), queue=queue) for _ in range(5)]
    assert [(result.queue, result.queue_offset) for result in results] == [
        (queue, offset) for offset in range(5)
    ]
    chosen = {
        producer.send(Message(topic, b"y"), selector=by_hash("order-17")).queue
        for _ in range(5)
    }
    assert len(chosen) == 1


def test_a_first_send_creates_its_topic(names, producer):
    topic = f"Created_{time.time_ns()}"
    assert producer.send(Message(topic, b"first")).status is SendStatus.OK
    wait_until(lambda: stored(names, topic) == [b"first"], seconds=SECONDS, what="its route")


def stored(names: str, topic: str) -> list[bytes]:
    try:
        return [message.body for message in topics.read(names, topic)]
    except ClientError:
        return []


def test_a_body_over_the_limit_is_refused_by_us_and_by_the_broker(names, producer, topic):
    over = b"x" * (4 * 1024 * 1024 + 1)
    with pytest.raises((MessageError, ClientError)):
        producer.send(Message(topic, over))
    settings = ProducerSettings(body_size_max=1 << 24, compress_over=1 << 24, retries=0)
    with Producer(names, group="our_big_producer", settings=settings) as careless:
        with pytest.raises(BrokerRefused) as refused:
            careless.send(Message(topic, over))
        assert refused.value.code == 13  # MESSAGE_ILLEGAL
        assert careless.send(Message(topic, b"small")).status is SendStatus.OK
    assert stored(names, topic) == [b"small"]


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 7])
def test_a_body_of_one_megabyte_arrives_whole(names, producer, topic, size):
    body = bytes(number * 31 & 0xFF for number in range(size))
    producer.send(Message(topic, body))
    (message,) = topics.read(names, topic)
    assert message.body == body


def test_a_compressed_body_is_read_by_java_and_by_us(names, producer, topic):
    body = b"the same again and again " * 4000
    producer.send(Message(topic, body))
    (message,) = topics.read(names, topic)
    assert message.body == body
    assert message.store_size < len(body) // 10
    (told,) = peer.read(names, topic, 1)
    assert told.body == body


# --- beside Java clients


def test_java_reads_our_tags_keys_and_properties(names, producer, topic):
    given = Message(
        topic,
        "größer".encode(),
        tag="paid",
        keys=("k1", "k2"),
        properties={"名字": "值", "n": "7"},
    )
    producer.send(given)
    (told,) = peer.read(names, topic, 1)
    assert (told.body, told.tags, told.keys) == (given.body, "paid", "k1 k2")
    assert {name: told.properties[name] for name in given.properties} == dict(given.properties)


def test_we_read_tags_keys_and_properties_of_java(names, topic):
    given = peer.Told(b"z" * 9000, "取消", "k1 k2", {"名字": "值", "n": "7"})
    (answer,) = peer.send(names, topic, [given])
    assert answer["status"] == "SEND_OK"
    (message,) = topics.read(names, topic)
    assert (message.body, message.tag, message.keys) == (given.body, "取消", ("k1", "k2"))
    assert {name: message.properties[name] for name in given.properties} == dict(
        given.properties
    )
    assert message.message_id == answer["msgId"]
