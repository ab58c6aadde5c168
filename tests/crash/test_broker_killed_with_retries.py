"""`kill -9` while refused messages wait for their next try: none is lost, forgotten, or given early.

Every message is refused twice and consumed then. What a kill may repeat, a try that was not yet known to the
broker, begins again where it was; the tries of each message go on to their end.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    ProducerSettings,
    PushConsumerSettings,
    StoredMessage,
)
from tests.support import processes
from tests.support.scripted import until

TOPIC, COUNT, TRIES, KILLS = "Refused", 80, 2, 2
DELAY_SECONDS = 1.0
# Retries wait at level 3 and 4.
SETTINGS = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s", "flushDelayOffsetInterval": 200}


class Refusing:
    """Refuses each message's first tries, and remembers when it was given which."""

    def __init__(self) -> None:
        self.given: dict[bytes, dict[int, float]] = defaultdict(dict)

    async def __call__(self, message: StoredMessage) -> bool:
        self.given[message.body].setdefault(message.reconsume_times, time.monotonic())
        return message.reconsume_times >= TRIES

    def has(self, tries: int) -> Callable[[], bool]:
        """Whether so many tries were made."""
        return lambda: sum(map(len, self.given.values())) >= tries

    @property
    def consumed(self) -> int:
        return sum(max(tries) >= TRIES for tries in self.given.values())


async def send_all(names: str) -> None:
    settings = ProducerSettings(send_timeout_ms=20_000)
    async with AsyncProducer(names, settings=settings) as producer:
        for number in range(COUNT):
            await producer.send(Message(TOPIC, b"%d" % number))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_refused_messages_go_on_with_their_tries(tmp_path: Path, flush: str):
    port = processes.broker_port()
    settings = {**SETTINGS, "flushDiskType": flush}
    listener = Refusing()
    consuming = PushConsumerSettings(
        consume_from=ConsumeFrom.FIRST,
        rebalance_interval_ms=500,
        persist_interval_ms=300,
        suspend_ms=1_000,
    )

    def broker(names: str) -> processes.Program:
        folder = tmp_path / "broker"
        return processes.broker(folder, names, port=port, settings=settings).start()

    with processes.nameserver(tmp_path / "nameserver") as names:
        served = await asyncio.to_thread(broker, names.address)
        try:
            await send_all(names.address)
            async with AsyncPushConsumer(
                names.address, group="g", listener=listener, subscriptions=[TOPIC],
                settings=consuming,
            ):  # fmt: skip
                for kill in range(1, KILLS + 1):
                    # In the middle: some wait for their first, or their second try.
                    await until(listener.has(COUNT * kill + COUNT // 4), "some of the tries")
                    served.kill()
                    served = await asyncio.to_thread(broker, names.address)
                await until(lambda: listener.consumed == COUNT, "the last try of each")
        finally:
            served.kill()
    assert len(listener.given) == COUNT
    for body, tries in listener.given.items():
        assert {*range(TRIES + 1)} <= tries.keys(), body
        for number in range(TRIES):
            waited = tries[number + 1] - tries[number]
            assert waited > DELAY_SECONDS - 0.01, (
                f"{body!r}: try {number + 1} after {waited:.2f} s"
            )
