"""A message that the broker stores by itself lies in a queue that is read, however the topic was changed meanwhile."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.group_config import encode_group_config
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.model.codes import RequestCode
from cometmq.model.flags import TRANSACTION_COMMIT
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
from tests.unit.broker.conftest import eventually
from tests.unit.broker.waiting import by_hand, delivered, lying_in, send

RETRY = "%RETRY%billing"
WAITING_SECONDS = 30


async def half(served, body: bytes, queue_id: int, _clock: HandClock, **more):
    """Send a half message; gives what commits it."""
    properties = {"TRAN_MSG": "true", "PGROUP": "payers", "UNIQ_KEY": body.hex().upper()}
    sent = await send(served, body, properties, queue_id=queue_id, sysFlag="4", **more)
    place = sent.fields["msgId"]
    end = EndTransaction(
        producer_group="payers",
        tran_state_table_offset=int(sent.fields["queueOffset"]),
        commit_log_offset=int(place[-16:], 16),
        commit_or_rollback=TRANSACTION_COMMIT,
        msg_id=place,
        transaction_id=body.hex().upper(),
    )

    async def commit() -> None:
        await served.done(RequestCode.END_TRANSACTION, encode_fields(end))

    return commit


async def of_level(served, body: bytes, queue_id: int, clock: HandClock):
    assert (await send(served, body, {"DELAY": "4"}, queue_id=queue_id)).code == 0

    async def wait() -> None:
        clock.turn(WAITING_SECONDS)

    return wait


async def timed(served, body: bytes, queue_id: int, clock: HandClock):
    deliver = str(clock.now_ms() + WAITING_SECONDS * 1000)
    sent = await send(served, body, {"TIMER_DELIVER_MS": deliver}, queue_id=queue_id)
    assert sent.code == 0, sent.remark

    async def wait() -> None:
        clock.turn(WAITING_SECONDS + 2)

    return wait


async def found(served, topic: str, queues: int) -> set[bytes]:
    """The bodies in the first queues of a topic."""
    return {
        record.body
        for queue in range(queues)
        for record in await lying_in(served, topic, queue)
    }


@pytest.mark.parametrize("kind", [half, of_level, timed])
@pytest.mark.parametrize(
    ("read", "write"), [(4, 4), (2, 8), (8, 2), (3, 0)], ids=["fewer", "read", "written", "none written"]
)  # fmt: skip
async def test_what_waited_for_a_queue_that_is_not_read_any_more_lies_in_one_that_is(
    tmp_path, kind, read, write
):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        topics = served.broker._topics
        await topics.put(TopicConfig("Orders", 8, 8))
        bodies = {b"%d" % queue: queue for queue in range(8)}
        ends = [await kind(served, body, queue, clock) for body, queue in bodies.items()]
        await topics.put(TopicConfig("Orders", read, write))
        for end in ends:
            await end()

        async def look() -> bool:
            return await found(served, "Orders", min(read, write) or read) == bodies.keys()

        await eventually(look)
        assert b"1" in {each.body for each in await lying_in(served, "Orders", 1)}


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (4, 0), (0, 3)])
async def test_each_retry_lies_in_a_queue_of_the_retry_topic_after_a_change_of_the_groups_number(
    tmp_path, before, after
):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await served.broker._groups.put(GroupConfig("billing", retry_queues=before))
        if before:
            served.broker._topics.ensure(RETRY, queues=before, perm=6)
        bodies = {b"%d" % number for number in range(30)}
        for body in bodies:
            await send(served, body, queue_id=0)
        changed = GroupConfig("billing", retry_queues=after)
        await served.done(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group_config(changed)
        )
        for record in await delivered(served, len(bodies)):
            header = encode_fields(SendBackRequest(record.physical_offset, "billing", 1))
            await served.done(RequestCode.CONSUMER_SEND_MSG_BACK, header, version=479)
        clock.turn(2)
        topic = served.broker._topics.get(RETRY if after else "%DLQ%billing")
        assert topic.read_queues >= max(after, 1)
        await eventually(lambda: _are_there(served, topic.name, topic.read_queues, bodies))


async def _are_there(served, topic: str, queues: int, bodies: set[bytes]) -> bool:
    return await found(served, topic, queues) == bodies


async def test_more_retry_queues_are_there_as_soon_as_the_group_is_changed(tmp_path):
    async with by_hand(tmp_path, HandClock()) as served:
        served.broker._topics.ensure(RETRY, queues=1, perm=6)
        changed = GroupConfig("billing", retry_queues=8)
        await served.done(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group_config(changed)
        )
        topic = served.broker._topics.get(RETRY)
    assert (topic.read_queues, topic.write_queues) == (8, 8)


async def behind(served) -> dict[str, int]:
    answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return json.loads(decode_kv_table(answer.body)["messagesBehindReadQueues"])


async def test_messages_behind_the_last_read_queue_are_counted_until_each_group_has_them(
    tmp_path,
):
    async with by_hand(tmp_path, HandClock()) as served:
        await served.broker._topics.put(TopicConfig("Orders", 4, 4))
        for queue in (0, 2, 3, 3):
            await send(served, b"body", queue_id=queue)
        assert await behind(served) == {}
        await served.broker._topics.put(TopicConfig("Orders", 2, 2))
        assert await behind(served) == {"Orders": 3}
        offsets = served.broker._offsets
        for group, queue, offset in (("one", 2, 1), ("one", 3, 2), ("other", 3, 1)):
            offsets.commit(group, "Orders", queue, offset=offset)
        assert await behind(served) == {"Orders": 2}
        offsets.commit("other", "Orders", 2, offset=1)
        offsets.commit("other", "Orders", 3, offset=2)
        assert await behind(served) == {}
