"""Topics of a real cluster: made, filled and read whole."""

from typing import Any

from cometmq import (
    Admin,
    AsyncProducer,
    Message,
    Producer,
    PullConsumer,
    SendResult,
    StoredMessage,
)
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


async def send_async(
    nameserver: str, topic: str, *bodies: bytes, **more: Any
) -> list[SendResult]:
    """Send messages with this beside their bodies, one after the other; the results."""
    async with AsyncProducer(nameserver) as producer:
        return [await producer.send(Message(topic, body, **more)) for body in bodies]


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
