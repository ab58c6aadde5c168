"""Our client goes on by itself when its broker or nameserver is killed and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from cometmq.client import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    ProducerSettings,
    PushSettings,
    StoredMessage,
)
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
        subscriptions={TOPIC: "*"},
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


async def restart(program: Program) -> None:
    program.kill()
    await asyncio.to_thread(program.start)
