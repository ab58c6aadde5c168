"""Our client goes on by itself when its broker or nameserver is killed and comes back."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    ProducerSettings,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import ClientError, NetError
from tests.support.processes import Program
from tests.support.programs import small_cluster
from tests.support.scripted import until

SECONDS_MAX = 40.0
TOPIC = "survivors"
QUICK: dict[str, Any] = {"route_interval_ms": 500, "heartbeat_interval_ms": 500}


async def answered(
    ask: Callable[[], Awaitable[object]], what: str, *, seconds: float = SECONDS_MAX
) -> None:
    """Ask again and again, whatever fails meanwhile, until the answer is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(ClientError, NetError):
            if await ask():
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{what}: not within {seconds} s")


async def send_until_stored(producer: AsyncProducer, body: bytes) -> None:
    """Send a message again and again until it is acknowledged, as an application would."""
    message = Message(TOPIC, body)
    await answered(lambda: producer.send(message, timeout_ms=1000), f"{body!r} is stored")


async def test_a_killed_broker_and_nameserver_are_found_again(tmp_path: Path):
    got: set[bytes] = set()

    async def listen(message: StoredMessage) -> None:
        got.add(message.body)

    with small_cluster(tmp_path) as (names, broker):
        consumer = AsyncPushConsumer(
            names.address, group="GID_survivors", listener=listen, subscriptions=[TOPIC],
            settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=500, **QUICK),
        )  # fmt: skip
        producer = AsyncProducer(names.address, settings=ProducerSettings(**QUICK))
        async with producer, consumer:
            await send_until_stored(producer, b"before")
            await until(lambda: b"before" in got, "the first message")
            await restart(broker)
            await send_until_stored(producer, b"after the broker")
            await until(lambda: b"after the broker" in got, "a message after the broker")
            await restart(names)
            await send_until_stored(producer, b"after the nameserver")
            await until(lambda: b"after the nameserver" in got, "one after the nameserver")


async def test_a_broker_that_forgot_an_offset_is_told_it_again(tmp_path: Path):
    got: list[bytes] = []
    with small_cluster(tmp_path) as (names, broker):
        consumer = AsyncPushConsumer(
            names.address, group="GID_idle", listener=lambda message: got.append(message.body),
            subscriptions=[TOPIC],
            settings=PushConsumerSettings(
                consume_from=ConsumeFrom.FIRST, persist_interval_ms=200,
                rebalance_interval_ms=500, **QUICK,
            ),
        )  # fmt: skip
        reader = AsyncPullConsumer(names.address, group="GID_idle")
        async with AsyncProducer(names.address, settings=ProducerSettings(**QUICK)) as producer:
            await send_until_stored(producer, b"one")
            async with consumer, reader:
                await until(lambda: got == [b"one"], "the message")
                broker.kill()
                # A crash forgets the commits of the last seconds; this one forgets all.
                for file in (tmp_path / "broker").rglob("consumerOffset.json*"):
                    file.unlink()
                await asyncio.to_thread(broker.start)
                await committed_sum_is_one(reader)


async def test_a_broker_knows_a_member_whatever_opened_the_connection(tmp_path: Path):
    """One that an administrator opened before any route named the broker."""
    with small_cluster(tmp_path) as (names, broker):
        shared = ClientInstance(names.address)
        async with (
            AsyncProducer(group="PID_asking", instance=shared) as producer,
            AsyncAdmin(names.address, instance=shared) as admin,
        ):
            await admin.topics.create(TOPIC)
            assert shared.channels.open_addresses().count(broker.address) == 1
            await producer.send(Message(TOPIC, b"one"))

            async def is_known() -> bool:
                return any((await admin.groups.producer_connections("PID_asking")).values())

            # Far sooner than heartbeats are apart.
            await answered(is_known, "a broker knows a member", seconds=10)


async def committed_sum_is_one(reader: AsyncPullConsumer) -> None:
    """Wait until the group's offset is at the broker; it consumes nothing more meanwhile."""

    async def is_one() -> bool:
        known = [await reader.committed(queue) for queue in await reader.queues(TOPIC)]
        return sum(offset or 0 for offset in known) == 1

    await answered(is_one, "the broker is told again")


async def restart(program: Program) -> None:
    program.kill()
    await asyncio.to_thread(program.start)
