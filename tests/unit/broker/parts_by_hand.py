"""What a broker's features are made of, without a port or a socket: for tests of one of them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from cometmq.access.guard import AccessGuard
from cometmq.broker.counters.counters import Counters
from cometmq.broker.inner.puts import InnerPuts
from cometmq.broker.loop.turns import Turns
from cometmq.broker.parts import Parts, follow_deletions
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.cold_readers import ColdReaders
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.lanes import Lanes
from cometmq.broker.tables.locks import QueueLocks
from cometmq.broker.tables.long_polls import LongPolls
from cometmq.broker.tables.members import Members
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.positions import GroupPositions
from cometmq.broker.tables.replication_state import ReplicationState
from cometmq.broker.tables.saving import saved
from cometmq.broker.tables.topics import Topics
from cometmq.codec.message_id import UniqueIds
from cometmq.model.settings import SettingsInForce
from cometmq.model.topic import TopicConfig
from cometmq.net.channels import Channels
from cometmq.steps.on_loop import Machines
from cometmq.store.config_file import ConfigFile
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld

HOST = bytes([127, 0, 0, 1, 0, 0, 39, 15])
# A master without slaves.
ALONE = ReplicationState(
    is_master=True, max_offset=0, copies=(), in_sync=1, needed=1, refused=0, master=None
)


@contextmanager
def parts_by_hand(folder: Path, clock: HandClock, **settings: object) -> Iterator[Parts]:
    """Parts over a store in `folder`, all their time the clock's; the store is closed in the end."""
    given = BrokerSettings(
        broker_name="broker-a",
        store_path=str(folder),
        **{"commitlog_file_size": 1 << 20, **settings},  # type: ignore[arg-type]
    )
    store = MessageStore.open(str(folder), given.store_settings(), clock=clock, disk=RealDisk())
    store.store_host = HOST
    with ThreadPoolExecutor(1) as pool:
        try:
            yield make_parts(store, given, clock, pool)
        finally:
            store.close()


def config_file(settings: BrokerSettings, name: str) -> ConfigFile:
    return ConfigFile(f"{settings.store_directory}/config/{name}", RealDisk())


def make_parts(
    store: MessageStore, settings: BrokerSettings, clock: HandClock, pool: ThreadPoolExecutor
) -> Parts:
    """Parts as `broker.server` makes them; their tables are not loaded yet."""
    in_force = SettingsInForce(settings)
    file, counters = partial(config_file, settings), Counters(clock)
    lanes = Lanes(store, region="DefaultRegion", is_trace_on=True, counters=counters)
    topics = Topics(file("topics.json"), settings, clock=clock, pool=pool)
    members = Members(clock, timeout_ms=120_000, is_notified=lambda _: True)
    offsets = Offsets(
        file("consumerOffset.json"), clock=clock, pool=pool, other_file=file("lmqConsumerOffset.json")
    )  # fmt: skip
    world = HandWorld(clock)
    return Parts(
        settings=in_force.current,
        in_force=in_force,
        address="127.0.0.1:9999",
        listen_host="127.0.0.1",
        store=store, clock=clock, disk=RealDisk(), pool=pool,
        chance=random.Random(1),
        world=world,
        topics=topics,
        groups=Groups(file("subscriptionGroup.json"), in_force.current, clock=clock, pool=pool),
        offsets=offsets,
        members=members,
        locks=QueueLocks(file("queueLocks.json"), clock=clock, pool=pool),
        polls=LongPolls(clock),
        counters=counters,
        cold=ColdReaders(in_force.current, clock),
        channels=Channels(clock),
        turns=Turns(clock),
        lanes=lanes,
        inner=InnerPuts(
            store=store, topics=topics, lanes=lanes, counters=counters, on_written=lambda: None
        ),
        config_file=file,
        guard=AccessGuard(),
        positions=GroupPositions(store, topics=topics, offsets=offsets, members=members),
        replication=lambda: ALONE,
        registered=lambda: True, topics_known=saved, run=Machines(world, "role").run,
    )  # fmt: skip


def load_tables(parts: Parts) -> None:
    """Load the tables of the folder config; within a running loop, in which they are saved."""
    for table in (parts.topics, parts.groups, parts.offsets, parts.locks):
        table.load()
    follow_deletions(parts, ())


@asynccontextmanager
async def tables_by_hand(
    folder: Path, *topics: TopicConfig, **settings: object
) -> AsyncIterator[Parts]:
    """Parts by hand whose tables are loaded, with these topics; all of it is closed in the end."""
    with parts_by_hand(folder, HandClock(), **settings) as parts:
        load_tables(parts)
        for topic in topics:
            parts.topics.put(topic)
        yield parts
        for table in (parts.topics, parts.groups, parts.offsets, parts.locks):
            await table.saver.close()


def unique_ids(clock: HandClock) -> UniqueIds:
    """Unique keys of a process that is always the same."""
    return UniqueIds(ip=HOST[:4], pid=7, loader=random.Random(1).getrandbits(32), clock=clock)
