"""Our consumers work the same on Java's servers 5.3.3 as on ours.

Every test here runs on both clusters.
"""

import asyncio
import time
from collections import Counter

import pytest

from cometmq import Admin, ConsumeFrom, Message, MessageQueue, Producer, PullConsumer, Sql, Tag
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.connect import PullStatus
from cometmq.model.group import GroupConfig
from tests.interop.ours import SECONDS, Box, bodies, messages, new_topic, pushed, received
from tests.support import topics
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def test_200_messages_are_pushed_once_each(names, producer, topic, group):
    box = Box()
    with pushed(names, group, box, topic):
        producer.send_many(messages(topic, bodies("m", 200)))
        box.wait(200)
    assert box.bodies == bodies("m", 200)


def test_a_waiting_consumer_has_a_message_within_half_a_second(names, producer, topic, group):
    box = Box()
    with pushed(names, group, box, topic):
        producer.send(Message(topic, b"warm"))
        box.wait(1)
        time.sleep(0.5)  # long enough for every queue's pull to be held at the broker
        for number in range(2, 7):
            sent = time.monotonic()
            producer.send(Message(topic, b"now"))
            box.wait(number)
            assert time.monotonic() - sent < 0.5


def test_a_tag_filter_lets_only_its_tags_through(names, producer, topic, group):
    for tag in ("a", "b", "c"):
        producer.send_many(messages(topic, bodies(tag, 20), tag=tag))
    producer.send(Message(topic, b"no tag"))
    # These two have the same Java hash: the broker alone would let both through.
    producer.send(Message(topic, b"AaAa", tag="AaAa"))
    producer.send(Message(topic, b"BBBB", tag="BBBB"))
    box = Box()
    with pushed(names, group, box, topic, expression=Tag("a || c || BBBB")):
        box.wait(41)
    assert box.bodies == sorted([*bodies("a", 20), *bodies("c", 20), b"BBBB"])


def test_an_sql92_filter_lets_only_what_it_wants_through(names, producer, topic, group):
    for number in range(20):
        properties = {"price": str(number), "region": "hz" if number % 2 else "sh"}
        producer.send(Message(topic, b"%02d" % number, properties=properties))
    producer.send(Message(topic, b"no property"))
    box = Box()
    expression = Sql("region = 'hz' AND price BETWEEN 4 AND 9")
    with pushed(names, group, box, topic, expression=expression):
        box.wait(3)
        producer.send(Message(topic, b"new", properties={"price": "5", "region": "hz"}))
        box.wait(4)
    assert box.bodies == [b"05", b"07", b"09", b"new"]


def test_a_pull_consumer_seeks(names, producer, topic):
    queue = producer.queues(topic)[0]
    for body in bodies("p", 20):
        producer.send(Message(topic, body), queue=queue)
    with PullConsumer(names, group=f"our_pull_{time.time_ns()}") as consumer:
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 20)
        assert consumer.fetch(queue, 20).status is PullStatus.NO_NEW_MESSAGE
        assert consumer.fetch(queue, 1000).status is PullStatus.OFFSET_ILLEGAL
        consumer.assign([queue])
        consumer.seek(queue, 15)
        assert [each.body for each in received(consumer, 5)] == bodies("p", 20)[15:]
        consumer.seek(queue, 3)
        assert [each.body for each in received(consumer, 17)] == bodies("p", 20)[3:]
        third = topics.read(names, topic)[3]
        assert consumer.offset_by_time(queue, third.stored_ms) <= 3
        assert consumer.offset_by_time(queue, 1000) == 0


def test_a_group_goes_on_where_it_stopped(names, producer, topic, group):
    producer.send_many(messages(topic, bodies("before", 30)))
    first = Box()
    with pushed(names, group, first, topic):
        first.wait(30)
    producer.send_many(messages(topic, bodies("later", 10)))
    second = Box()
    with pushed(names, group, second, topic):
        second.wait(10)
        time.sleep(0.3)
    assert second.bodies == bodies("later", 10)


def test_new_groups_keep_the_offsets_of_all_their_queues(names, topic):
    # A Java broker loses some when those of a new group come at once.
    groups = [f"our_new_{time.time_ns()}_{number}" for number in range(100)]
    offsets = {MessageQueue(topic, "broker-a", number): number + 5 for number in range(4)}
    with Admin(names) as admin:
        for group in groups:
            admin.groups.create(GroupConfig(group))

    async def commit_and_read() -> list[dict[MessageQueue, int | None]]:
        instance = ClientInstance(names)
        await instance.start()
        try:
            stored = OffsetApi(instance)
            for group in groups:
                await stored.commit_all(group, offsets, answered=False)
            await asyncio.sleep(0.5)
            return [
                {queue: await stored.committed(group, queue) for queue in offsets}
                for group in groups
            ]
        finally:
            await instance.close()

    assert asyncio.run(commit_and_read()) == [offsets] * len(groups)


def test_a_group_that_begins_last_begins_at_the_start_of_a_young_topic(
    names, producer, topic, group
):
    # The broker answers 0 for a queue whose first message is in memory (ConsumerManageProcessor).
    producer.send_many(messages(topic, bodies("young", 12)))
    box = Box()
    with pushed(names, group, box, topic, consume_from=ConsumeFrom.LAST):
        box.wait(12)
    assert box.bodies == bodies("young", 12)


def test_a_group_can_begin_at_a_time(names, producer, topic, group):
    producer.send_many(messages(topic, bodies("old", 12)))
    time.sleep(0.05)
    begin = time.time_ns() // 1_000_000
    time.sleep(0.05)
    producer.send_many(messages(topic, bodies("new", 12)))
    with PullConsumer(names, group=group) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, consumer.offset_by_time(queue, begin))
        assert sorted(each.body for each in received(consumer, 12)) == bodies("new", 12)
    # A pushed group in a young topic begins at its start, as with LAST: so it is with Java, too.
    box = Box()
    settings = {"consume_from": ConsumeFrom.TIMESTAMP, "consume_timestamp_ms": begin}
    with pushed(names, f"{group}_pushed", box, topic, **settings):
        box.wait(24)
    assert box.bodies == bodies("new", 12) + bodies("old", 12)


def test_two_members_share_the_queues_and_one_takes_over(names, producer, topic, group):
    one, two = Box(), Box()
    with pushed(names, group, one, topic, instance_name="one"):
        with pushed(names, group, two, topic, instance_name="two"):
            wait_until(
                lambda: is_shared(producer, topic, one, two),
                seconds=SECONDS,
                what="two and two queues",
            )
        one.messages.clear()
        wait_until(
            lambda: queues_after_a_send(producer, topic, one) == {0, 1, 2, 3},
            seconds=SECONDS,
            what="all four queues at the one that is left",
        )


def is_shared(producer: Producer, topic: str, *boxes: Box) -> bool:
    """Send to every queue; whether each box then has two of them, none twice."""
    for box in boxes:
        box.messages.clear()
    shares = [set(queues_after_a_send(producer, topic, box)) for box in boxes[:1]]
    shares.append({message.queue.queue_id for message in boxes[1].messages})
    return [len(share) for share in shares] == [2, 2] and not shares[0] & shares[1]


def queues_after_a_send(producer: Producer, topic: str, box: Box) -> set[int]:
    for queue in producer.queues(topic):
        producer.send(Message(topic, b"probe"), queue=queue)
    time.sleep(0.3)
    return {message.queue.queue_id for message in box.messages}


def test_one_group_consumes_two_topics(names, producer, topic, group):
    other = new_topic(names)
    box = Box()
    with pushed(names, group, box, topic, other):
        producer.send_many(messages(topic, bodies("one", 20)))
        producer.send_many(messages(other, bodies("other", 20)))
        box.wait(40)
    assert Counter(message.queue.topic for message in box.messages) == {topic: 20, other: 20}


def test_two_groups_both_get_every_message(names, producer, topic, group):
    one, two = Box(), Box()
    with pushed(names, group, one, topic), pushed(names, f"{group}_2", two, topic):
        producer.send_many(messages(topic, bodies("both", 40)))
        one.wait(40)
        two.wait(40)
    assert one.bodies == two.bodies == bodies("both", 40)
