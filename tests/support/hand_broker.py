"""What a broker's machines stand on, without a loop, a socket or a second: store, topics, puts, a world by hand."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, cast

from cometmq.broker.counters.counters import Counters
from cometmq.broker.inner.puts import InnerMessage, InnerPuts
from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.parts import Parts
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.lanes import Lanes
from cometmq.broker.tables.long_polls import LongPolls
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.topic_config import TopicsFileEncoder, TopicTable
from cometmq.codec.record import Record, decode_record
from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import KeptMachine
from cometmq.store.config_file import ConfigFile
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld
from tests.support.store_puts import HOST_V4

PATH = "/store"
SMALL: dict[str, Any] = {
    "commitlog_file_size": 1 << 17, "queue_file_size": 2_000, "index_slots": 50, "index_entries": 200,
}  # fmt: skip


class NoPool(Executor):
    """No thread is lent: machines have their work done by the world, and nothing else should ask."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        raise AssertionError("a machine asked for a thread past its world")


class HandBroker:
    """One life of a broker's store, from a start to a kill.

    Attributes:
        settings: BrokerSettings of it.
        clock: what all time is.
        world: what machines are run in.
        store: on a disk in memory.
        polls: who waits for its messages.
    """

    def __init__(
        self,
        *,
        topics: Sequence[TopicConfig] = (),
        clock: HandClock | None = None,
        disk: FakeDisk | None = None,
        chance: Random | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or HandClock()
        self.disk = disk or FakeDisk()
        self.world = HandWorld(self.clock, chance=chance)
        self.settings = BrokerSettings(
            broker_name="broker-a", store_path=PATH, **{**SMALL, **settings}
        )
        self.store = MessageStore.open(
            PATH, self.settings.store_settings(), clock=self.clock, disk=self.disk
        )
        self.store.store_host = HOST_V4
        self.polls = LongPolls(self.clock, self.world.call_soon)
        self.store.on_arrival = self.polls.arrived
        self.topics = self._load_topics(topics)
        self.counters = Counters(self.clock)
        self.inner = InnerPuts(
            store=self.store,
            topics=self.topics,
            lanes=Lanes(
                self.store, region="DefaultRegion", is_trace_on=False, counters=self.counters
            ),
            counters=self.counters,
            on_written=self._written,
        )

    @property
    def parts(self) -> Parts:
        """Itself: it has what its machines use of a broker's parts, under the same names."""
        return cast("Parts", self)

    def _load_topics(self, more: Sequence[TopicConfig]) -> Topics:
        """The table as a start finds it, complete: what must be made first would be saved by a loop."""
        file = ConfigFile(f"{PATH}/config/topics.json", self.disk)
        made = Topics(file, self.settings, clock=self.clock, pool=NoPool())
        configs = {config.name: config for config in [*made._system_topics(), *more]}
        file.save(TopicsFileEncoder().encode(TopicTable(DataVersion(0), configs)))
        made.load()
        return made

    def _written(self) -> None:
        """The flusher's deed, at once: what was written is on the device, unless a test wants otherwise."""
        if self.world.is_flushed:
            target = self.store.flush_target()
            if target is not None:
                self.store.flush_files(target)
                self.store.flushed(target)

    def wake(self, machine: KeptMachine, queues: Sequence[ConsumeQueue]) -> None:
        """Let what comes into these queues wake a machine, as its feature does."""
        for queue in queues:
            self.polls.watch(queue, lambda _: machine.wake())

    def put(self, *messages: InnerMessage) -> list[tuple[int, int, int]]:
        return self.inner.put(*messages)

    def cursor(self, topic: str, *, offset: int = 0) -> QueueCursor:
        return QueueCursor(self.store, topic, 0, offset=offset)

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        """All that a queue holds."""
        queue = self.store.queue(topic, queue_id)
        if queue is None:
            return []
        found = []
        for offset in range(queue.min_offset, queue.max_offset):
            (entry,) = self.store.entries(queue, offset, 1)
            content = self.store.read_record(entry.physical_offset, entry.size)
            assert content is not None
            found.append(decode_record(content))
        return found

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        return [record.body for record in self.records(topic, queue_id)]

    def killed(self) -> dict[str, Any]:
        """What the next life is made of: the disk as the process left it, and the time."""
        return {"disk": self.disk.kill(), "clock": self.clock}
