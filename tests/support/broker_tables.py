"""A store and the tables of a broker on a disk in memory, for tests of services: no socket, no thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from cometmq.broker.groups import Groups
from cometmq.broker.offsets import Offsets
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import Topics
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from cometmq.store.config_file import ConfigFile
from tests.support.fake_disk import FakeDisk
from tests.support.hand_world import HandWorld
from tests.support.store_puts import open_store


class AtOnce(Executor):
    """Lends no thread: what is submitted is done there and then."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class BrokerTables:
    """Everything that services are made of."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self.world = HandWorld()
        self.disk = FakeDisk()
        clock, pool = self.world.clock, AtOnce()
        self.store = open_store(disk=self.disk, clock=clock)
        self.topics = Topics(self._file("topics.json"), self.settings, clock=clock, pool=pool)
        self.groups = Groups(
            self._file("subscriptionGroup.json"), is_auto_created=False, clock=clock, pool=pool
        )
        self.offsets = Offsets(self._file("consumerOffset.json"), clock=clock, pool=pool)
        for table in (self.topics, self.groups, self.offsets):
            table.load()

    def _file(self, name: str) -> ConfigFile:
        return ConfigFile(f"/config/{name}", self.disk)

    def add(self, topic: str, group: str = "g", queues: int = 2) -> None:
        """A topic and a group."""
        self.topics.put(TopicConfig(topic, queues, queues))
        self.groups.put(GroupConfig(group))

    async def close(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            await table.close()
        self.store.close()
