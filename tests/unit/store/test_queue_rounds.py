"""Tails are written a few at a time: a round over many queues is spread, and ends early when time is over."""

from __future__ import annotations

from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.store.consume_queues import ROUND_TICKS, TAILS_PER_TICK, ConsumeQueues
from cometmq.store.queue_files import OPEN_FILES_MAX, QueueFiles
from cometmq.store.queue_table import QueueTable
from tests.support.fake_disk import FakeDisk


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


def test_a_round_over_more_files_than_may_be_open_leaves_those_of_full_tails_open():
    disk = FakeDisk()
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


def test_entries_that_reach_over_several_files_come_back_as_they_were():
    disk = FakeDisk()
    files = QueueFiles(disk, "/consumequeue", 3)
    queue = ConsumeQueues(QueueTable(), files).table.open_for_append("topic", 0)
    entries = bytes(range(8 * QUEUE_ENTRY_SIZE))
    files.write(queue, 2, entries)
    read = b"".join(files.read(queue, offset, 1) for offset in range(2, 10))
    assert read == entries
    assert len(disk.list_names("/consumequeue/topic/0")) == 4
