"""Recovery of long records and queues, of gaps, and of queues whose offsets cannot be or went back."""

import random
from dataclasses import replace

import pytest

from cometmq.store.message_store import MessageStore
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


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_records_longer_than_what_is_read_at_once_are_walked(has_checkpoint):
    settings = replace(SMALL, commitlog_file_size=6 << 20)
    store, disk, clock = store_with(settings=settings)
    bodies = [bytes([n]) * (700_000 if n % 3 else 2_500_000) for n in range(9)]
    put(store, *bodies[:2])
    if has_checkpoint:
        settle(store, clock)
    for body in bodies[2:]:
        put(store, body)
    end = store.max_offset
    put(store, b"torn" * 300_000)
    disk = disk.kill()
    last = disk.names[max(name for name in disk.names if name.startswith(LOG))].content
    last[end % (6 << 20) + 1_000_000 :] = bytes(len(last) - end % (6 << 20) - 1_000_000)
    store = open_store(settings=settings, disk=disk, clock=clock)
    assert store.refusal is None
    assert store.max_offset == end
    assert bodies_of(store) == bodies


@pytest.mark.parametrize("count", [204, 205, 700, 1000, 1001, 2300])
@pytest.mark.parametrize("is_clean", [True, False])
def test_long_queues_end_where_they_ended(count, is_clean):
    settings = replace(SMALL, commitlog_file_size=1 << 20, queue_file_size=20_000)
    store, disk, clock = store_with(settings=settings)
    bodies = [b"%d" % n for n in range(count)]
    put(store, *bodies)
    settle(store, clock)
    put(store, b"last")
    if is_clean:
        store.close()
    store = open_store(settings=settings, disk=disk.kill(), clock=clock)
    assert bodies_of(store) == [*bodies, b"last"]


def test_messages_that_are_missing_in_the_log_leave_a_gap_that_readers_pass():
    store, disk, clock = store_with(b"0", b"1")
    queue = store.queue_for_append("orders", 0)
    queue.next_offset = 5
    store.put_many([make_put(store, body=b"5"), make_put(store, body=b"6")])
    store = open_store(disk=disk.kill(), clock=clock)
    queue = store.queue_for_append("orders", 0)
    assert (queue.min_offset, queue.max_offset) == (0, 7)
    assert [record.body for record in read_all(store)] == [b"0", b"1", b"5", b"6"]
    assert store.get("orders", 0, 3).next_offset == 7


@pytest.mark.parametrize("wrong", [1, 7, 39, 50, 60, 700])
def test_one_queue_offset_that_was_damaged_hides_no_other_message(wrong):
    """No CRC covers it; the message has the place that the others leave empty."""
    store, disk, clock = store_with(*[b"%02d" % n for n in range(60)])
    disk = disk.kill()
    size = 88 + 2 + 1 + 6 + 2 + 4
    content = disk.names[LOG + "0".zfill(20)].content
    at = 40 * size
    assert content[at + 20 : at + 28] == (40).to_bytes(8)
    content[at + 20 : at + 28] = wrong.to_bytes(8)
    for _ in range(2):
        store = open_store(disk=disk, clock=clock)
        queue = store.queue_for_append("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (0, 60)
        found = [record.body for record in read_all(store)]
        every = [b"%02d" % n for n in range(60)]
        assert found in (every, every[:40] + every[41:])
        store.close()
        disk = disk.kill()


@pytest.mark.parametrize("gap", [1, 250])
def test_a_gap_hides_no_message_before_it_at_the_next_start(gap):
    """The first living entry is found by bisection; a gap must not look like a deleted message."""
    store, disk, clock = store_with(*[b"%d" % n for n in range(100)])
    queue = store.queue_for_append("orders", 0)
    queue.next_offset = 100 + gap
    clock.turn(5)
    store.put_many([make_put(store, body=b"%d" % n) for n in range(100 + gap, 140 + gap)])
    behind = clock.now_ms()
    bodies = [b"%d" % n for n in [*range(100), *range(100 + gap, 140 + gap)]]
    for _ in range(3):
        store = open_store(disk=disk.kill(), clock=clock)
        assert [record.body for record in read_all(store)] == bodies
        queue = store.queue_for_append("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (0, 140 + gap)
        assert store.offset_by_time(queue, behind) == 100
        store.close()


@pytest.mark.parametrize("offset", [-1, 5_000_000])
def test_a_queue_offset_that_cannot_be_is_not_believed(offset):
    store, disk, clock = store_with(b"0", b"1")
    queue = store.queue_for_append("orders", 0)
    queue.next_offset = offset
    store.put_many([make_put(store, body=b"wrong")])
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.refusal is None
    assert bodies_of(store) == [b"0", b"1"]


@pytest.mark.parametrize("kept", [3, 23])
def test_a_queue_that_went_back_is_cut_in_files_and_tail(kept):
    """As when a topic was deleted and made again, and the broker killed."""
    store, disk, clock = store_with(*[b"old %d" % n for n in range(40)])
    settle(store, clock)
    put(store, *[b"old %d" % n for n in range(40, 50)])
    store.queue_for_append("orders", 0).next_offset = kept
    store.put_many([make_put(store, body=b"new"), make_put(store, body=b"newer")])
    disk = disk.kill()
    for _ in range(2):
        store = open_store(disk=disk, clock=clock)
        assert bodies_of(store) == [*[b"old %d" % n for n in range(kept)], b"new", b"newer"]
        store.close()
        disk = disk.kill()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_queue_file_missing_between_two_is_built_again(is_clean):
    bodies = [b"%d" % n for n in range(70)]
    store, disk, clock = store_with(*bodies)
    settle(store, clock)
    if is_clean:
        store.close()
    disk = disk.kill()
    disk.unlink("/store/consumequeue/orders/0/" + "400".zfill(20))
    store = open_store(disk=disk, clock=clock)
    assert bodies_of(store) == bodies
    store.close()


@pytest.mark.parametrize("place", [0, 400, 1200])
@pytest.mark.parametrize("change", [-20, 20, 400])
def test_a_queue_file_of_another_size_is_put_aside_and_built_again(caplog, place, change):
    bodies = [b"%d" % n for n in range(70)]
    store, disk, _ = store_with(*bodies)
    store.close()
    disk = disk.kill()
    path = f"/store/consumequeue/orders/0/{place:020d}"
    disk.resize(disk.open(path), 400 + change)
    assert bodies_of(open_store(disk=disk)) == bodies
    assert f"{path} has {400 + change} bytes" in caplog.text
    assert f"/store/damaged/consumequeue_orders_0_{place:020d}" in disk.names


def test_a_checkpoint_brings_the_names_of_files_that_a_killed_broker_made_to_the_device():
    store, disk, clock = store_with(b"a", b"b")
    write_tails(store, clock)  # To a new file; no checkpoint is made of it.
    assert "/store/consumequeue/orders/0/00000000000000000000" in disk.names
    disk = disk.kill()
    store = open_store(disk=disk, clock=clock)
    put(store, b"c", queue_id=1)
    store.close()
    store = open_store(disk=disk, clock=clock)
    put(store, *[b"d"] * 5, queue_id=1)  # More than the other queue may lose unnoticed.
    write_tails(store, clock)
    store = open_store(disk=disk.power_cut(EveryPage()), clock=clock)
    assert bodies_of(store) == [b"a", b"b"]
    assert bodies_of(store, queue_id=1) == [b"c", *[b"d"] * 5]
    store.close()


class EveryPage(random.Random):
    """Chance by which every page that was written made it to the device."""

    def random(self) -> float:
        return 0.0


def write_tails(store: MessageStore, clock: HandClock) -> None:
    for _ in range(9):
        clock.turn(11)
        store.tick()
