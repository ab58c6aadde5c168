"""Our simple consumer works the same on Java's servers 5.3.3 as on ours.

Every test here runs on both clusters.
"""

from __future__ import annotations

import time

import pytest

from cometmq.client import Message, SimpleConsumer, StoredMessage, by_sql
from tests.interop.ours import SECONDS, bodies, messages

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def receive_all(consumer: SimpleConsumer, count: int, **how) -> list[StoredMessage]:
    got: list[StoredMessage] = []
    end = time.monotonic() + SECONDS
    while len(got) < count and time.monotonic() < end:
        got += consumer.receive(32, wait_ms=2_000, **how)
    return got


def test_messages_are_received_once_and_acknowledged(names, producer, topic, group):
    producer.send_many(messages(topic, bodies("m", 50)))
    with SimpleConsumer(names, group=group, subscriptions={topic: "*"}) as consumer:
        got = receive_all(consumer, 50, invisible_ms=30_000)
        assert sorted(message.body for message in got) == bodies("m", 50)
        consumer.ack(got[:40])
        for message in got[40:]:
            consumer.ack(message)
        assert consumer.receive(wait_ms=500) == []


def test_a_message_comes_again_unless_it_is_hidden_for_longer(names, producer, topic, group):
    producer.send(Message(topic, b"short", properties={"n": "1"}))
    producer.send(Message(topic, b"long", properties={"n": "2"}))
    producer.send(Message(topic, b"other", properties={"n": "3"}))
    with SimpleConsumer(names, group=group, subscriptions={topic: by_sql("n < 3")}) as consumer:
        got = {
            message.body: message for message in receive_all(consumer, 2, invisible_ms=10_000)
        }
        assert got.keys() == {b"short", b"long"}
        hidden = consumer.change_invisibility(got[b"long"], 60_000)
        began = time.monotonic()
        (again,) = receive_all(consumer, 1, invisible_ms=30_000)
        assert (again.body, again.topic, again.reconsume_times) == (b"short", topic, 1)
        assert time.monotonic() - began > 8
        consumer.ack([again])
        consumer.ack(hidden)
