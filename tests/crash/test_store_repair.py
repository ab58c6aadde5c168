"""Repair of a log with damage in it: nothing valid is lost, what is damaged is kept, the rest goes on."""

import random
from contextlib import suppress
from dataclasses import replace

import pytest

from cometmq.codec.record import decode_record
from cometmq.kernel import WalkEnd, walk_records
from cometmq.model.errors import StoreDamaged, StoreLocked
from cometmq.model.flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from cometmq.offline.found import find_store
from cometmq.offline.repair import DAMAGED_TOPIC, RepairPlan, plan_repair, repair
from cometmq.offline.verify import verify
from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    make_put,
    open_store,
    put,
    read_all,
    settle,
    store_with,
)

LOG = "/store/commitlog/"
BODIES = [b"%03d" % n * 40 for n in range(300)]  # Some files of 16 KiB.
SIZE = SMALL.commitlog_file_size


def damaged_store(*damages: tuple[int, int, bytes]) -> tuple[FakeDisk, HandClock, list[int]]:
    """A store of many messages, flushed and killed; bytes of the log changed.

    Each damage is (number of a message, bytes from its start, new bytes). Gives the physical
    offset of each message, too.
    """
    store, disk, clock = store_with()
    offsets = []
    for body in BODIES:
        clock.turn(1)
        offsets.append(store.put_many([make_put(store, body=body, tag="t")])[0][1])
        store.dispatch_pending()
    settle(store, clock)
    disk = disk.kill()
    for number, at, new in damages:
        file, place = divmod(offsets[number] + at, SIZE)
        content = disk.names[f"{LOG}{file * SIZE:020d}"].content
        content[place : place + len(new)] = new
    return disk, clock, offsets


def fix(disk: FakeDisk, clock: HandClock, *, is_cut: bool = False) -> RepairPlan:
    return repair("/store", None, clock=clock, disk=disk, is_cut=is_cut)


def is_sound(disk: FakeDisk) -> bool:
    found = find_store("/store", None, disk)
    verdict = verify(found)
    found.close()
    assert verdict.notes == 0, verdict.findings
    return verdict.is_sound


def copies(disk: FakeDisk) -> dict[str, bytes]:
    return {name: disk.content(f"/store/cut/{name}") for name in disk.list_names("/store/cut")}


def walk(disk: FakeDisk) -> list:
    """Every record as anybody walks the log, from file to file; it must reach the end."""
    records = []
    for name in disk.list_names("/store/commitlog"):
        content = disk.content(LOG + name)
        found, _, why = walk_records(content, 0, len(content))
        records += [decode_record(content, position) for position, _, _ in found]
        assert why in (WalkEnd.BLANK, WalkEnd.EMPTY)
    return records


@pytest.mark.parametrize(
    "damage",
    [(7, 95, b"\xff"), (7, 0, bytes(88)), (7, 0, b"\x00\x00\x00\x10"), (7, 4, b"\xff" * 4)],
    ids=["body", "head", "size", "magic"],
)
def test_a_damaged_record_is_wrapped_and_everything_else_stays(damage):
    disk, clock, offsets = damaged_store(damage)
    start, end = offsets[7], offsets[8]
    before = disk.content(LOG + "0".zfill(20))[start:end]
    assert not is_sound(disk)
    plan = fix(disk, clock)
    assert [(one.start, one.end) for one in plan.damages] == [(start, end)]
    assert is_sound(disk)
    assert copies(disk)[f"{start:020d}.0"] == before.rstrip(b"\0")
    wrapping = next(record for record in walk(disk) if record.physical_offset == start)
    assert wrapping.topic == DAMAGED_TOPIC
    assert wrapping.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    assert wrapping.body == before[88 : 88 + len(wrapping.body)]
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.refusal is None
    found = read_all(store)
    assert [record.body for record in found] == BODIES[:7] + BODIES[8:]
    assert [record.queue_offset for record in found] == [n for n in range(300) if n != 7]
    put(store, b"after")
    assert read_all(store, offset=300)[0].body == b"after"
    assert DAMAGED_TOPIC not in store.topics()


def test_it_was_read_only_before():
    disk, clock, offsets = damaged_store((296, 95, b"\xff"))
    disk.unlink("/store/checkpoint.cometmq")
    store = open_store(disk=disk, clock=clock)
    assert "cometmq store repair" in str(store.refusal)
    assert f"(physical offset {offsets[296]})" in str(store.refusal)
    store.close()
    fix(disk, clock)
    assert open_store(disk=disk.kill(), clock=clock).refusal is None


def test_several_damages_and_one_up_to_the_end_of_a_file():
    disk, clock, offsets = damaged_store()
    last = max(n for n, offset in enumerate(offsets) if offset < SIZE)
    disk, clock, offsets = damaged_store(
        (3, 95, b"\xff"),
        (5, 0, bytes(500)),
        (last, 95, b"\xff"),
        (last + 1, 2, b"\xff"),
        (299, 95, b"\xff"),
    )
    plan = fix(disk, clock)
    assert len(plan.damages) == 3
    assert plan.damages[2].end == offsets[last + 2]
    assert plan.tail > 0
    assert is_sound(disk)
    store = open_store(disk=disk.kill(), clock=clock)
    lost = {3, 5, 6, last, last + 1, 299}
    lost |= {n for n in range(300) if offsets[5] <= offsets[n] < plan.damages[1].end}
    kept = [body for n, body in enumerate(BODIES) if n not in lost]
    assert [record.body for record in read_all(store)] == kept


def test_cutting_ends_the_log_at_the_first_damage():
    disk, clock, offsets = damaged_store((7, 95, b"\xff"), (200, 95, b"\xff"))
    files = disk.list_names("/store/commitlog")
    before = b"".join(disk.content(LOG + name) for name in files)
    plan = fix(disk, clock, is_cut=True)
    assert (plan.is_cut, plan.log_end) == (True, offsets[7])
    assert is_sound(disk)
    kept = copies(disk)
    for name in files:
        start = max(int(name), offsets[7])
        part = before[start : int(name) + SIZE].rstrip(b"\0")
        assert kept.get(f"{start:020d}.0", b"") == part
    store = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(store) == BODIES[:7]
    put(store, b"after")
    assert bodies_of(store) == [*BODIES[:7], b"after"]


def test_saying_what_would_be_done_changes_nothing():
    disk, _, offsets = damaged_store((7, 95, b"\xff"))
    before = {name: bytes(inode.content) for name, inode in disk.names.items()}
    found = find_store("/store", None, disk)
    plan = plan_repair(found)
    found.close()
    assert [one.start for one in plan.damages] == [offsets[7]]
    assert {name: bytes(inode.content) for name, inode in disk.names.items()} == before


def test_a_sound_store_is_as_it_was():
    disk, clock, _ = damaged_store()
    open_store(disk=disk, clock=clock).close()
    before = {name: disk.content(name) for name in disk.names if "/index/" not in name}
    keys = [disk.content(name) for name in disk.names if "/index/" in name]
    fix(disk, clock)
    after = {name: disk.content(name) for name in disk.names if "/index/" not in name}
    assert after == before
    assert [disk.content(name) for name in disk.names if "/index/" in name] == keys


def test_damage_too_short_for_a_record_is_left_to_be_cut():
    """A record of 91 bytes cannot be: its topic has at least one."""
    disk, clock, offsets = damaged_store()
    content = disk.names[LOG + "0".zfill(20)].content
    # A valid record begins within the last one: shorter than any record the rest of it is.
    size = offsets[8] - offsets[7]
    moved = bytearray(content[offsets[7] : offsets[8]])
    start = offsets[8] - 40
    moved[28:36] = start.to_bytes(8)
    content[offsets[7] + size - 40 : offsets[7] + 2 * size - 40] = moved
    before = {name: bytes(inode.content) for name, inode in disk.names.items()}
    found = find_store("/store", None, disk)
    plan = plan_repair(found)
    found.close()
    short = [one for one in plan.damages if one.end - one.start < 92]
    assert short
    with pytest.raises(StoreDamaged, match="too few to be wrapped"):
        fix(disk, clock)
    logs = {name: bytes(i.content) for name, i in disk.names.items() if name.startswith(LOG)}
    assert logs.keys() == {name for name in before if name.startswith(LOG)}
    fix(disk.kill(), clock, is_cut=True)


def test_a_store_that_is_open_is_not_repaired(tmp_path):
    store = open_store(tmp_path)
    put(store, b"x")
    with pytest.raises(StoreLocked):
        repair(str(tmp_path), None, clock=HandClock(), disk=RealDisk())
    store.close()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_sizes_and_crc_show_all_other_messages_are_there(seed):
    """Queue offset, topic and properties no CRC covers: who changes these alone is not noticed."""
    chance = random.Random(seed)
    numbers = sorted(chance.sample(range(300), 6))
    damages = [
        (n, chance.choice((0, 4, 28, 84, 90, 150)), chance.randbytes(chance.randrange(4, 40)))
        for n in numbers
    ]
    disk, clock, offsets = damaged_store(*damages)
    plan = fix(disk, clock)
    assert is_sound(disk)
    store = open_store(disk=disk.kill(), clock=clock)
    found = {record.queue_offset: record.body for record in read_all(store)}
    assert found == {n: body for n, body in enumerate(BODIES) if n not in numbers}
    assert {one.start for one in plan.damages} <= {offsets[n] for n in numbers}


def test_a_log_in_two_directories_is_found_by_its_settings():
    settings = replace(SMALL, commitlog_paths=("/disk1/log", "/disk2/log"))
    store, disk, clock = store_with(settings=settings)
    put(store, *BODIES)
    store.close()
    assert len(disk.list_names("/disk1/log")) > 1
    disk = disk.kill()
    name = max(disk.list_names("/disk2/log"))
    content = disk.names[f"/disk2/log/{name}"].content
    content[decode_record(content).store_size + 88] ^= 1  # The body of its second record.
    with pytest.raises(StoreDamaged, match="is not a store"):
        find_store("/store", None, disk)
    plan = repair("/store", settings, clock=clock, disk=disk)
    assert [one.path for one in plan.damages] == [f"/disk2/log/{name}"]
    found = find_store("/store", settings, disk)
    assert verify(found).is_sound
    found.close()
    store = open_store(settings=settings, disk=disk.kill(), clock=clock)
    assert len(read_all(store)) == len(BODIES) - 1


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "unlink", "rename"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 6, 9])
def test_a_repair_that_is_broken_off_is_taken_up_by_the_next(call, nth):
    disk, clock, _ = damaged_store((7, 95, b"\xff"), (200, 95, b"\xff"))
    disk.fail(call, nth=nth)
    with suppress(OSError, StoreDamaged):
        fix(disk, clock)
    disk.heal()
    disk = disk.kill()
    fix(disk, clock)
    assert is_sound(disk)
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.refusal is None
    found = {record.queue_offset: record.body for record in read_all(store)}
    assert found == {n: body for n, body in enumerate(BODIES) if n not in (7, 200)}
    kept = [content for name, content in copies(disk).items() if not name.endswith(".tmp")]
    assert len(kept) >= 2
