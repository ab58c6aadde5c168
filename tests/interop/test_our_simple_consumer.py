"""Our consumers pop from Java's servers 5.3.3 as from ours: the simple one, and the push consumer.

Every test here runs on both clusters.
"""

import time

import pytest

from cometmq import Admin, Message, SimpleConsumer, Sql, StoredMessage
from cometmq.model.group import GroupConfig
from cometmq.model.properties import POP_CK
from tests.interop.ours import Box, bodies, messages, pushed, received
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def test_messages_are_received_once_and_acknowledged(names, producer, topic, group):
    producer.send_many(messages(topic, bodies("m", 50)))
    with SimpleConsumer(names, group=group, subscriptions=[topic]) as consumer:
        got = received(consumer, 50, invisible_ms=30_000)
        assert sorted(message.body for message in got) == bodies("m", 50)
        consumer.ack(got[:40])
        for message in got[40:]:
            consumer.ack(message)
        assert consumer.receive(wait_ms=500) == []


def test_a_message_comes_again_unless_it_is_hidden_for_longer(names, producer, topic, group):
    producer.send(Message(topic, b"short", properties={"n": "1"}))
    producer.send(Message(topic, b"long", properties={"n": "2"}))
    producer.send(Message(topic, b"other", properties={"n": "3"}))
    with SimpleConsumer(names, group=group, subscriptions={topic: Sql("n < 3")}) as consumer:
        got = {message.body: message for message in received(consumer, 2, invisible_ms=10_000)}
        assert got.keys() == {b"short", b"long"}
        hidden = consumer.change_invisibility(got[b"long"], 60_000)
        began = time.monotonic()
        (again,) = received(consumer, 1, invisible_ms=30_000)
        assert (again.body, again.topic, again.reconsume_times) == (b"short", topic, 1)
        assert time.monotonic() - began > 8
        consumer.ack([again])
        consumer.ack(hidden)


def test_a_push_consumer_pops_where_the_broker_says_so(names, producer, topic, group):
    with Admin(names) as admin:
        admin.groups.create(GroupConfig(group))
        admin.topics.set_request_mode(topic, group, "POP")
    box = Box()
    refused: list[StoredMessage] = []

    def listen(message: StoredMessage) -> bool:
        if message.body == b"m-0000" and not refused:
            refused.append(message)
            return False
        box(message)
        return True

    producer.send_many(messages(topic, bodies("m", 50)))
    with pushed(names, group, listen, topic, client_rebalance=False, pop_delays_ms=(1_000,)):
        # What is refused comes again when Java's revive service has got to it.
        wait_until(lambda: len(box.messages) >= 50, seconds=90, what="50 messages")
    assert box.bodies == bodies("m", 50)
    assert all(POP_CK in message.properties for message in box.messages)
    (again,) = [message for message in box.messages if message.body == b"m-0000"]
    assert (again.topic, again.reconsume_times) == (topic, 1)
