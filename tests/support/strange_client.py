"""A client in a process of its own that does what a test says, and tells how long its loop was held.

    python -m tests.support.strange_client ADDRESS

Each line of standard input is a verb and its number; the answer is a line of JSON.
"""

import asyncio
import json
import logging
import sys
import time
from typing import Any

from cometmq import AsyncProducer, AsyncPullConsumer, AsyncPushConsumer, Message
from cometmq.client.admin.admin import AsyncAdmin
from cometmq.client.consumer.pop.simple_consumer import AsyncSimpleConsumer
from cometmq.client.consumer.settings import (
    ConsumeFrom,
    PullConsumerSettings,
    PushConsumerSettings,
)
from cometmq.client.settings import ProducerSettings
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from tests.support.strange_server import GROUP, TOPIC

QUEUE = MessageQueue(TOPIC, "broker", 0)
PUSH = PushConsumerSettings(
    consume_from=ConsumeFrom.FIRST, request_timeout_ms=1000, close_timeout_ms=100
)


class LongestTurn:
    """How long the loop did not come round."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            began, busy = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.001)
            # Of its own processor time: what the machine gives to others is not the loop's.
            self.longest = max(
                self.longest, min(time.monotonic() - began, time.thread_time() - busy)
            )

    def end(self) -> float:
        self._task.cancel()
        return self.longest * 1000


async def send(address: str, number: int) -> Any:
    settings = ProducerSettings(send_timeout_ms=1500, request_timeout_ms=1000)
    async with AsyncProducer(address, settings=settings) as producer:
        sends = [producer.send(Message(TOPIC, bytes(20_000))) for _ in range(number)]
        said = await asyncio.gather(*sends, return_exceptions=True)
    return sorted({type(each).__name__ for each in said}), str(said[0])[:5000]


async def fetch(address: str, number: int) -> Any:
    settings = PullConsumerSettings(request_timeout_ms=1000)
    async with AsyncPullConsumer(address, group=GROUP, settings=settings) as consumer:
        found = await consumer.fetch(QUEUE, 0, max_count=number)
        return (
            len(found.messages),
            sum(len(each.body) for each in found.messages),
            found.next_offset,
        )


async def push(address: str, milliseconds: int) -> Any:
    got: list[int] = []

    async def listen(message: Any) -> None:
        got.append(len(message.body))

    async with AsyncPushConsumer(
        address, group=GROUP, subscriptions=[TOPIC], listener=listen, settings=PUSH
    ):
        await asyncio.sleep(milliseconds / 1000)
    return len(got)


async def pop(address: str, number: int) -> Any:
    async with AsyncSimpleConsumer(address, group=GROUP, subscriptions=[TOPIC]) as consumer:
        messages = await consumer.receive(number)
        for message in messages:
            await consumer.ack(message)
        return len(messages), sum(len(each.body) for each in messages)


async def route(address: str, _number: int) -> Any:
    settings = PullConsumerSettings(request_timeout_ms=5000)
    async with AsyncPullConsumer(address, group=GROUP, settings=settings) as consumer:
        return len(await consumer.queues(TOPIC))


async def by_key(address: str, number: int) -> Any:
    async with AsyncAdmin(address) as admin:
        return len(await admin.messages.by_key(TOPIC, "k", max_count=number))


async def check(address: str, number: int) -> Any:
    asked: list[str] = []

    class Listener:
        async def execute(self, _message: Any, _argument: Any) -> Any:
            raise AssertionError

        async def check(self, message: Any) -> Any:
            asked.append(message.message_id)
            await asyncio.sleep(3600)

    async with AsyncProducer(address, group=GROUP, transaction_listener=Listener()) as producer:
        await asyncio.gather(producer.send(Message(TOPIC, b"x")))
        await asyncio.sleep(number / 1000)
    return len(asked)


async def everything(address: str, rounds: int) -> Any:
    """What calls raise that is no CometError, by the call: nothing, whatever the answers are."""
    settings = PullConsumerSettings(request_timeout_ms=1000)
    wrong: list[str] = []
    async with (
        AsyncAdmin(address) as admin,
        AsyncPullConsumer(address, group=GROUP, settings=settings) as consumer,
        AsyncSimpleConsumer(address, group=GROUP, subscriptions=[TOPIC]) as popper,
        AsyncProducer(address) as producer,
    ):
        for _ in range(rounds):
            calls: dict[str, Any] = {
                "cluster": admin.brokers.cluster(),
                "topics": admin.topics.list(),
                "route": admin.topics.route(TOPIC),
                "topic_configs": admin.topics.configs(TOPIC),
                "topic_offsets": admin.topics.offsets(TOPIC),
                "by_key": admin.messages.by_key(TOPIC, "k"),
                "groups": admin.groups.configs(),
                "progress": admin.offsets.progress(GROUP),
                "conflicts": admin.groups.conflicts(),
                "connections": admin.groups.connections(GROUP),
                "fetch": consumer.fetch(QUEUE, 0),
                "committed": consumer.committed(QUEUE),
                "max_offset": consumer.max_offset(QUEUE),
                "commit": consumer.commit(QUEUE, 5),
                "receive": popper.receive(1, wait_ms=10),
                "send": asyncio.wait_for(
                    producer.send(Message(TOPIC, b"x"), timeout_ms=200), 5
                ),
            }
            said = await asyncio.gather(*calls.values(), return_exceptions=True)
            for name, error in zip(calls, said, strict=True):
                if isinstance(error, BaseException) and not isinstance(error, CometError):
                    wrong.append(f"{name}: {error!r:.200}")
    return sorted(set(wrong))


VERBS = {
    each.__name__: each for each in (send, fetch, push, pop, route, by_key, check, everything)
}


async def main(address: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, number = line.split()
        turn, began = LongestTurn(), time.monotonic()
        try:
            said, error = await VERBS[verb](address, int(number)), ""
        except CometError as failure:
            said, error = str(failure), type(failure).__name__
        print(
            json.dumps(
                {
                    "said": said,
                    "error": error,
                    "held_ms": turn.end(),
                    "seconds": time.monotonic() - began,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
