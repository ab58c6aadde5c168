"""What is cut at the log's end is kept; what looks whole and is not is noticed; followers catch up."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from cometmq.codec.record import Record, decode_records
from cometmq.model.errors import StoreDamaged
from cometmq.offline.repair import repair
from cometmq.store.batch import Batch
from cometmq.store.derived import Derived, Step
from cometmq.store.directory import StoreDirectory
from cometmq.store.stored_record import SECTOR_SIZE, has_lost_sector
from tests.crash.test_store_recovery import flush_only
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    make_put,
    open_store,
    put,
    settle,
    store_with,
)

FIRST = "/store/commitlog/" + "0".zfill(20)


def test_a_copy_of_what_is_cut_is_kept_and_the_next_one_beside_it():
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    for number in range(2):
        put(store, b"torn")
        disk = disk.kill()
        content = disk.names[FIRST].content
        content[end + 88] ^= 0x01  # The body.
        torn = bytes(content[end:]).rstrip(b"\0")
        store = open_store(disk=disk, clock=clock)
        assert store.max_offset == end
        assert disk.content(f"/store/cut/{end:020d}.{number}") == torn
        assert not any(disk.content(FIRST)[end:])
    assert bodies_of(store) == [b"whole"]
    assert disk.list_names("/store/cut") == [f"{end:020d}.0", f"{end:020d}.1"]


def test_files_behind_a_torn_tail_are_kept_too():
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    put(store, *[b"x" * 900] * 40)
    files = disk.list_names("/store/commitlog")
    disk = disk.kill()
    disk.names[FIRST].content[end + 90] ^= 0x01
    before = {name: disk.content(f"/store/commitlog/{name}") for name in files}
    store = open_store(disk=disk, clock=clock)
    assert disk.list_names("/store/commitlog") == files[:1]
    kept = {name: disk.content(f"/store/cut/{name}") for name in disk.list_names("/store/cut")}
    assert kept == {
        f"{max(int(name), end):020d}.0": content[end if int(name) == 0 else 0 :].rstrip(b"\0")
        for name, content in before.items()
    }


def test_an_end_without_a_tail_leaves_no_copy():
    store, disk, clock = store_with(b"a", b"b")
    open_store(disk=disk.kill(), clock=clock)
    assert not disk.exists("/store/cut")
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_log_files_that_are_missing_at_the_end_are_named(is_clean):
    store, disk, clock = store_with(*[b"%03d" % n * 100 for n in range(100)])
    settle(store, clock)
    if is_clean:
        store.close()
    disk = disk.kill()
    _, *others = disk.list_names("/store/commitlog")
    for name in others:
        disk.unlink(f"/store/commitlog/{name}")
    with pytest.raises(StoreDamaged, match="log files are missing at the end"):
        open_store(disk=disk, clock=clock)
    repair("/store", None, clock=clock, disk=disk)
    store = open_store(disk=disk.kill(), clock=clock)
    kept = bodies_of(store)
    assert kept == [b"%03d" % n * 100 for n in range(len(kept))]
    assert 0 < len(kept) < 100


def test_a_log_that_ends_before_what_was_on_the_device_is_not_taken_for_whole():
    store, disk, clock = store_with(b"before")
    settle(store, clock)
    end = store.max_offset
    put(store, b"lost")
    flush_only(store, clock)
    disk = disk.kill()
    content = disk.names[FIRST].content
    content[end:] = bytes(len(content) - end)
    store = open_store(disk=disk, clock=clock)
    assert f"ends at physical offset {end}, but it was flushed to the device up to" in str(
        store.refusal
    )
    store.close()
    repair("/store", None, clock=clock, disk=disk.kill())


def test_where_no_copy_can_be_kept_nothing_is_cut():
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    put(store, b"torn")
    disk = disk.kill()
    disk.names[FIRST].content[end + 88] ^= 0x01
    before = disk.content(FIRST)
    disk.fail("rename", nth=2, code=errno.ENOSPC)  # The copy's: another file comes before it.
    store = open_store(disk=disk, clock=clock)
    assert "no copy can be kept (ENOSPC)" in str(store.refusal)
    assert f"{FIRST} has an invalid tail at byte {end}" in str(store.refusal)
    store.close()
    assert disk.content(FIRST) == before
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.refusal is None
    assert bodies_of(store) == [b"whole"]


@pytest.mark.parametrize("lost", ["first", "middle", "last"])
def test_a_sector_lost_in_the_properties_is_noticed(lost):
    """The CRC of a record covers its body alone; the sizes are whole."""
    store, disk, clock = store_with(b"whole")
    end = store.max_offset
    block = b"".join(b"name%d\x01value\x02" % n for n in range(200))
    store.put_many([make_put(store, body=b"b", property_block=block)])
    disk = disk.kill()
    content = disk.names[FIRST].content
    start, stop = end + 102, store.max_offset
    sectors = [at for at in range(0, stop, SECTOR_SIZE) if at >= start]
    at = {"first": sectors[0], "middle": sectors[2], "last": sectors[-1]}[lost]
    assert len(sectors) > 3
    assert stop % SECTOR_SIZE
    content[at : min(at + SECTOR_SIZE, stop)] = bytes(min(SECTOR_SIZE, stop - at))
    store = open_store(disk=disk, clock=clock)
    assert store.max_offset == end
    assert bodies_of(store) == [b"whole"]


def test_zeros_that_somebody_sent_are_no_lost_sector():
    store, disk, clock = store_with(b"whole")
    block = b"name\x01" + b"\0" * 400 + b"x" + b"\0" * 400 + b"\x02"
    store.put_many([make_put(store, body=b"zeros", property_block=block)])
    store = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(store) == [b"whole", b"zeros"]


def test_a_record_without_properties_that_ends_in_a_sector_has_lost_none():
    record = Record(91, physical_offset=SECTOR_SIZE - 89, topic="", property_block=b"")
    assert record.physical_offset + record.store_size == SECTOR_SIZE + 2
    assert has_lost_sector(record)  # Which is why nobody asks without a zero in the parts.
    store, disk, clock = store_with()
    size = 91 + len("orders")
    body = b"x" * (SECTOR_SIZE + 2 - size)
    store.put_many([make_put(store, body=body, property_block=b"")])
    assert store.max_offset == SECTOR_SIZE + 2
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.max_offset == SECTOR_SIZE + 2


@dataclass
class Notes(Derived):
    """A follower that writes down what it is given."""

    lacks_from: int | None
    given: list[int] = field(default_factory=list)
    asked: list[tuple[bool, int]] = field(default_factory=list)

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        self.asked.append((is_clean, log_start))
        return self.lacks_from

    def feed(self, batch: Batch) -> None:
        assert batch.raw is not None
        records = decode_records(batch.raw.content)
        self.given += [record.physical_offset for record in records]

    def hide_from(self, offset: int) -> Iterator[Step]:
        assert all(given < offset for given in self.given)
        yield from ()

    def truncate(self, offset: int) -> Iterator[Step]:
        assert all(given < offset for given in self.given)
        yield from ()


def recover(disk: FakeDisk, *followers: Notes) -> StoreDirectory:
    directory = StoreDirectory("/store", SMALL, disk=disk, read_only=False)
    directory.derived.extend(followers)
    directory.recover()
    return directory


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_follower_is_given_what_it_lacks_and_the_queues_stay_as_they_are(is_clean):
    store, disk, clock = store_with()
    ends = [put(store, b"%d" % n * 50) for n in range(30)]
    settle(store, clock)
    if is_clean:
        store.close()
    early, enough = Notes(ends[9]), Notes(None)
    directory = recover(disk.kill(), early, enough)
    assert early.given == enough.given == ends[9:-1]
    assert early.asked == [(is_clean, 0)]
    queue = directory.table.find("orders", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (0, 30)
    directory.release()


def test_a_follower_that_lacks_nothing_is_given_what_the_queues_lack():
    store, disk, clock = store_with()
    put(store, b"known")
    settle(store, clock)
    end = store.max_offset
    put(store, b"new")
    follower = Notes(None)
    recover(disk.kill(), follower).release()
    assert follower.given == [end]
