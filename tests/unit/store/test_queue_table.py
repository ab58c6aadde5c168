"""The table of queues: readers make nothing, writers open, who waits leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE, encode_entry
from cometmq.model.errors import RecordIllegal
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ROUND_TICKS, TAILS_PER_TICK, ConsumeQueues
from cometmq.store.disk import Buffer
from cometmq.store.queue_files import KEPT_MAX, KEPT_SIZE_MAX, OPEN_FILES_MAX, QueueFiles
from cometmq.store.queue_table import QueueTable
from cometmq.store.reader import GetStatus
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    open_store,
    put,
    queue_of,
    settle,
    store_with,
)


def test_a_reader_makes_no_queue_and_no_file():
    store, disk, clock = store_with(b"1")
    settle(store, clock)
    before = dict(disk.names)
    for topic in ("orders", "nothing", "../away"):
        for queue_id in (7, -1):
            assert store.queue(topic, queue_id) is None
            result = store.get(topic, queue_id, 0)
            assert result.status is GetStatus.NO_MATCHED_LOGIC_QUEUE
            assert store.queue_to_watch(topic, queue_id).max_offset == 0
            assert store.queue(topic, queue_id) is None
    assert store.queues_of("nothing") == []
    assert store.topics() == ["orders"]
    assert len(store.queues_of("orders")) == 1
    settle(store, clock)
    assert disk.names == before
    store.close()


def test_who_waits_for_a_queue_leaves_nothing_when_nobody_waits():
    table = QueueTable()
    waiting = [table.awaited(f"topic {number}", 0) for number in range(1000)]
    assert table.awaited("topic 7", 0) is waiting[7]
    assert list(table) == []
    assert table.topics() == []
    known = [ref(queue) for queue in waiting]
    waiting.clear()
    assert [queue() for queue in known] == [None] * 1000
    assert not table._awaited


def test_the_first_message_comes_to_who_waits_for_its_queue(store):
    told = []
    store.on_arrival = lambda queue, _: told.append(queue)
    queue = store.queue_to_watch("orders", 3)
    queue.watched = True
    other = store.queue_to_watch("payments", 3)
    put(store, b"1", queue_id=3)
    assert told == [queue]
    assert store.queue("orders", 3) is queue
    store.delete_topic("payments")
    assert other.deleted


def test_a_batch_queue_takes_the_place_of_a_plain_one_and_of_who_waited():
    store, _, _ = store_with(b"hides it")
    plain, awaited = store.queue("orders", 0), store.queue_to_watch("orders", 1)
    assert plain is not None
    for queue_id in (0, 1):
        store._directory.table.add(BatchQueue("orders", queue_id))
        assert isinstance(store.queue("orders", queue_id), BatchQueue)
        with pytest.raises(RecordIllegal, match="is a batch queue"):
            store.queue_for_append("orders", queue_id)
    assert plain.deleted
    assert awaited.deleted
    assert store._queues.entries == 0
    assert list(store._queues) == []
    assert store.batch_topics() == ["orders"]
    store.delete_topic("orders")
    assert store.topics() == []


def test_a_plain_record_of_a_batch_queue_is_in_the_log_alone():
    source, _, _ = store_with(b"plain")
    content = source.read_log(0, 1 << 20)
    assert content is not None
    copy = open_store(disk=FakeDisk(), clock=HandClock())
    batch = BatchQueue("orders", 0)
    copy._directory.table.add(batch)
    copy.append_raw(0, bytes(content))
    copy.dispatch_pending()
    assert copy.positions.dispatched == copy.max_offset > 0
    assert copy.queue("orders", 0) is batch
    assert batch.max_offset == 0
    assert not batch.tail


def test_a_batch_queue_can_be_removed_by_itself():
    store, disk, _ = store_with(b"plain")
    for queue_id in (0, 1):
        disk.make_directory(f"/store/batchconsumequeue/batches/{queue_id}")
        store._directory.table.add(BatchQueue("batches", queue_id))
    queue = queue_of(store, "batches")
    store.delete_queue(queue)
    assert queue.deleted
    assert [left.queue_id for left in store.queues_of("batches")] == [1]
    assert not disk.exists("/store/batchconsumequeue/batches/0")
    assert store._queues.entries == 1
    assert bodies_of(store) == [b"plain"]


@pytest.mark.parametrize("topic", ["", "..", "a/b", "t" * 300])
def test_a_topic_that_can_have_no_directory_is_refused(topic):
    table = QueueTable()
    with pytest.raises(RecordIllegal):
        table.open_for_append(topic, 0)
    assert list(table) == []


def test_a_queue_that_is_removed_is_made_anew():
    table = QueueTable()
    queue = table.open_for_append("orders", 0)
    assert table.open_for_append("orders", 0) is queue
    table.remove(queue)
    assert queue.deleted
    assert table.topics() == []
    fresh = table.open_for_append("orders", 0)
    assert fresh is not queue
    assert type(fresh) is ConsumeQueue


def test_messages_of_a_deleted_topic_are_read_again_from_a_queue_made_anew():
    store, _, _ = store_with(b"old")
    store.delete_topic("orders")
    put(store, b"new")
    assert bodies_of(store) == [b"new"]


def test_a_topic_that_is_deleted_with_messages_on_their_way_stays_deleted():
    store, disk, clock = store_with(b"1")
    settle(store, clock)
    put(store, b"other", topic="payments")
    store.positions.replicated_to(store.max_offset, 1)
    put(store, b"2", b"3")
    store.delete_topic("orders")
    store.positions.replicated_to(None, 0)
    store.dispatch_pending()
    assert store._queues.entries == 1
    settle(store, clock)
    store.close()
    again = open_store(disk=disk, clock=clock)
    assert again.topics() == ["payments"]
    assert bodies_of(again, "payments") == [b"other"]


def test_a_topic_is_deleted_with_a_queue_that_was_put_aside():
    store, disk, clock = store_with(b"hides it", b"hides it")
    settle(store, clock)
    store._directory.table.add(BatchQueue("orders", 0))
    store.delete_topic("orders")
    assert disk.list_names("/store/consumequeue") == []
    put(store, b"new")
    settle(store, clock)
    assert bodies_of(store) == [b"new"]
    again = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(again) == [b"new"]


def never() -> bool:
    return False


def queues_with_tails(count: int, disk: FakeDisk | None = None) -> ConsumeQueues:
    queues = ConsumeQueues(QueueTable(), QueueFiles(disk or FakeDisk(), "/consumequeue", 300))
    for number in range(count):
        queue = queues.table.open_for_append("topic", number)
        queue.append(number * 100, 100, 0)
        queues.dirty[queue] = None
    return queues


def ticks_of_a_round(queues: ConsumeQueues, most: int) -> list[int]:
    """How many tails each tick wrote."""
    queues.begin_round()
    written = []
    for _ in range(most):
        before = len(queues.dirty)
        is_through = queues.continue_round(never)
        written.append(before - len(queues.dirty))
        if is_through:
            return written
    raise AssertionError("the round did not end")


def test_few_tails_are_written_at_once():
    assert ticks_of_a_round(queues_with_tails(TAILS_PER_TICK - 1), 1) == [TAILS_PER_TICK - 1]


def test_many_tails_are_spread_and_never_written_all_at_once():
    count = TAILS_PER_TICK * ROUND_TICKS // 4
    written = ticks_of_a_round(queues_with_tails(count), ROUND_TICKS)
    assert sum(written) == count
    assert max(written) == TAILS_PER_TICK
    assert len(written) >= ROUND_TICKS // 4


def test_a_tick_whose_time_is_over_leaves_the_rest_to_the_next():
    queues = queues_with_tails(TAILS_PER_TICK)
    queues.begin_round()
    assert not queues.continue_round(lambda: True)
    assert 0 < len(queues.dirty) < TAILS_PER_TICK
    while not queues.continue_round(lambda: True):
        pass
    assert not queues.dirty


def test_a_round_over_more_files_than_may_be_open_leaves_those_of_full_tails_open(disk):
    queues = queues_with_tails(OPEN_FILES_MAX + 1, disk)
    full = queues.table.open_for_append("topic", 0)
    queues.write_tails([full])
    full.append(0, 100, 0)
    queues.dirty[full] = None
    ticks_of_a_round(queues, ROUND_TICKS)
    full.append(100, 100, 0)
    before = disk.calls["open"]
    queues.write_tails([full])
    assert disk.calls["open"] == before
    queues.files.close()
    assert disk.open_count == 0


def test_entries_that_reach_over_several_files_come_back_as_they_were(disk):
    files = QueueFiles(disk, "/consumequeue", 3)
    queue = ConsumeQueues(QueueTable(), files).table.open_for_append("topic", 0)
    entries = bytes(range(8 * QUEUE_ENTRY_SIZE))
    files.write(queue, 2, entries)
    read = b"".join(files.read(queue, offset, 1) for offset in range(2, 10))
    assert read == entries
    assert len(disk.list_names("/consumequeue/topic/0")) == 4


PER_FILE = 2_000  # Ten pages, nearly.


def queues_on(disk: FakeDisk) -> ConsumeQueues:
    return ConsumeQueues(QueueTable(), QueueFiles(disk, "/consumequeue", PER_FILE))


def queue_with(count: int, disk: FakeDisk | None = None) -> tuple[ConsumeQueues, ConsumeQueue]:
    """A queue with so many entries, and its table."""
    queues = queues_on(disk or FakeDisk())
    queue = queues.table.open_for_append("orders", 0)
    fill(queues, queue, count)
    return queues, queue


def fill(queues: ConsumeQueues, queue: ConsumeQueue, count: int, mark: int = 0) -> None:
    """Append entries and write them."""
    for _ in range(count):
        queue.append(queue.max_offset * 100, 100, mark)
    queues.write_tails([queue])


def read(files: QueueFiles, queue: ConsumeQueue, offset: int, count: int) -> bytes:
    found = files.read_nowait(queue, offset, count)
    assert found is not None
    content, start, stop = found
    return bytes(content[start:stop])


def test_a_page_is_read_once_and_no_more_than_that(disk):
    queues, queue = queue_with(900, disk)
    before = disk.calls["pread_nowait"]
    parts = [read(queues.files, queue, offset, 32) for offset in range(0, 192, 32)]
    assert b"".join(parts) == queues.files.read(queue, 0, 192)
    assert disk.calls["pread_nowait"] == before + 1
    content, start, stop = queues.files.read_nowait(queue, 192, 32) or (b"", 0, 0)
    assert (start, stop, len(content)) == (0, 640, (8192 // 20 - 192) * 20)
    assert disk.calls["pread_nowait"] == before + 2


@pytest.mark.parametrize(
    ("offset", "count", "given"), [(1_995, 5, 5), (1_990, 32, 10), (1_999, 1, 1)]
)
def test_a_read_ends_with_its_file(offset, count, given):
    queues, queue = queue_with(2_100)
    for _ in range(2):
        entries = read(queues.files, queue, offset, count)
        assert entries == queues.files.read(queue, offset, given)


def test_what_is_kept_is_bounded():
    queues = queues_on(FakeDisk())
    files = queues.files
    for number in range(KEPT_MAX + 9):
        queue = queues.table.open_for_append("orders", number)
        fill(queues, queue, 3)
        read(files, queue, 0, 1)
    assert len(files.kept) == KEPT_MAX
    assert queues.table.find("orders", 8) not in files.kept
    large = queues.table.open_for_append("large", 0)
    fill(queues, large, PER_FILE)
    count = KEPT_SIZE_MAX // QUEUE_ENTRY_SIZE
    assert len(read(files, large, 0, count)) == count * QUEUE_ENTRY_SIZE
    assert large in files.kept
    files.kept = {}
    assert len(read(files, large, 0, PER_FILE)) == PER_FILE * QUEUE_ENTRY_SIZE
    assert large not in files.kept


class MeantimeDisk(FakeDisk):
    """A disk whose next read takes so long that something else is done before its reader has it."""

    def __init__(self) -> None:
        super().__init__()
        self.meantime = lambda: None

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        found = super().pread_nowait(fd, size, offset)
        todo, self.meantime = self.meantime, lambda: None
        todo()
        return found


def test_entries_that_a_thread_mends_while_they_are_read_are_not_kept():
    disk = MeantimeDisk()
    queues, queue = queue_with(9, disk)
    mended = encode_entry(777, 100, 7)
    disk.meantime = lambda: queues.files.rewrite(queue, 4, mended)
    assert mended not in read(queues.files, queue, 0, 9)
    assert read(queues.files, queue, 4, 1) == mended


def test_entries_behind_the_tails_begin_are_not_kept():
    """A file has its whole size from the start, and zeros where nothing is written yet."""
    queues, queue = queue_with(5)
    read(queues.files, queue, 0, 2)
    fill(queues, queue, 5)
    assert read(queues.files, queue, 3, 7) == queues.files.read(queue, 3, 7)
    assert read(queues.files, queue, 9, 1) != bytes(QUEUE_ENTRY_SIZE)


STEPS = st.one_of(
    st.tuples(st.just("fill"), st.integers(1, 300), st.integers(1, 9)),
    st.tuples(st.just("read"), st.integers(0, 3_000), st.integers(1, 250)),
    st.tuples(st.just("mend"), st.integers(0, 3_000), st.integers(1, 9)),
    st.tuples(st.just("cut"), st.integers(0, 3_000), st.just(0)),
)


@given(st.lists(STEPS, max_size=30))
def test_whatever_is_done_in_between_a_read_gives_what_stands_in_the_files(steps):
    queues = queues_on(FakeDisk())
    files, queue = queues.files, queues.table.open_for_append("orders", 0)
    for what, number, more in steps:
        if what == "fill":
            fill(queues, queue, number, more)
        elif number >= queue.tail_start:
            continue
        elif what == "read":
            count = min(more, queue.tail_start - number)
            assert read(files, queue, number, count) == files.read(queue, number, count)
        elif what == "mend":
            files.rewrite(queue, number, encode_entry(number, 99, more))
        else:
            files.clear_from(queue, number)
            queue.cut(number)


def test_messages_behind_a_truncation_are_read_and_not_those_before_it():
    store, _, clock = store_with(settings=replace(SMALL, queue_file_size=2_000))
    ends = [put(store, b"old %d" % number) for number in range(30)]
    settle(store, clock)
    assert len(bodies_of(store)) == 30
    for step in store.truncate_steps(ends[9]):
        step()
    for number in range(20):
        put(store, b"new %d" % number)
    settle(store, clock)
    assert bodies_of(store)[8:12] == [b"old 8", b"old 9", b"new 0", b"new 1"]
