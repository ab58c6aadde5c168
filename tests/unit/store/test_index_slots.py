"""Slots that are newer than what counts are led back, or built again from the entries."""

from __future__ import annotations

import random

import pytest

from cometmq.codec.index_file import INDEX_ENTRY_SIZE, IndexHeader, entry_position
from cometmq.kernel.keys import keys_of
from cometmq.store import index_slots
from cometmq.store.disk import write_whole
from cometmq.store.index_file import IndexFile, IndexShape
from cometmq.store.index_slots import entry_reader, mend_slots, read_slots, rebuild_slots
from tests.support.fake_disk import FakeDisk

SHAPE = IndexShape(slots=700, entries=2000)
PATH = "/index/20260101000000000"
COUNT = 1500


@pytest.fixture
def disk() -> FakeDisk:
    """A disk with an index file of 1,499 entries, all of it written."""
    disk = FakeDisk()
    disk.make_directory("/index")
    file = IndexFile(disk, PATH, SHAPE, header=IndexHeader())
    file.make()
    chance = random.Random(1)
    hashes = [chance.getrandbits(31) - (1 << 30) for _ in range(COUNT - 1)]
    file.insert(keys_of(hashes, range(COUNT - 1), [1000] * (COUNT - 1)))
    file.write_entries()
    fd = disk.open(PATH)
    for position, content in file.changed_runs():
        write_whole(disk, fd, content, position)
    disk.close(fd)
    file.close()
    return disk


@pytest.mark.parametrize("piece_size", [400, 1 << 20])
@pytest.mark.parametrize("count", [1, 2, 700, 1499, COUNT])
def test_newer_slots_are_led_back_to_what_the_entries_make(
    disk, monkeypatch, count, piece_size
):
    monkeypatch.setattr(index_slots, "_PIECE_SIZE", piece_size)
    monkeypatch.setattr(index_slots, "_SLOTS_A_PIECE", piece_size // 4)
    with entry_reader(disk, PATH, SHAPE) as reader:
        mended, built = mend_slots(reader, SHAPE, count), rebuild_slots(reader, SHAPE, count)
    assert list(mended.table) == list(built.table)
    assert mended.used == built.used == sum(slot > 0 for slot in built.table)
    assert mended.are_mended == (count < COUNT)


@pytest.mark.parametrize("torn", [range(900, 1499), range(900, 1499, 7), [1498]])
def test_a_chain_that_was_torn_has_the_slots_built_again(disk, torn):
    fd = disk.open(PATH)
    for number in torn:
        write_whole(disk, fd, bytes(INDEX_ENTRY_SIZE), entry_position(number, SHAPE.slots))
    disk.close(fd)
    with entry_reader(disk, PATH, SHAPE) as reader:
        mended, built = mend_slots(reader, SHAPE, 900), rebuild_slots(reader, SHAPE, 900)
    assert list(mended.table) == list(built.table)


@pytest.mark.parametrize("nonsense", [-5, 1999, 2_000_000_000])
def test_a_slot_that_points_nowhere_has_them_built_again(disk, nonsense):
    fd = disk.open(PATH)
    write_whole(disk, fd, nonsense.to_bytes(4, signed=True), 40)
    disk.close(fd)
    with entry_reader(disk, PATH, SHAPE) as reader:
        assert read_slots(reader, SHAPE)[0] == nonsense
        mended, built = mend_slots(reader, SHAPE, COUNT), rebuild_slots(reader, SHAPE, COUNT)
    assert list(mended.table) == list(built.table)
