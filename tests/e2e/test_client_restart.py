"""Our client goes on by itself when its broker or nameserver is killed and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import time
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
    PushSettings,
    StoredMessage,
)
from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import ClientError, NetError
from tests.support import processes
from tests.support.processes import Program

SECONDS_MAX = 40.0
TOPIC = "survivors"


async def until(look, what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS_MAX} s"
        await asyncio.sleep(0.02)


async def send_until_stored(producer: AsyncProducer, body: bytes) -> None:
    """Send a message again and again until it is acknowledged, as an application would."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(ClientError, NetError):
            await producer.send(Message(TOPIC, body), timeout_ms=1000)
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{body!r} was not stored within {SECONDS_MAX} s")


async def test_a_killed_broker_and_nameserver_are_found_again(tmp_path: Path):
    names = processes.nameserver(tmp_path / "nameserver")
    broker = processes.broker(tmp_path / "broker", names.address)
    names.start()
    broker.start()
    got: set[bytes] = set()

    async def listen(message: StoredMessage) -> None:
        got.add(message.body)

    quick: dict[str, Any] = {"route_interval_ms": 500, "heartbeat_interval_ms": 500}
    consumer = AsyncPushConsumer(
        names.address,
        group="GID_survivors",
        listener=listen,
        subscriptions=[TOPIC],
        settings=PushSettings(
            consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=500, **quick
        ),
    )
    producer = AsyncProducer(names.address, settings=ProducerSettings(**quick))
    try:
        async with producer, consumer:
            await send_until_stored(producer, b"before")
            await until(lambda: b"before" in got, "the first message")
            await restart(broker)
            await send_until_stored(producer, b"after the broker")
            await until(lambda: b"after the broker" in got, "a message after the broker")
            await restart(names)
            await send_until_stored(producer, b"after the nameserver")
            await until(lambda: b"after the nameserver" in got, "one after the nameserver")
    finally:
        for program in (broker, names):
            program.kill()


async def test_a_broker_that_forgot_an_offset_is_told_it_again(tmp_path: Path):
    names = processes.nameserver(tmp_path / "nameserver")
    broker = processes.broker(tmp_path / "broker", names.address)
    names.start()
    broker.start()
    quick: dict[str, Any] = {"route_interval_ms": 500, "heartbeat_interval_ms": 500}
    got: list[bytes] = []
    consumer = AsyncPushConsumer(
        names.address,
        group="GID_idle",
        listener=lambda message: got.append(message.body),
        subscriptions=[TOPIC],
        settings=PushSettings(
            consume_from=ConsumeFrom.FIRST, persist_interval_ms=200,
            rebalance_interval_ms=500, **quick,
        ),
    )  # fmt: skip
    reader = AsyncPullConsumer(names.address, group="GID_idle")
    try:
        async with AsyncProducer(names.address, settings=ProducerSettings(**quick)) as producer:
            await send_until_stored(producer, b"one")
            async with consumer, reader:
                await until(lambda: got == [b"one"], "the message")
                broker.kill()
                # A crash forgets the commits of the last seconds; this one forgets all.
                for file in (tmp_path / "broker").rglob("consumerOffset.json*"):
                    file.unlink()
                await asyncio.to_thread(broker.start)
                await committed_sum_is_one(reader)
    finally:
        for program in (broker, names):
            program.kill()


async def test_a_broker_knows_a_member_whatever_opened_the_connection(tmp_path: Path):
    """One that an administrator opened before any route named the broker."""
    names = processes.nameserver(tmp_path / "nameserver")
    broker = processes.broker(tmp_path / "broker", names.address)
    names.start()
    broker.start()
    shared = ClientInstance(names.address)
    try:
        async with (
            AsyncProducer(group="PID_asking", instance=shared) as producer,
            AsyncAdmin(names.address, instance=shared) as admin,
        ):
            await admin.topics.create(TOPIC)
            assert shared.channels.open_addresses().count(broker.address) == 1
            await producer.send(Message(TOPIC, b"one"))
            await knows(admin, "PID_asking")
    finally:
        for program in (broker, names):
            program.kill()


async def knows(admin: AsyncAdmin, group: str) -> None:
    """Wait until a broker knows a member of a group, far shorter than heartbeats are apart."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(ClientError, NetError):
            if any((await admin.groups.producer_connections(group)).values()):
                return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"no broker knows a member of {group}")


async def committed_sum_is_one(reader: AsyncPullConsumer) -> None:
    """Wait until the group's offset is at the broker; it consumes nothing more meanwhile."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(ClientError, NetError):
            queues = await reader.queues(TOPIC)
            known = [await reader.committed(queue) for queue in queues]
            if sum(offset or 0 for offset in known) == 1:
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the broker was not told again within {SECONDS_MAX} s")


async def restart(program: Program) -> None:
    program.kill()
    await asyncio.to_thread(program.start)
