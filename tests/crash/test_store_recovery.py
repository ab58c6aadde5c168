"""Recovery, case by case: what is cut, what never is, where it begins, what it leaves alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.checkpoint import Checkpoint, encode_checkpoint
from cometmq.codec.record import decode_record
from cometmq.model.errors import StoreDamaged, StoreReadOnly
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles, Progress
from cometmq.store.message_store import MessageStore
from tests.golden.test_golden_stores import SETTINGS as JAVA_SETTINGS
from tests.golden.test_golden_stores import STORES, assert_all_found
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    later,
    make_put,
    open_store,
    put,
    run_jobs,
    settle,
    store_with,
    writable_copy,
)

LOG = "/store/commitlog/"
FIRST = LOG + "0".zfill(20)


@pytest.mark.parametrize("cut_at", [1, 4, 8, 60, 87, 95, 101])
def test_a_record_that_was_written_in_part_is_cut(cut_at):
    """Up to the size of its properties; these themselves no CRC of RocketMQ's covers."""
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    put(store, b"torn!")
    disk = disk.kill()
    content = disk.names[FIRST].content
    content[end + cut_at :] = bytes(len(content) - end - cut_at)
    store = open_store(disk=disk, clock=clock)
    assert store.refusal is None
    assert store.max_offset == end
    assert bodies_of(store) == [b"whole"]
    assert not any(disk.content(FIRST)[end:])


@pytest.mark.parametrize(
    "field", ["size", "magic", "body", "physical offset", "body size", "topic size"]
)
def test_the_last_record_is_cut_when_it_is_not_what_it_says(field):
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    put(store, b"wrong")
    at = {
        "size": 3,
        "magic": 4,
        "physical offset": 35,
        "body size": 87,
        "body": 88,
        "topic size": 93,
    }
    disk = disk.kill()
    disk.names[FIRST].content[end + at[field]] ^= 0x01
    store = open_store(disk=disk, clock=clock)
    assert store.refusal is None
    assert store.max_offset == end
    assert bodies_of(store) == [b"whole"]


def damaged(disk: FakeDisk, offset: int) -> FakeDisk:
    """The disk after a kill, with a byte of the body of the record at an offset changed."""
    disk = disk.kill()
    disk.names[FIRST].content[offset + 88] ^= 0x01
    return disk


def test_damage_in_front_of_what_was_on_disk_is_named_and_nothing_is_cut():
    store, disk, clock = store_with(b"before")
    settle(store, clock)
    end = store.max_offset
    put(store, b"damaged")
    put(store, b"behind")
    flush_only(store, clock)
    disk = damaged(disk, end)
    before = disk.content(FIRST)
    store = open_store(disk=disk, clock=clock)
    assert f"damaged at byte {end}" in str(store.refusal)
    assert FIRST in str(store.refusal)
    with pytest.raises(StoreReadOnly, match="accepts no messages until"):
        put(store, b"refused")
    assert bodies_of(store) == [b"before"]
    later(store, clock, 60)
    store.close()
    assert disk.content(FIRST) == before
    assert disk.exists("/store/abort")
    again = open_store(disk=disk.kill(), clock=clock)
    assert "damaged" in str(again.refusal)


def flush_only(store: MessageStore, clock: HandClock) -> None:
    """A flush and a checkpoint that knows of it, whose dispatched offset stays behind."""
    clock.turn(11)
    target = store.flush_target()
    assert target is not None
    store.flush_files(target)
    store.flushed(target)
    known = store._directory.checkpoints.progress or NOTHING_DONE
    store._directory.checkpoints.write(
        store._directory.checkpoints.times,
        Progress(known.dispatched, store.flushed_offset, known.entries),
    )


def test_the_same_behind_what_was_on_disk_is_a_torn_end_and_cut():
    store, disk, clock = store_with(b"before")
    settle(store, clock)
    end = store.max_offset
    put(store, b"torn")
    put(store, b"behind")
    store = open_store(disk=damaged(disk, end), clock=clock)
    assert store.refusal is None
    assert bodies_of(store) == [b"before"]
    put(store, b"after")
    assert bodies_of(store) == [b"before", b"after"]


def test_recovery_begins_where_the_checkpoint_ends():
    store, disk, clock = store_with(*[b"%d" % n * 300 for n in range(60)])
    settle(store, clock)
    put(store, b"last")
    disk = disk.kill()
    disk.names[FIRST].content[100] ^= 0xFF  # Nobody looks there.
    reads = disk.calls["pread"]
    store = open_store(disk=disk, clock=clock)
    assert store.queue_for_append("orders", 0).max_offset == 61
    assert disk.calls["pread"] - reads < 30


def test_without_our_checkpoint_recovery_begins_as_javas_does():
    """At the newest file that begins 3 s before the least time of RocketMQ's checkpoint."""
    store, disk, clock = store_with()
    starts = []
    for n in range(40):
        clock.turn(1)
        put(store, b"%d" % n * 400)
        starts.append((clock.now_ms(), store.max_offset))
    settle(store, clock)
    disk = disk.kill()
    disk.unlink("/store/checkpoint.cometmq")
    files = CheckpointFiles(disk, "/store")
    files.load()
    time = starts[25][0]
    files._overwrite("/store/checkpoint", encode_checkpoint(Checkpoint(time + 5000, time, 0)))
    queue_file = "/store/consumequeue/orders/0/00000000000000000400"
    disk.names[queue_file].content[200:] = bytes(200)  # Entries from 30 on are missing.
    store = open_store(disk=disk, clock=clock)
    assert bodies_of(store) == [b"%d" % n * 400 for n in range(40)]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", ["all", "topic", "file"])
def test_queue_files_that_were_removed_are_built_again(tmp_path: Path, is_clean, lost):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    bodies = [b"%d" % n * 200 for n in range(70)]
    put(store, *bodies)
    put(store, *bodies, topic="payments")
    settle(store, clock)
    if is_clean:
        store.close()
        directory = tmp_path
    else:
        directory = tmp_path.parent / (tmp_path.name + "-killed")
        shutil.copytree(tmp_path, directory)
        store.close()
    queues = directory / "consumequeue"
    if lost == "file":
        (queues / "payments" / "0" / "1200".zfill(20)).unlink()
    else:
        shutil.rmtree(queues if lost == "all" else queues / "payments")
    store = open_store(directory, clock=clock)
    assert bodies_of(store) == bodies
    assert bodies_of(store, "payments") == bodies
    put(store, b"after", topic="payments")
    store.close()
    assert bodies_of(open_store(directory, clock=clock), "payments") == [*bodies, b"after"]


def test_without_its_log_a_store_is_refused_and_nothing_is_touched(tmp_path: Path):
    store = open_store(tmp_path)
    put(store, b"x")
    store.close()
    (tmp_path / "commitlog").rename(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreDamaged, match="storePathCommitLog"):
        open_store(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "elsewhere").rename(tmp_path / "commitlog")
    assert bodies_of(open_store(tmp_path)) == [b"x"]


def test_a_kill_right_after_a_recovery_builds_nothing_again(caplog):
    store, disk, clock = store_with(*[b"%d" % n * 100 for n in range(30)])
    later(store, clock)
    disk = disk.power_cut()
    for _ in range(3):
        store = open_store(disk=disk, clock=clock)
        disk = disk.kill()
    assert "is rebuilt" not in caplog.text
    assert store.refusal is None


def test_a_topic_made_again_after_its_deletion_keeps_the_newer_messages():
    store, disk, clock = store_with(b"old 0", b"old 1", b"old 2")
    store.delete_topic("orders")
    put(store, b"new 0", b"new 1")
    assert bodies_of(open_store(disk=disk.kill(), clock=clock)) == [b"new 0", b"new 1"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_newest_messages_of_a_deleted_topic_do_not_come_back(is_clean):
    store, disk, clock = store_with(b"kept")
    put(store, b"gone 0", b"gone 1", topic="gone")
    settle(store, clock)
    store.delete_topic("gone")
    settle(store, clock)
    if is_clean:
        store.close()
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.topics() == ["orders"]
    assert bodies_of(store) == [b"kept"]
    assert store.max_offset > 0
    put(store, b"new", topic="gone")
    assert bodies_of(store, "gone") == [b"new"]


def test_records_of_topics_that_are_no_directory_names_are_passed_over():
    store, disk, clock = store_with(b"good")
    puts = [make_put(store, "orders")]
    for topic in (b"\x05../ev", b"\x02..", b"\x00", b"\x03a\0b"):
        puts.append((puts[0][0], topic, *puts[0][2:]))
    store.put_many(puts)
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.topics() == ["orders"]
    run_jobs(store)
    store.close()
    assert disk.list_names("/store/consumequeue") in ([], ["orders"])


def test_a_batch_of_every_kind_is_dispatched_again_as_it_was():
    """Byte for byte the queue files that dispatch had built (see also tests/golden)."""
    settings = replace(SMALL, queue_file_size=4000)
    store, disk, clock = store_with(settings=settings)
    for n in range(90):
        clock.turn(1)
        kinds = [make_put(store, "a", n % 3, b"x" * n, tag=f"tag{n % 5}")]
        kinds.append(make_put(store, "b" * 200, 1, b"y", transaction=(0, 4, 8, 12)[n % 4]))
        store.put_many(kinds)
        store.dispatch_pending()
    store.close()
    built = {name: disk.content(name) for name in disk.names if "consumequeue" in name}
    disk = disk.kill()
    for name in built:
        disk.unlink(name)
    store = open_store(settings=settings, disk=disk, clock=clock)
    store.close()
    assert {name: disk.content(name) for name in disk.names if "consumequeue" in name} == built


@pytest.mark.parametrize("damage_at", [300_000, 700_000])
def test_a_damaged_java_store_keeps_every_byte(tmp_path: Path, damage_at):
    """The records behind it are older than RocketMQ's checkpoint: they were on the device."""
    directory = writable_copy(STORES / "crash" / "store", tmp_path / "store")
    size = JAVA_SETTINGS.commitlog_file_size
    start = damage_at // size * size
    file = directory / "commitlog" / f"{start:020d}"
    content = bytearray(file.read_bytes())
    offset = 0
    while start + offset < damage_at:  # The body of the next record.
        offset += decode_record(content, offset).store_size
    content[offset + 88] ^= 0xFF
    file.write_bytes(content)
    (directory / "checkpoint").write_bytes(
        encode_checkpoint(Checkpoint(1_795_256_209_000, 0, 0))
    )
    store = MessageStore.open(directory, JAVA_SETTINGS, clock=HandClock(1_800_000_000_000))
    assert f"physical offset {start + offset}" in str(store.refusal)
    store.close()
    assert file.read_bytes() == content
    content[offset + 88] ^= 0xFF
    file.write_bytes(content)
    store = MessageStore.open(directory, JAVA_SETTINGS, clock=HandClock(1_800_000_000_000))
    assert store.refusal is None
    assert_all_found(store, "crash")
    store.close()


def test_a_first_record_that_is_no_record_does_not_choose_the_file():
    """Without our checkpoint: the newest file has none yet, the one before is too young."""
    store, disk, clock = store_with()
    for n in range(40):
        clock.turn(1)
        put(store, b"%d" % n * 400)
    run_jobs(store)
    disk = disk.kill()
    disk.unlink("/store/checkpoint.cometmq")
    store = open_store(disk=disk, clock=clock)
    assert bodies_of(store) == [b"%d" % n * 400 for n in range(40)]


def test_what_stands_behind_a_clean_end_is_cleared_too():
    """Somebody's bytes behind the last record of a store that was closed in order."""
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    store.close()
    disk = disk.kill()
    disk.names[FIRST].content[end : end + 500] = b"\x7f" * 500
    store = open_store(disk=disk, clock=clock)
    assert store.refusal is None
    assert not any(disk.content(FIRST)[end:])
    put(store, b"after")
    assert bodies_of(store) == [b"whole", b"after"]
