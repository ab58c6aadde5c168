"""What the cluster of this suite holds: 200 topics, 100,000 messages, a group that is behind, and messages of a bad peer."""

import asyncio
import itertools
from typing import Any

from cometmq import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    ClientSettings,
    Message,
    MessageQueue,
    ProducerSettings,
)
from cometmq.admin import GroupConfig

TOPICS = 200
ORDERS, ORDERS_COUNT = "orders", 100_000
SMALL, SMALL_COUNT = "small", 57
HOSTILE = "hostile"
GROUP, COMMITTED = "billing", 10
SCRIPT = "<script>document.title='owned'</script>"
RIGHT_TO_LEFT = "\u202egnp.exe"
BIG = 4_000_000 - 1000
BODIES = {
    "script": SCRIPT.encode(),
    "right-to-left": RIGHT_TO_LEFT.encode(),
    "nul": b"before\x00after",
    "no-utf8": b"\xff\xfe\x00broken \xc3\x28",
    "big": b"<b>" + b"x" * BIG,
    "json": b'{"b": [1, "\\u202e", "<i>"], "a": null}',
    "deep": b"[" * 50_000,
    "img": b"<img src=http://192.0.2.1/x.png onerror=alert(1)>",
}


async def fill(nameservers: str) -> None:
    """Make it all; some 10 s."""
    async with AsyncAdmin(
        nameservers, settings=ClientSettings(request_timeout_ms=20_000)
    ) as admin:
        names = [f"topic-{number:03d}" for number in range(TOPICS)]
        for start in range(0, TOPICS, 20):
            part = names[start : start + 20]
            await asyncio.gather(*(admin.topics.create(each, queues=2) for each in part))
        for topic in (ORDERS, SMALL, HOSTILE):
            await admin.topics.create(topic, queues=4)
        await admin.groups.create(GroupConfig(GROUP))
    async with AsyncProducer(
        nameservers, settings=ProducerSettings(send_timeout_ms=20_000)
    ) as producer:
        queues = itertools.cycle(await producer.queues(ORDERS))
        for start in range(0, ORDERS_COUNT, 2_500):
            batch = [
                Message(
                    ORDERS, f'{{"order": {number}}}'.encode(), tag="paid", keys=f"o-{number}"
                )
                for number in range(start, start + 2_500)
            ]
            await producer.send_batch(batch, queue=next(queues))
        for number in range(SMALL_COUNT):
            await producer.send(Message(SMALL, f"small {number}".encode(), keys=f"s-{number}"))
        for key, body in BODIES.items():
            message = Message(
                HOSTILE,
                body,
                tag=SCRIPT,
                keys=(key, RIGHT_TO_LEFT),
                properties={SCRIPT: SCRIPT, "nul": "a\x00b", "turned": RIGHT_TO_LEFT},
            )
            await producer.send(message)
    async with AsyncPullConsumer(nameservers, group=GROUP) as consumer:
        for queue in await consumer.queues(ORDERS):
            await consumer.commit(queue, COMMITTED)


def place_of(nameservers: str, key: str) -> dict[str, object]:
    """Where the hostile message with a key lies, as the address of its page names it."""
    with Admin(nameservers) as admin:
        (found,) = admin.messages.by_key(HOSTILE, key)
    return place(found.queue, found.queue_offset)


def place(queue: MessageQueue, offset: int) -> dict[str, Any]:
    """A place as the address of a page."""
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "offset": offset,
    }
