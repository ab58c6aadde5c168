"""The lag of groups, as the answer to GET_CONSUME_STATS and /metrics give it: both by one rule."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from cometmq.broker.metrics import lag, requests
from cometmq.codec.bodies.heartbeat import BROADCASTING, CLUSTERING, ConsumerPart
from cometmq.codec.bodies.stats import decode_all_consume_stats, decode_consume_stats
from cometmq.model.codes import RequestCode
from tests.unit.broker.billing import QUEUE, commit, pull_fields, send
from tests.unit.broker.member import Member, wishes
from tests.unit.broker.test_metrics import get, values
from tests.unit.broker.test_pop import ACK, handles, names, pop_fields

PULL = RequestCode.PULL_MESSAGE


@pytest.fixture(autouse=True)
def each_page_is_new(monkeypatch):
    monkeypatch.setattr(requests, "AGE_SECONDS", 0.0)


@asynccontextmanager
async def joined(served, *topics: str, model: str = CLUSTERING, group: str = "billing"):
    """A connected member of a group."""
    async with Member(served) as member:
        await member.beat(ConsumerPart(group, wishes(*topics), model=model))
        yield member


async def progress(served, group: str = "billing"):
    answer = await served.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
    return decode_consume_stats(answer.body)


async def lags(served, topic: str = "orders", group: str = "billing"):
    """The lag of a group in a topic: as consoles hear it alone and of all groups, and as metrics have it."""
    alone = await progress(served, group)
    answer = await served.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    together = [
        each.lag
        for part in decode_all_consume_stats(answer.body).get(group, ())
        for queue, each in part.queues.items()
        if queue.topic == topic
    ]
    here = [each.lag for queue, each in alone.queues.items() if queue.topic == topic]
    assert sum(here) == sum(together)
    _, text = await get(served, "/metrics")
    return sum(here), values(text).get(("rocketmq_consumer_lag_messages", topic, group))


async def test_a_group_that_hangs_in_its_first_message_lags_by_all_of_them(served):
    for queue in "0011":
        await send(served, queue=queue)
    async with joined(served, "orders"):
        assert await lags(served) == (4, 4)
        stats = await progress(served)
        assert not any(each.is_committed for each in stats.queues.values())
        assert all((each.oldest_ms > 0) == (each.lag > 0) for each in stats.queues.values())


async def test_the_oldest_message_is_the_next_one_or_the_first_that_is_left(served):
    for _ in range(4):
        await send(served)
    queue = served.broker._store.queue("orders", 0)
    times = [served.broker._store.store_time_at(queue, offset) for offset in range(4)]
    for offset, first, oldest in ((0, 0, 0), (2, 0, 2), (1, 3, 3)):
        queue.min_offset = first
        await commit(served, offset)
        assert (await progress(served)).queues[QUEUE].oldest_ms == times[oldest]
    await commit(served, 4)
    assert (await progress(served)).queues[QUEUE].oldest_ms == 0


async def test_queues_without_an_offset_count_beside_those_that_have_one(served):
    for queue in "0011":
        await send(served, queue=queue)
    await commit(served, 2)
    assert await lags(served) == (2, 2)
    stats = await progress(served)
    assert [each.is_committed for each in stats.queues.values()][:2] == [True, False]


@pytest.mark.parametrize("with_ages", [True, False])
async def test_sums_of_a_topic_give_what_its_queues_give_one_by_one(
    served, monkeypatch, with_ages
):
    """Metrics begin with what a topic holds, where no time is to be read; consoles go from queue to queue."""
    monkeypatch.setattr(lag, "TIMES_MAX", 2_000 if with_ages else 0)
    for queue in "00001":
        await send(served, queue=queue)
    await commit(served, 0)  # Which makes the group.
    served.broker._store.queue("orders", 0).min_offset = 1  # Deleted before.
    offsets = served.parts.offsets
    # Offset 9 is behind the end, 0 before the first; queues 2 and 7 are not read.
    for committed, left, passed in (
        ({}, None, None),
        ({0: 3}, 2, 3),
        ({0: 0}, 4, 1),
        ({0: 9, 1: 1}, 0, 10),
        ({0: 4, 1: 0, 2: 3, 7: 5}, 1, 4),
    ):
        offsets.forget_topic("orders")
        for queue_id, offset in committed.items():
            offsets.commit("billing", "orders", queue_id, offset=offset)
        assert await lags(served) == (left or 0, left), committed
        _, text = await get(served, "/metrics")
        found = values(text)
        assert found.get(("cometmq_consumer_offsets", "orders", "billing")) == passed
        has_age = (
            "rocketmq_consumer_lag_latency_milliseconds",
            "orders",
            "billing",
        ) in found
        assert has_age == (left is not None and (with_ages or left == 0))


async def test_a_group_that_began_at_the_end_does_not_lag_by_what_was_there_before(served):
    for _ in range(3):
        await send(served)
    async with joined(served, "orders") as member:
        await member.ask(PULL, {**pull_fields(3), "suspendTimeoutMillis": "0"})
        assert await lags(served) == (0, 0)
        await send(served)
        # It pulls on, and hangs: what it has pulled is not consumed.
        for offset in (3, 4):
            await member.ask(PULL, {**pull_fields(offset), "suspendTimeoutMillis": "0"})
        assert await lags(served) == (1, 1)


async def test_the_first_pull_counts_also_where_it_gets_messages_at_once(served):
    for _ in range(3):
        await send(served)
    async with joined(served, "orders") as member:
        for offset in (1, 2):
            assert (await member.ask(PULL, pull_fields(offset))).code == 0
        assert await lags(served) == (2, 2)


async def test_a_topic_made_again_knows_no_pull_of_the_old_one(served):
    for _ in range(3):
        await send(served)
    async with joined(served, "orders") as member:
        assert (await member.ask(PULL, pull_fields(2))).code == 0
        delete = {"topic": "orders"}
        await served.done(RequestCode.DELETE_TOPIC_IN_BROKER, delete)
        for _ in range(5):
            await send(served)
        assert await lags(served) == (5, 5)


async def test_messages_that_are_deleted_do_not_wait(served):
    for _ in range(4):
        await send(served)
    await commit(served, 1)
    served.broker._store.queue("orders", 0).min_offset = 3
    assert await lags(served) == (1, 1)


async def test_popped_messages_wait_until_they_are_acknowledged(served):
    for _ in range(5):
        await send(served)
    fields = pop_fields(consumerGroup="billing", topic="orders", maxMsgNums=3)
    popped = await served.done(RequestCode.POP_MESSAGE, fields)
    assert await lags(served) == (5, 5)
    [here] = [each for queue, each in (await progress(served)).queues.items() if queue == QUEUE]
    assert here.pull_offset - here.consumer_offset == 3
    # The second and the third are done with, and the first is not.
    for handle in handles(popped)[1:]:
        ack = names(handle) | {"consumerGroup": "billing", "topic": "orders"}
        await served.done(ACK, ack)
    assert await lags(served) == (3, 3)
    _, text = await get(served, "/metrics")
    assert values(text)["rocketmq_consumer_inflight_messages", "orders", "billing"] == 1
    assert values(text)["rocketmq_consumer_ready_messages", "orders", "billing"] == 2


async def test_a_group_that_broadcasts_has_no_lag_at_the_broker(served):
    await send(served)
    async with joined(served, "orders", model=BROADCASTING):
        assert await lags(served) == (0, None)


async def test_a_topic_that_members_do_not_want_any_more_is_no_lag(served):
    await send(served)
    await commit(served, 0)
    await send(served, topic="others")
    async with joined(served, "others"):
        assert await lags(served) == (0, None)
        assert await lags(served, "others") == (1, 1)


async def test_the_first_dead_letter_of_a_group_is_an_increase(served):
    await send(served)
    async with joined(served, "orders"):
        _, text = await get(served, "/metrics")
        name = "rocketmq_send_to_dlq_messages_total"
        assert values(text)[name, "orders", "billing"] == 0
