"""The front door: open, close, visibility, deletion, files ahead, what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.queue_entry import BLANK_ENTRY, QUEUE_ENTRY
from cometmq.model.errors import StoreClosed, StoreDamaged, StoreLocked, StoreReadOnly
from cometmq.store.derived import Derived, FeedPut
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.positions import Durability
from cometmq.store.queue_files import OPEN_FILES_MAX
from cometmq.store.running_flags import RunningFlag, RunningFlags
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    queue_of,
    run_jobs,
    store_with,
    writing,
)

SYNC = replace(SMALL, flush_sync=True)


def test_what_was_put_is_there_after_a_clean_stop(tmp_path: Path):
    store = open_store(tmp_path)
    bodies = [b"%d" % n * 100 for n in range(200)]
    put(store, *bodies)
    store.close()
    store.close()
    assert not (tmp_path / "abort").exists()
    store = open_store(tmp_path)
    assert (tmp_path / "abort").exists()
    assert bodies_of(store) == bodies
    put(store, b"more")
    assert bodies_of(store)[-1] == b"more"
    store.close()


def test_a_clean_stop_leaves_no_spare_file_and_a_start_makes_none(tmp_path: Path):
    store = open_store(tmp_path)
    put(store, b"x" * 9000)
    run_jobs(store)
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    store.close()
    assert len(list((tmp_path / "commitlog").iterdir())) == 1


def test_log_files_are_really_allocated(tmp_path: Path):
    store = open_store(tmp_path, replace(SMALL, commitlog_file_size=1 << 20))
    put(store, b"x")
    state = (tmp_path / "commitlog" / "0".zfill(20)).stat()
    assert state.st_size == 1 << 20
    assert state.st_blocks * 512 >= 1 << 20
    store.close()


def test_queue_files_are_sparse_and_of_whole_size(tmp_path: Path):
    store = open_store(tmp_path, replace(SMALL, queue_file_size=6_000_001))
    put(store, b"x")
    store.close()
    state = (tmp_path / "consumequeue/orders/0" / "0".zfill(20)).stat()
    assert state.st_size == 6_000_020  # Whole entries, as MessageStoreConfig rounds it up.
    assert state.st_blocks * 512 < 100_000


def test_a_directory_opens_once(tmp_path: Path):
    store = open_store(tmp_path)
    with pytest.raises(StoreLocked):
        open_store(tmp_path)
    put(store, b"still")
    assert bodies_of(open_store(tmp_path, read_only=True)) == [b"still"]
    store.close()
    open_store(tmp_path).close()


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (replace(SMALL, commitlog_file_size=32_768), "mappedFileSizeCommitLog"),
        (replace(SMALL, queue_file_size=800), "mappedFileSizeConsumeQueue"),
    ],
)
def test_files_of_another_size_name_the_setting_and_leave_the_store_alone(
    tmp_path: Path, settings, setting
):
    with writing(tmp_path) as store:
        put(store, b"x")
        put(store, b"y", topic="payments")
    with pytest.raises(StoreDamaged, match=f"00000000000000000000 .*ha(s|ve) .* {setting}"):
        open_store(tmp_path, settings)
    assert bodies_of(open_store(tmp_path)) == [b"x"]


def test_a_missing_log_file_is_named(tmp_path: Path):
    with writing(tmp_path) as store:
        put(store, *[b"x" * 7000] * 6)
    (tmp_path / "commitlog" / "16384".zfill(20)).unlink()
    with pytest.raises(StoreDamaged, match="00000000000000016384 should be before"):
        open_store(tmp_path)


def test_an_empty_last_log_file_is_removed(tmp_path: Path):
    with writing(tmp_path) as store:
        put(store, b"x")
    (tmp_path / "commitlog" / "16384".zfill(20)).touch()
    store = open_store(tmp_path)
    put(store, *[b"y" * 7000] * 3)
    assert len(bodies_of(store)) == 4
    store.close()


def test_a_closed_store_and_a_readonly_one_say_so(tmp_path: Path):
    store = open_store(tmp_path)
    store.close()
    with pytest.raises(StoreClosed, match="closed"):
        store.put_many([make_put(store)])
    told: list[Durability] = []
    store.wait_flushed(1, told.append)
    assert told == [Durability.DISK_LATE]
    store = open_store(tmp_path, read_only=True)
    with pytest.raises(StoreReadOnly, match="reading only"):
        store.put_many([make_put(store)])


def test_with_asynchronous_flush_messages_are_visible_once_dispatched(store):
    store.put_many([make_put(store)])
    queue = queue_of(store)
    assert (queue.max_offset, queue.next_offset) == (0, 1)
    store.dispatch_pending()
    assert (queue.max_offset, store.dispatched_offset) == (1, store.max_offset)


@pytest.mark.parametrize(("settings", "begun"), [(SYNC, 1), (SMALL, 0)])
def test_only_where_each_batch_is_flushed_is_it_sent_to_the_device_at_once(settings, begun):
    store, disk, _ = store_with(b"x", settings=settings)
    told: list[Durability] = []
    store.wait_flushed(store.max_offset, told.append)  # With asynchronous flush some do, too.
    flush(store)
    assert told == [Durability.OK]
    put(store, b"y")
    assert disk.calls["begin_writing"] == begun


def test_with_synchronous_flush_they_are_visible_when_flushed():
    store, _, _ = store_with(b"x", settings=SYNC)
    queue = queue_of(store)
    assert queue.max_offset == 0
    flush(store)
    assert queue.max_offset == 1
    assert bodies_of(store) == [b"x"]


def test_watched_queues_are_told_once_a_batch_with_their_tags(store):
    told = []
    store.on_arrival = lambda queue, codes: told.append(
        (queue.queue_id, codes, queue.max_offset)
    )
    for queue_id in (0, 2):
        store.queue_for_append("orders", queue_id).watched = True
    puts = [make_put(store, queue_id=n % 3, tag=tag) for n, tag in enumerate("abcabc")]
    store.put_many(puts)
    assert told == []
    store.dispatch_pending()
    assert told == [(0, [97, 97], 2), (2, [99, 99], 2)]
    store.dispatch_pending()
    assert len(told) == 2


def test_the_index_has_its_place_in_dispatch(store):
    built = []

    class Built(Derived):
        @property
        def feed_put(self) -> FeedPut:
            return lambda batch: built.append(len(batch.arrivals))

    dispatcher = LogDispatcher(store.positions, [Built()])
    dispatcher.waiting = store._dispatcher.waiting
    for bodies in (b"1", b"2"), (b"3",):
        store.put_many([make_put(store, body=body) for body in bodies])
        dispatcher.dispatch()
    assert built == [2, 1]
    assert store.positions.dispatched == store.positions.written


def test_a_deleted_topic_is_gone_and_begins_again_at_zero(tmp_path: Path, clock):
    store = open_store(tmp_path, clock=clock)
    put(store, *[b"old"] * 30)
    put(store, b"other", topic="payments")
    clock.turn(2)
    run_jobs(store)
    put(store, b"old")
    queue = queue_of(store)
    store.delete_topic("orders")
    assert queue.deleted
    assert store.queue("orders", 0) is None
    assert store.topics() == ["payments"]
    assert not (tmp_path / "consumequeue" / "orders").exists()
    put(store, b"new")
    assert bodies_of(store) == [b"new"]
    clock.turn(20)
    run_jobs(store)
    store.close()
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"new"]
    assert bodies_of(store, "payments") == [b"other"]
    store.delete_topic("never there")
    store.close()


def test_a_deleted_topic_does_not_make_the_rest_look_lost(caplog):
    store, disk, clock = store_with()
    put(store, *[b"old"] * 30)
    put(store, b"other", topic="payments")
    for _ in range(2):
        clock.turn(11)
        run_jobs(store)
    put(store, b"after", topic="payments")
    store.delete_topic("orders")
    store = open_store(disk=disk.kill(), clock=clock)
    assert store.topics() == ["payments"]
    assert bodies_of(store, "payments") == [b"other", b"after"]
    assert "is rebuilt" not in caplog.text


def test_more_queues_than_descriptors(tmp_path: Path, clock):
    store = open_store(tmp_path, clock=clock)
    count = OPEN_FILES_MAX + 50
    for round_number in range(2):
        store.put_many(
            [make_put(store, queue_id=n, body=b"%d" % round_number) for n in range(count)]
        )
        store.dispatch_pending()
        clock.turn(60)
        run_jobs(store, ticks=20)
    assert len(store._queues.files._open) <= OPEN_FILES_MAX
    assert all(queue.tail_start == 2 for queue in store.queues_of("orders"))
    for n in range(count):
        assert bodies_of(store, queue_id=n) == [b"0", b"1"]
    store.close()


def test_eighty_thousand_queues_cost_nothing_while_nothing_happens():
    store, disk, clock = store_with()
    for n in range(80_000):
        store.queue_for_append("orders", n)
    calls = disk.calls.copy()
    clock.turn(5)
    run_jobs(store)
    assert disk.calls.keys() - calls.keys() <= {"allocate"}
    assert disk.calls["open"] <= calls["open"] + 1  # The log's first file, made ahead.


def test_a_tail_of_a_page_is_written_without_waiting():
    store, disk, _ = store_with(settings=replace(SMALL, queue_file_size=8000))
    put(store, *[b""] * 204)
    assert not disk.exists("/store/consumequeue/orders/0")
    put(store, b"")
    path = "/store/consumequeue/orders/0/00000000000000000000"
    assert len([1 for entry in QUEUE_ENTRY.iter_unpack(disk.content(path)) if entry[1]]) == 205


def test_a_round_over_many_tails_is_spread_over_ticks():
    store, _, clock = store_with()
    store.put_many([make_put(store, queue_id=n) for n in range(1000)])
    store.dispatch_pending()
    clock.turn(2)
    store.tick()
    left = len(store._queues.dirty)
    assert 900 < left < 1000
    assert store.checkpoint_due() is None
    for _ in range(20):
        store.tick()
    assert not store._queues.dirty
    assert store.checkpoint_due() is not None


def test_a_queue_that_begins_in_the_middle_of_a_file_is_filled_as_java_fills_it():
    store, disk, clock = store_with()
    queue = store.queue_for_append("orders", 0)
    queue.begin_at(27)
    put(store, b"first")
    store.close()
    content = disk.content("/store/consumequeue/orders/0/00000000000000000400")
    assert content[: 7 * 20] == BLANK_ENTRY * 7
    store = open_store(disk=disk.kill(), clock=clock)
    queue = store.queue_for_append("orders", 0)
    assert (queue.min_offset, queue.max_offset) == (27, 28)
    assert bodies_of(store) == [b"first"]


def test_the_next_file_is_made_ahead_and_taken(disk):
    store = open_store(disk=disk)
    plan = store.file_ahead_needed()
    assert plan is not None
    assert plan.start == 0
    assert store.file_ahead_needed() is None
    store.adopt(plan, store.make_file(plan))
    made = disk.calls["allocate"]
    put(store, b"x" * 7000)
    assert disk.calls["allocate"] == made == 1
    assert store.file_ahead_needed() is None
    put(store, b"x" * 7000)
    plan = store.file_ahead_needed()
    assert plan is not None
    put(store, b"x" * 7000)  # Faster than the thread: made here.
    assert disk.calls["allocate"] == 2
    store.adopt(plan, store.make_file(plan))
    assert disk.calls["allocate"] == 2
    assert len(bodies_of(store)) == 3


def test_the_log_may_stand_elsewhere(tmp_path: Path):
    settings = replace(SMALL, commitlog_paths=(str(tmp_path / "elsewhere" / "log"),))
    with writing(tmp_path / "root", settings) as store:
        put(store, b"x")
    assert not (tmp_path / "root" / "commitlog").exists()
    assert bodies_of(open_store(tmp_path / "root", settings, read_only=True)) == [b"x"]


def test_what_is_no_store_cannot_be_read_and_is_not_made_one(tmp_path: Path):
    with pytest.raises(StoreDamaged, match="is not a store"):
        open_store(tmp_path / "typo", read_only=True)
    assert not (tmp_path / "typo").exists()


def test_bits_are_those_of_rocketmq():
    assert [flag.value for flag in RunningFlag] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(
    "flag", [flag for flag in RunningFlag if flag != RunningFlag.NOT_READABLE]
)
def test_every_flag_but_the_first_refuses(flag):
    flags = RunningFlags()
    flags.raise_flag(flag, "why")
    assert (flags.refusal, flags.bits) == ("why", flag)
    assert flags.clear(flag)
    assert not flags.clear(flag)
    assert (flags.refusal, flags.bits) == (None, 0)


def test_not_readable_alone_does_not_stop_writing():
    flags = RunningFlags()
    flags.raise_flag(RunningFlag.NOT_READABLE, "why")
    assert flags.refusal is None
    assert flags.bits == 1


def test_all_reasons_are_named_and_the_newest_words_of_each():
    flags = RunningFlags()
    flags.raise_flag(RunningFlag.DISK_FULL, "91 %")
    flags.raise_flag(RunningFlag.NOT_WRITABLE, "a flush failed")
    flags.raise_flag(RunningFlag.DISK_FULL, "95 %")
    assert flags.refusal == "95 %; a flush failed"
    assert flags.bits == 18
