"""Topics of a real cluster: made, filled and read whole."""

from __future__ import annotations

from cometmq import Admin, Message, Producer, PullConsumer, StoredMessage
from cometmq.admin import GroupConfig


def make(nameserver: str, *topics: str, queues: int = 1, groups: tuple[str, ...] = ()) -> None:
    """Create topics, and groups with the defaults of such."""
    with Admin(nameserver) as admin:
        for topic in topics:
            admin.topics.create(topic, queues=queues)
        for group in groups:
            admin.groups.create(GroupConfig(group))


def send(nameserver: str, topic: str, *bodies: bytes) -> None:
    """Send messages one after the other."""
    with Producer(nameserver) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def read(nameserver: str, topic: str) -> list[StoredMessage]:
    """All messages of a topic, queue by queue."""
    found: list[StoredMessage] = []
    with PullConsumer(nameserver, group="plain-reading") as consumer:
        for queue in consumer.queues(topic):
            at, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while at < end:
                got = consumer.fetch(queue, at, max_count=32)
                found.extend(got.messages)
                at = got.next_offset
    return found
