"""Offsets as a service: where groups stand, where queues begin and end."""

from __future__ import annotations

import pytest

from cometmq.broker.admin.lookup import MessageLookup
from cometmq.broker.admin.offsets import NO_TIME_MS, CommittedOffsets, QueueOffsets
from cometmq.broker.tables.offsets import BEYOND_MAX
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.codec.headers.query import ViewMessageRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.requests import any_topic
from cometmq.store.real_disk import RealDisk
from tests.support.store_puts import make_put, put


@pytest.fixture
def committed(tables):
    return CommittedOffsets(tables)


@pytest.fixture
def bounds(tables):
    return QueueOffsets(tables.store)


def found(tables, committed, request: QueryConsumerOffset) -> int:
    offset: int = tables.world.run(committed.find(request))
    return offset


async def test_a_group_goes_on_where_it_committed(tables, committed):
    put(tables.store, b"a", b"b", b"c")
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 2))
    assert found(tables, committed, QueryConsumerOffset("g", "orders", 0)) == 2
    # Also backwards, as in RocketMQ.
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 1))
    assert found(tables, committed, QueryConsumerOffset("g", "orders", 0)) == 1


async def test_a_new_group_begins_at_a_young_queues_beginning(tables, committed):
    put(tables.store, b"a")
    assert found(tables, committed, QueryConsumerOffset("new", "orders", 0)) == 0
    for request in (
        QueryConsumerOffset("new", "orders", 1),
        QueryConsumerOffset("new", "orders", 0, set_zero_if_not_found=False),
    ):
        with pytest.raises(RequestError) as refused:
            found(tables, committed, request)
        assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (("no body", "orders", 0, 0), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (("g", "nothing", 0, 0), ResponseCode.TOPIC_NOT_EXIST),
        (("g", "orders", 2, 0), ResponseCode.INVALID_PARAMETER),
        (("g", "orders", -1, 0), ResponseCode.INVALID_PARAMETER),
        (("g", "orders", 0, -1), ResponseCode.INVALID_PARAMETER),
        (("g", "orders", 0, 1 + BEYOND_MAX + 1), ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_what_is_not_there_is_not_committed(tables, committed, request_, code):
    put(tables.store, b"a")
    with pytest.raises(RequestError) as refused:
        committed.commit(UpdateConsumerOffset(*request_))
    assert refused.value.code == code
    assert not tables.offsets.of("g", "orders")


async def test_the_end_and_a_little_beyond_it_are_committed(tables, committed):
    put(tables.store, b"a")
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 1 + BEYOND_MAX))


async def test_a_queue_has_a_beginning_an_end_and_times(tables, bounds):
    queue = QueueRequest("orders", 0)
    begun_ms = tables.world.clock.now_ms()
    put(tables.store, b"a")
    tables.world.pass_time(1.0)
    put(tables.store, b"b", b"c")
    assert (bounds.beginning(queue), bounds.end(queue)) == (0, 3)
    run = tables.world.run
    assert run(bounds.earliest_ms(queue)) == begun_ms
    assert run(bounds.by_time(SearchOffset("orders", 0, begun_ms + 1000))) == 1
    assert run(bounds.by_time(SearchOffset("orders", 0, begun_ms + 1000, "upper"))) == 2


@pytest.fixture
def out_of_memory(tables, monkeypatch):
    """Let no message count as being in memory, as in a log that is larger than the memory."""
    monkeypatch.setattr(tables.store._reading._reader, "_in_memory_bytes", -1)


@pytest.mark.usefixtures("out_of_memory")
async def test_a_new_group_is_not_sent_to_the_beginning_of_an_old_queue_whose_read_must_wait(
    tables, committed, monkeypatch
):
    put(tables.store, b"a")
    monkeypatch.setattr(tables.store._reading._reader._log, "warm_start", 1 << 40)
    monkeypatch.setattr(RealDisk, "pread_nowait", lambda *_: None)
    assert tables.store.get("orders", 0, 0).cold is not None
    with pytest.raises(RequestError) as refused:
        found(tables, committed, QueryConsumerOffset("new", "orders", 0))
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


def restart(tables) -> None:
    """Forget what a broker knows of its offsets beside the file."""
    tables.offsets._began_ms.clear()


@pytest.mark.usefixtures("out_of_memory")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_queue_that_was_added_while_a_group_was_away_begins_at_its_first_message(
    tables, committed, is_restarted
):
    put(tables.store, b"a", b"b")
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 2))
    if is_restarted:
        restart(tables)
    tables.world.pass_time(1.0)
    put(tables.store, b"c", b"d", queue_id=1)
    assert found(tables, committed, QueryConsumerOffset("g", "orders", 1)) == 0


@pytest.mark.usefixtures("out_of_memory")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_new_group_does_not_begin_at_the_start_because_it_committed_elsewhere(
    tables, committed, is_restarted
):
    put(tables.store, b"a", queue_id=1)
    tables.world.pass_time(1.0)
    put(tables.store, b"b")
    tables.world.pass_time(1.0)
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 1))
    if is_restarted:
        restart(tables)
    with pytest.raises(RequestError) as refused:
        found(tables, committed, QueryConsumerOffset("g", "orders", 1))
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.usefixtures("out_of_memory")
async def test_a_group_that_is_new_in_a_topic_skips_a_queue_younger_than_what_it_committed(
    tables, committed
):
    put(tables.store, b"a")
    tables.world.pass_time(1.0)
    put(tables.store, b"b", queue_id=1)
    tables.world.pass_time(1.0)
    assert committed.commit(UpdateConsumerOffset("g", "orders", 0, 1))
    with pytest.raises(RequestError):
        found(tables, committed, QueryConsumerOffset("g", "orders", 1))


async def test_a_queue_that_was_never_written_is_empty(tables, bounds):
    queue = QueueRequest("orders", 1)
    assert (bounds.beginning(queue), bounds.end(queue)) == (0, 0)
    assert tables.world.run(bounds.earliest_ms(queue)) == NO_TIME_MS
    assert tables.world.run(bounds.by_time(SearchOffset("orders", 1, 0))) == 0
    # To ask makes no queue.
    assert tables.store.queue("orders", 1) is None


async def test_another_boundary_is_refused(tables, bounds):
    with pytest.raises(RequestError, match="boundaryType MIDDLE"):
        tables.world.run(bounds.by_time(SearchOffset("orders", 0, 0, "middle")))


@pytest.fixture
def lookup(tables):
    return MessageLookup(tables.store, unique_count=1)


async def test_what_is_not_shown_yet_is_not_found(tables, lookup):
    """Consumers do not see it either: a power cut may take it back."""
    tables.store.put_many([make_put(tables.store)])
    assert tables.store.max_offset > 0
    with pytest.raises(RequestError, match="can not find message by the offset"):
        tables.world.run(lookup.by_offset(ViewMessageRequest(0), any_topic))
