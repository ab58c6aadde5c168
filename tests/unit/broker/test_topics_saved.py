"""When a new topic's sends need not wait for topics.json any more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cometmq.broker.settings.broker_settings import BrokerSettings
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
