"""A truncation in steps: what waits for the device is in them, and nothing else is done meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, encode_record
from cometmq.model.errors import (
    RecordIllegal,
    StoreBusy,
    StoreError,
    StorePoisoned,
    StoreReadOnly,
)
from cometmq.model.flags import INNER_BATCH
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.derived import Step
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability
from cometmq.store.reader import GetStatus
from cometmq.store.settings import IndexSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    HOST_V4,
    NEVER,
    SMALL,
    bodies_of,
    clean,
    flush,
    make_put,
    open_store,
    put,
    queue_of,
    read_all,
    run_jobs,
    settle,
    store_with,
)

QUEUES = 40
SETTINGS = replace(SMALL, index=IndexSettings(slots=10, entries=20))


def keyed(store: MessageStore, number: int) -> None:
    block = encode_properties({"KEYS": f"k{number}"})
    body = b"%d" % number * 50
    store.put_many([make_put(store, "orders", number % QUEUES, body, property_block=block)])
    store.dispatch_pending()


def filled(count: int = 200) -> tuple[MessageStore, FakeDisk, HandClock, list[int]]:
    """A store of several log, queue and index files, and where its records begin."""
    store, disk, clock = store_with(settings=SETTINGS)
    starts = []
    for number in range(count):
        starts.append(store.max_offset)
        keyed(store, number)
        if number % 30 == 0:
            clock.turn(11)
            run_jobs(store)
    settle(store, clock)
    return store, disk, clock, starts


def bodies(store: MessageStore) -> set[bytes]:
    return {
        record.body
        for queue_id in range(QUEUES)
        for record in read_all(store, queue_id=queue_id)
    }


def found(store: MessageStore, key: str) -> list[int]:
    search = store.index.search("orders", key, begin_ms=0, end_ms=1 << 62)
    return [offset for offset in search.run().offsets if store.read_record(offset) is not None]


def record_start(starts: list[int], number: int, store: MessageStore) -> int:
    """Where record `number` begins, behind a blank end where there is one."""
    while store.read_record(starts[number]) is None:
        number += 1
    return starts[number]


def counted(disk: FakeDisk) -> dict[str, int]:
    """Calls of the disk, but for asking how much room there is."""
    return {name: count for name, count in disk.calls.items() if name != "space"}


def test_after_a_truncation_a_message_has_its_own_store_time_and_not_that_of_the_removed_one():
    store, _, clock, starts = filled()
    queue = queue_of(store)
    last = queue.max_offset - 1
    before_ms = store.store_time_at(queue, last)
    assert before_ms > 0
    store.truncate(record_start(starts, 33, store))
    assert store.store_time_at(queue, last) == -1
    clock.turn(11)
    while queue.max_offset <= last:
        keyed(store, 0)
    assert store.store_time_at(queue, last) > before_ms


def test_the_store_time_of_a_message_in_a_file_is_read_once():
    store, disk, _, _ = filled()
    places = [
        (queue, offset)
        for queue in store.queues_of("orders")
        for offset in range(queue.min_offset, queue.max_offset)
    ]
    times = [store.store_time_at(*place) for place in places]
    before = counted(disk)
    assert [store.store_time_at(*place) for place in places] == times
    assert counted(disk) == before


def test_between_the_steps_of_a_truncation_the_disk_is_left_alone():
    store, disk, clock, starts = filled()
    end = record_start(starts, 33, store)
    steps = store.truncate_steps(end)
    count = 0
    while True:
        before = counted(disk)
        step = next(steps, None)
        assert counted(disk) == before
        if step is None:
            break
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
        count += 1
    assert count >= 6
    assert store.max_offset == end
    assert bodies(store) == {b"%d" % number * 50 for number in range(33)}
    assert found(store, "k32")
    assert found(store, "k33") == []
    keyed(store, 500)
    assert found(store, "k500")
    again = open_store(disk=disk.kill(), clock=clock, settings=SETTINGS)
    assert bodies(again) == bodies(store)


def test_nothing_else_is_done_while_the_log_is_truncated():
    store, disk, clock, starts = filled()
    end = record_start(starts, 100, store)
    queues = [store.queue("orders", number) for number in range(QUEUES)]
    steps = store.truncate_steps(end)
    is_hidden = False
    while (step := next(steps, None)) is not None:
        before = counted(disk)
        clock.turn(11)
        for refused, why in (
            (lambda: store.put_many([make_put(store, "orders", 7)]), "is being truncated"),
            (lambda: store.append_raw(end, b""), "is being truncated"),
            (lambda: store.delete_topic("orders"), "is being truncated"),
            (store.sweep, "is being truncated"),
            (lambda: store.truncate(0), "is running"),
        ):
            with pytest.raises(StoreBusy, match=why):
                refused()
        store.cleaner.ask()
        run_jobs(store)
        assert store.clean_due() is None
        assert not store.needs_restart
        store.index.search("orders", "k1", begin_ms=0, end_ms=1 << 62)
        assert counted(disk) == before
        step()
        ends = sum(queue.max_offset for queue in queues if queue is not None)
        is_hidden |= ends == 100
        assert ends in (100, 200)
        if is_hidden:  # Readers find nothing that is about to go.
            assert len(bodies(store)) == 100
    assert is_hidden
    assert store.refusal is None
    assert store.clean_due() is not None


def test_a_pause_of_the_broker_outlives_a_truncation():
    store, _, _ = store_with(b"1", b"2")
    steps = store.truncate_steps(0)
    next(steps)()
    store.refuse_for_now("too many wait")
    with pytest.raises(StoreBusy, match="too many wait; the log is being truncated"):
        put(store, b"3")
    for step in steps:
        step()
    with pytest.raises(StoreBusy, match=r"^too many wait$"):
        put(store, b"3")
    store.take_again()
    put(store, b"3")
    assert bodies_of(store) == [b"3"]


def test_a_message_that_is_confirmed_meanwhile_is_visible_behind_the_truncation(store):
    store.positions.replicated_to(0, 1)
    results = store.put_many([make_put(store, body=body) for body in (b"1", b"2", b"3")])
    store.dispatch_pending()
    told: list[Durability] = []
    store.wait_confirmed(results[1][1], told.append)
    store.wait_confirmed(store.max_offset, told.append)
    steps = store.truncate_steps(results[2][1])
    next(steps)()
    store.positions.replicated_to(results[1][1], 1)
    store.dispatch_pending()
    assert bodies_of(store) == []
    for step in steps:
        step()
    assert told == [Durability.DISK_LATE]
    store.positions.replicated_to(results[2][1], 1)
    store.dispatch_pending()
    assert bodies_of(store) == [b"1", b"2"]
    store.positions.replicated_to(None, 0)
    put(store, b"4")
    assert bodies_of(store) == [b"1", b"2", b"4"]


def test_a_truncation_that_is_given_up_before_anything_changed_is_forgotten():
    store, _, _ = store_with(b"1", b"2")
    steps = store.truncate_steps(0)
    next(steps)
    steps.close()
    put(store, b"3")
    assert bodies_of(store) == [b"1", b"2", b"3"]
    store.truncate(0)
    assert bodies_of(store) == []


def test_a_truncation_that_is_given_up_later_ends_the_store_and_a_restart_looks():
    store, disk, clock = store_with(b"1", b"2")
    steps = store.truncate_steps(0)
    next(steps)()
    next(steps)()
    steps.close()
    assert store.needs_restart
    with pytest.raises(StorePoisoned, match="did not finish"):
        put(store, b"3")
    store.close()
    assert bodies_of(open_store(disk=disk.kill(), clock=clock)) == [b"1", b"2"]


def test_a_store_that_is_closed_while_its_log_is_truncated_is_looked_at_by_the_next_start():
    store, disk, clock = store_with(b"1", b"2")
    steps = store.truncate_steps(0)
    next(steps)()
    store.close()
    assert disk.exists("/store/abort")
    again = open_store(disk=disk, clock=clock)
    assert bodies_of(again) == [b"1", b"2"]


@pytest.mark.parametrize("number", range(12))
def test_any_step_that_fails_ends_the_store_on_the_thread_that_owns_it(number):
    store, disk, clock, starts = filled(120)
    end = record_start(starts, 50, store)
    steps = store.truncate_steps(end)
    for _ in range(number):
        step = next(steps, None)
        if step is None:
            return
        step()
    step = next(steps, None)
    if step is None:
        return
    for call in ("open", "pread", "fdatasync", "clear_from", "unlink", "rename"):
        disk.fail(call, forever=True)
    step()  # Who lends the thread is told nothing.
    disk.heal()
    with suppress(StoreError):
        next(steps, None)
        return  # That step did not ask the disk.
    assert store.needs_restart == (number > 0)
    again = open_store(disk=disk.kill(), clock=clock, settings=SETTINGS)
    assert len(bodies(again)) in (50, 120)


def put_batches(store: MessageStore, count: int) -> list[int]:
    """Records of two messages each in a batch queue; gives where they begin."""
    starts = []
    for number in range(count):
        starts.append(store.max_offset)
        block = encode_properties({"INNER_BASE": f"{2 * number}", "INNER_NUM": "2"})
        record = Record(
            queue_offset=2 * number,
            physical_offset=store.max_offset,
            sys_flag=INNER_BATCH,
            born_host=HOST_V4,
            store_host=HOST_V4,
            topic="batches",
            property_block=block,
        )
        store.append_raw(store.max_offset, encode_record(record))
        store.dispatch_pending()
    return starts


@pytest.mark.parametrize("nth", range(1, 11))
def test_a_batch_queue_whose_end_was_half_cleared_is_whole_after_a_restart(nth):
    store, disk, clock = store_with()
    end = put_batches(store, 10)[5]
    settle(store, clock)
    disk.fail("pwrite", nth=nth)
    with suppress(StoreError):
        store.truncate(end)
    again = open_store(disk=disk.kill(), clock=clock)
    queue = again.queue("batches", 0)
    assert isinstance(queue, BatchQueue)
    assert queue.max_offset == (10 if again.max_offset == end else 20)
    assert (queue.min_offset, queue.end_entry) == (0, queue.max_offset // 2)


def test_a_read_of_a_batch_queue_that_is_being_cut_ends_where_the_queue_ends():
    store, _, clock = store_with()
    end = put_batches(store, 10)[5]
    settle(store, clock)
    ends = []
    for step in store.truncate_steps(end):
        step()
        read = store.get("batches", 0, 8).cold
        assert read is not None
        result = read()
        assert result.next_offset == result.max_offset
        ends.append(result.next_offset)
    assert sorted(set(ends)) == [10, 20]


def test_a_truncation_waits_for_a_step_of_cleaning():
    store, _, clock = store_with(settings=NEVER)
    for _ in range(9):
        put(store, bytes(5_000))
    settle(store, clock)
    clock.turn(100 * 3600)
    store.cleaner.ask()
    step = store.clean_due()
    assert step is not None
    with pytest.raises(StoreBusy, match="cleanup"):
        store.truncate(store.min_offset)
    step()
    # The round had chosen files that the truncation has taken back.
    store.truncate(store.min_offset)
    clean(store, is_asked=False)
    assert len(store._log.chain.files) == 1
    put(store, b"new")
    assert read_all(store)[-1].body == b"new"


def test_what_a_read_was_mending_is_not_written_behind_a_truncation():
    store, disk, clock = store_with(*[b"%d" % number for number in range(9)])
    settle(store, clock)
    queue = queue_of(store)
    [place, *_] = store.entries(queue, 4, 1)
    store._queues.files.rewrite(queue, 6, bytes(20))  # A damaged entry.
    cold = store.get("orders", 0, 6)
    assert cold.cold is not None
    mending = store._reading._mending
    walk, steps = mending._walk, store.truncate_steps(place.physical_offset)

    def walk_late(*arguments):
        for step in steps:
            step()
        return walk(*arguments)

    mending._walk = walk_late
    result = cold.cold()
    assert (result.status, result.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 4)
    mending._walk = walk
    assert queue.max_offset == 4
    assert disk.content(store._queues.files.path(queue, 6))[80:] == bytes(320)


def test_who_keeps_something_is_told_the_new_end_when_readers_find_nothing_behind_it():
    store, _, _ = store_with(b"1", b"2", b"3")
    queue = queue_of(store)
    [entry] = store.entries(queue, 1, 1)
    told: list[tuple[str, int, int, int]] = []

    def tell(name: str, end: int) -> None:
        told.append((name, end, queue.max_offset, store.max_offset))

    store.on_truncated += [partial(tell, "first"), partial(tell, "second")]
    before = store.max_offset
    with pytest.raises(RecordIllegal):
        store.truncate(1)
    assert told == []
    store.truncate(entry.physical_offset)
    wanted = (entry.physical_offset, 1, before)
    assert told == [("first", *wanted), ("second", *wanted)]


def test_a_truncation_to_where_no_record_begins_is_refused_behind_its_first_step():
    store, _, _ = store_with(b"1", b"2")
    steps = store.truncate_steps(1)
    next(steps)()
    with pytest.raises(RecordIllegal, match="no record starts there"):
        next(steps)
    assert store.refusal is None
    put(store, b"3")
    assert bodies_of(store) == [b"1", b"2", b"3"]
    assert [*store.truncate_steps(store.max_offset)] == []


def test_a_store_that_takes_nothing_is_not_truncated():
    store, disk, clock = store_with(b"1")
    store.close()
    for opened in (store, open_store(disk=disk, clock=clock, read_only=True)):
        steps: Iterator[Step] = opened.truncate_steps(0)
        with pytest.raises(StoreReadOnly if opened is not store else StoreError):
            next(steps)


def test_a_read_behind_the_new_end_is_told_where_the_queue_ends():
    store, _, _ = store_with(b"1", b"2", b"3")
    queue = queue_of(store)
    [entry] = store.entries(queue, 1, 1)
    store.truncate(entry.physical_offset)
    result = store.get("orders", 0, 3)
    assert result.status is GetStatus.OFFSET_OVERFLOW_BADLY
    assert result.next_offset == 1
    flush(store)
    put(store, b"4")
    assert bodies_of(store) == [b"1", b"4"]
