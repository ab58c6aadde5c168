"""When a new topic's sends need not wait for topics.json any more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cometmq.broker.settings.broker_settings import BrokerRole, BrokerSettings
from cometmq.broker.tables.topics import Topics
from cometmq.model.topic import TopicConfig
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock


async def test_a_topic_is_on_disk_as_soon_as_its_save_is_done(tmp_path):
    """A send in the same turn of the loop comes before what the save calls back; it must not begin another save."""
    with ThreadPoolExecutor(1) as pool:
        file = ConfigFile(str(tmp_path / "topics.json"), RealDisk())
        topics = Topics(file, BrokerSettings(), clock=HandClock(), pool=pool)
        topics.load()
        saving = topics.put(TopicConfig("new"))
        assert topics.saving_of("new") is saving
        turns = asyncio.Event()
        found: list[object] = []

        def look() -> None:
            if saving.done():
                found.append(topics.saving_of("new"))
                turns.set()
            else:
                asyncio.get_running_loop().call_soon(look)

        look()
        await turns.wait()
        assert found == [None]
        await topics.close()


async def run_as(tmp_path, role: BrokerRole) -> tuple[int, bool]:
    """Start and end a table of topics in a role; its epoch, and whether this was a promotion."""
    with ThreadPoolExecutor(1) as pool:
        topics = Topics(
            ConfigFile(str(tmp_path / "topics.json"), RealDisk()),
            BrokerSettings(broker_role=role),
            clock=HandClock(),
            pool=pool,
        )
        topics.load()
        await topics.close()
    return topics.version.state_version, topics.is_promoted


async def test_a_slave_that_becomes_the_master_raises_the_epoch_once(tmp_path):
    roles = [
        "ASYNC_MASTER",
        "SLAVE",
        "SLAVE",
        "SYNC_MASTER",
        "ASYNC_MASTER",
        "SLAVE",
        "ASYNC_MASTER",
    ]
    seen = [await run_as(tmp_path, BrokerRole(role)) for role in roles]
    assert [epoch for epoch, _ in seen] == [0, 0, 0, 1, 1, 1, 2]
    assert [number for number, (_, is_promoted) in enumerate(seen) if is_promoted] == [3, 6]
