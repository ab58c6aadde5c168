"""The table of queues: readers make nothing, writers open, who waits leaves nothing behind."""

from weakref import ref

import pytest

from cometmq.model.errors import RecordIllegal
from cometmq.store.batch_queues import BatchQueue
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.queue_table import QueueTable
from cometmq.store.reader import GetStatus
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import bodies_of, open_store, put, queue_of, settle, store_with


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


def test_the_first_message_comes_to_who_waits_for_its_queue():
    store = open_store(disk=FakeDisk())
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
