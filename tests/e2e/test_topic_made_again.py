"""A topic is deleted and made again under a running group, which consumes each message of the new one."""

import asyncio

import pytest

import cometmq
from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PullConsumerSettings,
    PushConsumerSettings,
)

TOPIC, GROUP = "orders", "billing"
OLD = 20
FEWER, MORE = 10, 50


async def send(producer: AsyncProducer, kind: str, count: int) -> set[bytes]:
    bodies = {b"%s:%d" % (kind.encode(), number) for number in range(count)}
    for body in sorted(bodies):
        await producer.send(Message(TOPIC, body))
    return bodies


class Pulling:
    """A pull consumer whose user polls for ever."""

    def __init__(self, nameserver: str, came: list[bytes]) -> None:
        self._consumer = AsyncPullConsumer(
            nameserver, group=GROUP, subscriptions=[TOPIC],
            settings=PullConsumerSettings(consume_from=ConsumeFrom.LAST),
        )  # fmt: skip
        self._came = came

    async def __aenter__(self) -> None:
        await self._consumer.start()
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while True:
            for message in await self._consumer.receive():
                self._came.append(message.body)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await self._consumer.close()


def member(kind: str, nameserver: str, came: list[bytes], folder):
    if kind == "pull":
        return Pulling(nameserver, came)

    async def listen(message) -> None:
        came.append(message.body)

    settings = PushConsumerSettings(
        consume_from=ConsumeFrom.LAST,
        orderly=kind == "orderly",
        broadcasting=kind == "broadcasting",
        offsets_folder=str(folder),
    )
    return AsyncPushConsumer(
        nameserver, group=GROUP, listener=listen, subscriptions=[TOPIC], settings=settings
    )


@pytest.mark.parametrize("is_in_memory", [True, False], ids=["", "not in memory"])
@pytest.mark.parametrize("away_seconds", [0, 3, 20])
@pytest.mark.parametrize("count", [FEWER, MORE], ids=["fewer", "more"])
@pytest.mark.parametrize("kind", ["push", "orderly", "broadcasting", "pull"])
def test_a_running_group_consumes_each_message_of_a_topic_that_was_made_again(
    kind, count, away_seconds, is_in_memory, tmp_path
):
    settings = {} if is_in_memory else {"accessMessageInMemoryMaxRatio": 0}
    with cometmq.virtual(settings=settings) as mq:
        came: list[bytes] = []

        async def story() -> set[bytes]:
            async with (
                AsyncAdmin(mq.nameserver) as admin,
                AsyncProducer(mq.nameserver) as producer,
            ):
                await admin.topics.create(TOPIC, queues=2)
                async with member(kind, mq.nameserver, came, tmp_path):
                    await asyncio.sleep(60)
                    old = await send(producer, "old", OLD)
                    await asyncio.sleep(30)
                    assert {*came} == old
                    came.clear()
                    await admin.topics.delete(TOPIC)
                    await asyncio.sleep(away_seconds)
                    await admin.topics.create(TOPIC, queues=2)
                    new = await send(producer, "new", count)
                    await asyncio.sleep(120)
                return new

        new = mq.run(story())
        assert sorted(came) == sorted(new)
