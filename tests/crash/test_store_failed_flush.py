"""A failed flush is final: nothing is acknowledged, nothing is taken, no second one is believed."""

from dataclasses import replace

import pytest

from cometmq.model.errors import StoreFull, StorePoisoned
from cometmq.store.positions import Durability
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import (
    bodies_of,
    flush,
    later,
    make_put,
    open_store,
    put,
    run_jobs,
    store_with,
)

SYNC = StoreSettings(
    commitlog_file_size=16_384, queue_file_size=400, disk_reserve=0, flush_sync=True
)


def test_waiters_are_told_later_puts_refused_and_no_flush_follows():
    store, disk, clock = store_with(b"flushed", settings=SYNC)
    flush(store)
    told: list[Durability] = []
    store.wait_flushed(put(store, b"lost"), told.append)
    disk.fail("fdatasync")
    flush(store)
    assert told == [Durability.DISK_LATE]
    assert "flush of the log failed" in str(store.refusal)
    with pytest.raises(StorePoisoned, match="restart the broker"):
        put(store, b"refused")
    store.wait_flushed(store.max_offset, told.append)
    assert told == [Durability.DISK_LATE] * 2
    syncs = disk.calls["fdatasync"]
    for _ in range(5):
        later(store, clock, 20)
    assert store.flush_target() is None
    assert bodies_of(store) == [b"flushed"]  # Readers go on; what is not on disk stays unseen.
    store.close()
    assert disk.calls["fdatasync"] == syncs
    assert disk.exists("/store/abort")
    assert bodies_of(open_store(settings=SYNC, disk=disk.power_cut())) == [b"flushed"]


def test_with_asynchronous_flush_it_is_final_too():
    store, disk, clock = store_with(b"1")
    clock.turn(11)
    disk.fail("fdatasync")
    flush(store)
    with pytest.raises(StorePoisoned):
        put(store, b"2")
    assert bodies_of(store) == [b"1"]


def test_a_write_that_fails_is_final_unless_it_is_for_room():
    disk = FakeDisk()
    store = open_store(disk=disk)
    put(store, b"1")
    disk.fail("pwrite")
    with pytest.raises(StorePoisoned, match="cannot be written"):
        put(store, b"2")
    with pytest.raises(StorePoisoned):
        put(store, b"3")
    store.close()
    assert bodies_of(open_store(disk=disk.kill())) == [b"1"]


def test_a_queue_file_that_cannot_be_synced_ends_checkpoints_and_sends():
    store, disk, clock = store_with()
    at_first = disk.content("/store/checkpoint.cometmq")
    put(store, b"1")
    clock.turn(2)
    store.tick()
    job = store.checkpoint_due()
    assert job is not None
    disk.fail("fdatasync")
    job.run()
    store.checkpointed(job)
    assert "queue files cannot be flushed to the device" in str(store.refusal)
    with pytest.raises(StoreFull):
        put(store, b"2")
    clock.turn(60)
    run_jobs(store, ticks=5)
    store.close()
    assert (
        disk.content("/store/checkpoint.cometmq") == at_first
    )  # That of the start: nothing is done.
    assert disk.exists("/store/abort")
    assert bodies_of(open_store(disk=disk.power_cut())) == [b"1"]


def test_a_waiter_is_told_when_its_time_is_over_and_the_message_stays():
    store, _, clock = store_with(settings=SYNC)
    told: list[Durability] = []
    store.wait_flushed(put(store, b"late"), told.append)
    target = store.flush_target()
    assert target is not None
    clock.turn(4.9)
    store.tick()
    assert told == []
    clock.turn(0.2)
    store.tick()
    assert told == [Durability.DISK_LATE]
    store.flush_files(target)
    store.flushed(target)
    assert told == [Durability.DISK_LATE]
    assert bodies_of(store) == [b"late"]


def test_one_flush_answers_everybody_who_wrote_before_it():
    disk = FakeDisk()
    store = open_store(settings=SYNC, disk=disk)
    told: list[Durability] = []
    for number in range(50):
        store.put_many([make_put(store, body=b"%d" % number)])
        store.wait_flushed(store.max_offset, told.append)
    syncs = disk.calls["fdatasync"]
    target = store.flush_target()
    assert target is not None
    put(store, b"during the flush")
    store.wait_flushed(store.max_offset, told.append)
    assert store.flush_target() is None
    store.flush_files(target)
    store.flushed(target)
    assert told == [Durability.OK] * 50
    assert disk.calls["fdatasync"] == syncs + 1
    assert len(bodies_of(store)) == 50
    flush(store)
    assert told == [Durability.OK] * 51


def test_asynchronous_flush_keeps_rocketmqs_rhythm():
    store, _, clock = store_with(b"x" * 100)
    clock.turn(9.9)
    assert store.flush_target() is None  # Not four pages, not ten seconds.
    clock.turn(0.2)
    flush(store)
    assert store.flushed_offset == store.max_offset
    for _ in range(4):
        put(store, b"x" * 4096)
    clock.turn(0.4)
    assert store.flush_target() is None
    clock.turn(0.2)
    assert store.flush_target() == store.max_offset


def test_without_its_pause_asynchronous_flush_goes_by_pages_alone():
    settings = replace(SYNC, flush_sync=False, is_flush_timed=False)
    store, _, _ = store_with(b"x" * 100, settings=settings)
    assert store.flush_target() is None
    for _ in range(4):
        put(store, b"x" * 4000)
    assert store.flush_target() == store.max_offset
