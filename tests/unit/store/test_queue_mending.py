"""Damaged queue entries, kind by kind: each message is read, the file is right again, it is said once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cometmq.codec.queue_entry import BLANK_SIZE, QUEUE_ENTRY
from cometmq.codec.record import decode_records
from cometmq.kernel import count_records, reference
from cometmq.model.java_hash import java_hash
from cometmq.store.reader import GetStatus
from tests.support.store_puts import SMALL, make_put, open_store, settle, store_with

COUNT = 100
ROOMY = replace(SMALL, queue_file_size=60 * 20)
PATH = "/store/consumequeue/orders/0/{:020d}"


def store_of_two_queues():
    """A store with messages of two queues by turns, and where the first's entries lie."""
    store, disk, clock = store_with(settings=ROOMY)
    for number in range(COUNT):
        body = b"%d" % number * random.Random(number).randrange(1, 40)
        store.put_many([make_put(store, body=body, tag=f"t{number % 3}")])
        store.put_many([make_put(store, queue_id=1, body=body)])
    settle(store, clock)
    return store, disk


def file_of(disk, offset):
    per_file = ROOMY.queue_entries_per_file
    return disk.names[
        PATH.format(offset // per_file * per_file * 20)
    ].content, offset % per_file * 20


def entry_at(disk, offset):
    content, at = file_of(disk, offset)
    return QUEUE_ENTRY.unpack_from(content, at)


def damage(disk, offset, entry):
    content, at = file_of(disk, offset)
    content[at : at + 20] = entry


def read_all(store, match=None):
    offset, found = 0, []
    while offset < COUNT:
        result = store.get("orders", 0, offset, match=match)
        if result.cold is not None:
            result = result.cold()
        assert result.next_offset > offset
        offset = result.next_offset
        found += [record.queue_offset for record in decode_records(b"".join(result.records))]
    return found


def wrong_entries(entry):
    """What a flipped bit, a lost sector or a wild write may make of an entry."""
    place, size, code = entry
    pack = QUEUE_ENTRY.pack
    return {
        "beyond the log": pack(place + (1 << 40), size, code),
        "just beyond": pack(place + (1 << 20), size, code),
        "64 MiB": pack(place, 64 << 20, code),
        "too long": pack(place, size + 1, code),
        "too short": pack(place, size - 1, code),
        "3 bytes": pack(place, 3, code),
        "no bytes": pack(place, 0, code),
        "a negative size": pack(place, -size, code),
        "a negative place": pack(-place - 1, size, code),
        "inside a record": pack(place + 4, size, code),
        "zeros": bytes(20),
        "ones": b"\xff" * 20,
    }


@pytest.mark.parametrize("kind", wrong_entries((0, 100, 0)))
@pytest.mark.parametrize("count", [1, 7])
def test_each_message_is_read_and_the_file_is_right_again(caplog, kind, count):
    store, disk = store_of_two_queues()
    places = range(55, 55 + count)  # Over the border of two files.
    before = {offset: entry_at(disk, offset) for offset in places}
    for offset in places:
        damage(disk, offset, wrong_entries(before[offset])[kind])
    assert read_all(store) == [*range(COUNT)]
    assert {offset: entry_at(disk, offset) for offset in places} == before
    said = [record for record in caplog.records if "pointed to no record" in record.message]
    assert 1 <= len(said) <= 2
    caplog.clear()
    assert read_all(store, frozenset([java_hash("t1")])) == [*range(1, COUNT, 3)]
    assert not caplog.records


def test_random_flips_hide_no_message():
    store, disk = store_of_two_queues()
    chance = random.Random(7)
    for _ in range(40):
        content, at = file_of(disk, chance.randrange(COUNT))
        content[at + chance.randrange(12)] ^= 1 << chance.randrange(8)
    assert read_all(store) == [*range(COUNT)]


def test_a_message_that_the_log_has_not_leaves_a_gap_that_is_said_once(caplog):
    store, disk = store_of_two_queues()
    place, size, _ = entry_at(disk, 20)
    log = disk.names["/store/commitlog/" + f"{place // 16384 * 16384:020d}"].content
    log[place % 16384 : place % 16384 + size] = bytes(size)
    assert read_all(store) == [*range(20), *range(21, COUNT)]
    assert entry_at(disk, 20)[1] == BLANK_SIZE
    assert caplog.text.count("which readers skip: 1 between") == 1
    assert read_all(store) == [*range(20), *range(21, COUNT)]
    assert caplog.text.count("which readers skip: 1 between") == 1


def test_a_read_only_store_gives_the_messages_and_touches_nothing():
    store, disk = store_of_two_queues()
    store.close()
    right = entry_at(disk, 20)
    damage(disk, 20, bytes(20))
    other = open_store(settings=ROOMY, disk=disk, read_only=True)
    assert read_all(other) == [*range(COUNT)]
    assert entry_at(disk, 20) == (0, 0, 0)
    assert right != (0, 0, 0)


def test_an_entry_is_mended_for_readers_of_single_entries():
    store, disk = store_of_two_queues()
    queue = store.queue("orders", 0)
    right = entry_at(disk, 20)
    damage(disk, 20, b"\xff" * 20)
    assert store.mended_entry(queue, 20) == right
    assert store.entries(queue, 20, 1) == [right]


def test_records_are_counted_alike_by_both_kernels():
    store, _ = store_of_two_queues()
    result = store.get("orders", 0, 0, max_count=COUNT)
    assert result.status is GetStatus.FOUND
    whole = b"".join(result.records)
    pieces = [whole, b"", whole[:-1], whole[1:], whole + whole, whole[:50], bytes(200)]
    for piece in pieces:
        expected = result.message_count if piece is whole else 0 if not piece else -1
        assert reference.count_records(piece) == count_records(piece) == expected
