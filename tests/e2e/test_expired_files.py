"""A consumer that comes back to files that are gone goes on behind them; the disk is given back."""

import asyncio
import contextlib
import os
from pathlib import Path

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.model.errors import TopicNotFound
from tests.support.processes import wait_until
from tests.support.programs import small_cluster

TOPIC = "events"
FILE = 65_536
COUNT = 60  # Of 4,000 bytes, which are not compressed yet: four log files.

SETTINGS = {
    "mappedFileSizeCommitLog": FILE,
    "cleanResourceInterval": 100,
    "diskMaxUsedSpaceRatio": 1,  # Expired files go at once, whatever the hour is.
    "defaultTopicQueueNums": 1,
}


async def consume(nameserver: str, *, until: bytes) -> list[bytes]:
    """What the group gets, up to a message."""
    got: list[bytes] = []
    done = asyncio.Event()

    async def listen(message: StoredMessage) -> None:
        got.append(message.body[:3])
        if message.body[:3] == until:
            done.set()

    consumer = AsyncPushConsumer(
        nameserver,
        group="GID_late",
        listener=listen,
        subscriptions=[TOPIC],
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST),
    )
    async with consumer:
        await asyncio.wait_for(done.wait(), 30)
    return sorted(got)


async def send(nameserver: str, numbers: range) -> None:
    async with AsyncProducer(nameserver) as producer:
        for number in numbers:
            await send_once_known(producer, Message(TOPIC, b"%03d" % number + b"x" * 3990))


async def send_once_known(producer: AsyncProducer, message: Message) -> None:
    """Send, waiting for the broker to have registered."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(TopicNotFound):
                await producer.send(message)
                return
            await asyncio.sleep(0.05)


def deleted_files(pid: int) -> list[str]:
    """Log files that the broker holds open or mapped though their names are gone."""
    folder = Path(f"/proc/{pid}")
    names = [str(path.readlink()) for path in (folder / "fd").iterdir() if path.is_symlink()]
    names += (folder / "maps").read_text().splitlines()
    return [name for name in names if "commitlog" in name and "(deleted)" in name]


async def test_a_consumer_crosses_a_deleted_range(tmp_path: Path):
    log = tmp_path / "broker" / "store" / "commitlog"
    with small_cluster(tmp_path, **SETTINGS) as (names, broker):
        await send(names.address, range(5))
        early = await consume(names.address, until=b"004")
        assert early == [b"%03d" % number for number in range(5)]
        await send(names.address, range(5, COUNT))
        first, second = sorted(log.iterdir())[:2]
        for path in (first, second):
            os.utime(path, (1, 1))
        await asyncio.to_thread(
            wait_until,
            lambda: not first.exists() and not second.exists(),
            seconds=20,
            what="two files gone",
        )
        late = await consume(names.address, until=b"%03d" % (COUNT - 1))
        start = int(late[0])
        assert 2 * FILE // 4400 <= start <= 2 * FILE // 4000  # The group had stood at 5.
        assert late == [b"%03d" % number for number in range(start, COUNT)]
        await asyncio.to_thread(
            wait_until,
            lambda: not deleted_files(broker.pid),
            seconds=20,
            what="nothing of the files held",
        )
