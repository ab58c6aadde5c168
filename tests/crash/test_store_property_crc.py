"""Records with a CRC of their whole: written where it is wanted, and believed where it is checked."""

from dataclasses import replace

import pytest

from cometmq.codec.property_crc import is_crc_right
from cometmq.kernel import walk_records
from cometmq.offline.found import find_store
from cometmq.offline.repair import repair
from cometmq.offline.verify import verify
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    make_put,
    open_store,
    read_all,
    settle,
    store_with,
)

WRITTEN = replace(SMALL, is_whole_crc_written=True)
CHECKED = replace(WRITTEN, is_whole_crc_checked=True)
COUNT = 200
LOST = 170  # In the newest file: a start walks over it.
PROPERTY_AT = -25  # Before the CRC: a byte that no other check covers.


def filled(settings: StoreSettings, *, batch: int = 7) -> tuple[FakeDisk, HandClock]:
    """A store of many messages over several files, killed."""
    store, disk, clock = store_with(settings=settings)
    for first in range(0, COUNT, batch):
        numbers = range(first, min(first + batch, COUNT))
        store.put_many([make_put(store, body=b"%03d" % n * 40, tag="t") for n in numbers])
        store.dispatch_pending()
        clock.turn(1)
    settle(store, clock)
    return disk.kill(), clock


def records_of(disk: FakeDisk) -> list[tuple[str, int, int]]:
    """(file, place, size) of every record."""
    found = []
    for name in disk.list_names("/store/commitlog"):
        path = f"/store/commitlog/{name}"
        content = disk.content(path)
        found += [(path, at, size) for at, size, _ in walk_records(content, 0, len(content))[0]]
    return found


@pytest.mark.parametrize("pool_buffers", [0, 2])
def test_every_record_has_one_that_fits_and_reads_as_without(pool_buffers: int):
    disk, clock = filled(replace(WRITTEN, pool_buffers=pool_buffers))
    records = records_of(disk)
    assert len(records) == COUNT
    assert all(is_crc_right(disk.content(path), at, size) for path, at, size in records)
    plain, _ = filled(SMALL)
    assert not any(
        is_crc_right(plain.content(path), at, size) for path, at, size in records_of(plain)
    )
    store = open_store(disk=disk, clock=clock, settings=CHECKED)
    assert bodies_of(store) == [b"%03d" % n * 40 for n in range(COUNT)]
    assert store.get("orders", 0, 0, match=frozenset([ord("t")])).message_count


def test_a_changed_property_is_damage_where_it_is_checked_and_repair_wraps_it():
    disk, clock = filled(CHECKED)
    path, at, size = records_of(disk)[LOST]
    disk.names[path].content[at + size + PROPERTY_AT] ^= 1
    disk.unlink("/store/checkpoint.cometmq")  # Java's says less: from the newest file on.
    lenient = open_store(disk=disk.kill(), clock=clock, settings=WRITTEN)
    assert lenient.refusal is None
    store = open_store(disk=disk, clock=clock, settings=CHECKED)
    assert f"{path} is damaged at byte {at}" in str(store.refusal)
    store.close()
    found = find_store("/store", CHECKED, disk)
    verdict = verify(found)
    found.close()
    assert [finding.part for finding in verdict.findings][:1] == ["log"]
    plan = repair("/store", CHECKED, clock=clock, disk=disk)
    assert [(damage.at, damage.end - damage.start) for damage in plan.damages] == [(at, size)]
    store = open_store(disk=disk, clock=clock, settings=CHECKED)
    assert store.refusal is None
    assert [record.queue_offset for record in read_all(store)] == [
        number for number in range(COUNT) if number != LOST
    ]


def test_records_without_one_stay_valid_where_it_is_checked():
    disk, clock = filled(SMALL)
    store = open_store(disk=disk, clock=clock, settings=CHECKED)
    assert store.refusal is None
    store.put_many([make_put(store, body=b"with")])
    settle(store, clock)
    again = open_store(disk=disk.kill(), clock=clock, settings=CHECKED)
    assert len(bodies_of(again)) == COUNT + 1
