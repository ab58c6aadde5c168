"""Entries that are kept from one read to the next are always those that stand in the files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE, encode_entry
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Buffer
from cometmq.store.queue_files import KEPT_MAX, KEPT_SIZE_MAX, QueueFiles
from cometmq.store.queue_table import QueueTable
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, bodies_of, open_store, put, settle

PER_FILE = 2_000  # Ten pages, nearly.


def queues_on(disk: FakeDisk) -> ConsumeQueues:
    return ConsumeQueues(QueueTable(), QueueFiles(disk, "/consumequeue", PER_FILE))


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


def test_a_page_is_read_once_and_no_more_than_that():
    disk = FakeDisk()
    queues = queues_on(disk)
    queue = queues.table.open_for_append("orders", 0)
    fill(queues, queue, 900)
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
    queues = queues_on(FakeDisk())
    queue = queues.table.open_for_append("orders", 0)
    fill(queues, queue, 2_100)
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
    queues = queues_on(disk)
    queue = queues.table.open_for_append("orders", 0)
    fill(queues, queue, 9)
    mended = encode_entry(777, 100, 7)
    disk.meantime = lambda: queues.files.rewrite(queue, 4, mended)
    assert mended not in read(queues.files, queue, 0, 9)
    assert read(queues.files, queue, 4, 1) == mended


def test_entries_behind_the_tails_begin_are_not_kept():
    """A file has its whole size from the start, and zeros where nothing is written yet."""
    queues = queues_on(FakeDisk())
    queue = queues.table.open_for_append("orders", 0)
    fill(queues, queue, 5)
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
    disk, clock = FakeDisk(), HandClock()
    store = open_store(disk=disk, clock=clock, settings=replace(SMALL, queue_file_size=2_000))
    ends = [put(store, b"old %d" % number) for number in range(30)]
    settle(store, clock)
    assert len(bodies_of(store)) == 30
    for step in store.truncate_steps(ends[9]):
        step()
    for number in range(20):
        put(store, b"new %d" % number)
    settle(store, clock)
    assert bodies_of(store)[8:12] == [b"old 8", b"old 9", b"new 0", b"new 1"]
