"""What nameservers are told of the topics: cut by brokerPermission, and by a store that is no more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from cometmq.broker.registration.registered_topics import RegisteredTopics
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.topics import Topics
from cometmq.model.flags import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from cometmq.model.names import DEFAULT_TOPIC, SELF_TEST_TOPIC
from cometmq.store.config_file import ConfigFile
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import flush, open_store, put


@contextmanager
def registered(disk: FakeDisk, *, perm: int = PERM_READ_WRITE, is_read_only: bool = False):
    """The store, the topics, and what is told of them."""
    clock = HandClock()
    settings = StoreSettings(commitlog_file_size=16_384, queue_file_size=400, disk_reserve=0)
    store = open_store(settings=settings, disk=disk, clock=clock, read_only=is_read_only)
    with ThreadPoolExecutor(1) as pool:
        file = ConfigFile("/store/config/topics.json", disk)
        topics = Topics(file, BrokerSettings(), clock=clock, pool=pool)
        yield store, topics, RegisteredTopics(topics, store, clock, BrokerSettings(perm=perm))


async def test_the_broker_permission_cuts_those_of_its_topics():
    with registered(FakeDisk(), perm=PERM_READ) as (_, topics, told):
        topics.load()
        assert told.table().topics[SELF_TEST_TOPIC].perm == PERM_READ
        assert told.table().topics[DEFAULT_TOPIC].perm == PERM_READ  # Nobody inherits it.
        assert told.table().version == topics.version
        assert topics.table().topics[SELF_TEST_TOPIC].perm == PERM_READ_WRITE


async def test_a_failed_flush_takes_write_permission_away_once_and_under_a_new_version():
    disk = FakeDisk()
    with registered(disk) as (store, topics, told):
        topics.load()
        assert told.table() == topics.table()
        assert not told.look()
        put(store, b"x")
        store.wait_flushed(store.max_offset, lambda _durability: None)
        disk.fail("fdatasync")
        flush(store)
        assert told.look()
        assert not told.look()
        after = told.table()
        assert not any(config.perm & PERM_WRITE for config in after.topics.values())
        assert after.topics[SELF_TEST_TOPIC].perm == PERM_READ
        assert after.version != topics.version
        assert topics.table().topics[SELF_TEST_TOPIC].perm == PERM_READ_WRITE


async def test_a_full_disk_passes_and_changes_nothing():
    disk = FakeDisk()
    with registered(disk) as (store, topics, told):
        topics.load()
        store.room.file_failed("disk full")
        assert store.refusal is not None
        assert not told.look()
        assert told.table() == topics.table()


async def test_a_store_that_opens_for_reading_only_is_never_registered_for_writing():
    disk = FakeDisk()
    with registered(disk) as (store, _, _):
        put(store, b"x")
        store.close()
    with registered(disk, is_read_only=True) as (_, topics, told):
        topics.load()
        assert told.look()  # The broker asks before it registers.
        assert not any(config.perm & PERM_WRITE for config in told.table().topics.values())
