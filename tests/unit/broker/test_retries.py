"""A message that is given back comes again later, and after its last try lies in the dead letters."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.retry.retries import Retries
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.flags import PERM_READ, TOPIC_UNIT_SUB
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
from tests.unit.broker.waiting import SCHEDULE, by_hand, delivered, lying_in, send

RETRY, DEAD = "%RETRY%billing", "%DLQ%billing"


async def give_back(served, record: Record, delay_level=0, *, version=479, **more):
    header = SendBackRequest(record.physical_offset, "billing", delay_level, **more)
    return await served.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, encode_fields(header), version=version
    )


@pytest.fixture
async def consumed(tmp_path):
    """A broker, its clock, and a message that was consumed in vain."""
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"body", {"TAGS": "t", "KEYS": "k"}, flag="5", queue_id=1)
        (record,) = await lying_in(served, "Orders", 1)
        yield served, clock, record


async def test_it_comes_again_after_ten_seconds_and_knows_where_it_was(consumed):
    served, clock, record = consumed
    assert (await give_back(served, record)).code == ResponseCode.SUCCESS
    (waiting,) = await lying_in(served, SCHEDULE, 2)
    assert waiting.properties()["REAL_TOPIC"] == RETRY
    clock.turn(10)
    (again,) = await delivered(served, 1, RETRY)
    assert (again.body, again.flag, again.reconsume_times) == (b"body", 5, 1)
    assert (again.born_timestamp, again.born_host) == (record.born_timestamp, record.born_host)
    first_id = encode_message_id(record.store_host, record.physical_offset)
    assert again.properties().items() >= {
        ("RETRY_TOPIC", "Orders"), ("ORIGIN_MESSAGE_ID", first_id), ("TAGS", "t"),
        ("KEYS", "k"), ("WAIT", "false"), ("DELAY", "3"),
    }  # fmt: skip


async def test_a_message_that_cannot_be_stored_lets_no_other_pass_for_stored(
    consumed, monkeypatch
):
    """Both are sent back in one loop iteration, in which the first of them stores all."""
    served, _, bad = consumed
    await send(served, b"good", queue_id=1)
    _, good = await lying_in(served, "Orders", 1)
    made = Retries._retry

    def retry(self, record, *rest):
        if record.body == bad.body:
            raise ValueError("no message can be made of this record")
        return made(self, record, *rest)

    monkeypatch.setattr(Retries, "_retry", retry)
    answers = await asyncio.gather(give_back(served, bad), give_back(served, good))
    assert [each.code for each in answers] == [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SUCCESS,
    ]
    (waiting,) = await lying_in(served, SCHEDULE, 2)
    assert waiting.body == b"good"


async def test_each_try_waits_a_level_longer_and_remembers_the_first_message(consumed):
    served, clock, record = consumed
    await give_back(served, record)
    clock.turn(10)
    (again,) = await delivered(served, 1, RETRY)
    await give_back(served, again)
    (waiting,) = await lying_in(served, SCHEDULE, 3)
    first_id = encode_message_id(record.store_host, record.physical_offset)
    assert waiting.reconsume_times == 2
    assert waiting.properties().items() >= {
        ("RETRY_TOPIC", "Orders"), ("ORIGIN_MESSAGE_ID", first_id), ("DELAY", "4"),
    }  # fmt: skip


async def test_its_consumer_may_choose_the_level(consumed):
    served, _, record = consumed
    await give_back(served, record, 1)
    assert len(await lying_in(served, SCHEDULE, 0)) == 1


@pytest.mark.parametrize(
    ("delay_level", "retries"), [(-1, None), (0, 0)], ids=["at once", "after the last try"]
)
async def test_what_gets_no_further_try_is_a_dead_letter(consumed, delay_level, retries):
    served, _, record = consumed
    await give_back(served, record, delay_level, max_reconsume_times=retries)
    (dead,) = await delivered(served, 1, DEAD)
    assert (dead.body, dead.reconsume_times, dead.properties()["DELAY"]) == (b"body", 1, "0")
    assert dead.properties()["RETRY_TOPIC"] == "Orders"
    topic = served.broker._topics.get(DEAD)
    assert (topic.read_queues, topic.write_queues, topic.perm) == (1, 1, 6)


async def test_the_groups_number_of_tries_counts_for_old_clients(consumed):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_max_times=0))
    await give_back(served, record, max_reconsume_times=5, version=120)
    assert len(await lying_in(served, DEAD)) == 1
    await give_back(served, record, max_reconsume_times=5, version=121)
    assert len(await lying_in(served, SCHEDULE, 2)) == 1


@pytest.mark.parametrize("queues", [0, -1])
async def test_what_a_group_without_retry_queues_refuses_is_a_dead_letter_and_not_gone(
    consumed, queues
):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_queues=queues))
    assert (await give_back(served, record)).code == ResponseCode.SUCCESS
    assert await lying_in(served, SCHEDULE, 2) == []
    assert [each.body for each in await lying_in(served, DEAD)] == [b"body"]
    # As a client of 5.x sends it by itself, where the broker refuses to take it back.
    sent = await send(served, b"own", {"RETRY_TOPIC": "Orders"}, RETRY)
    assert sent.code == ResponseCode.SUCCESS
    assert [each.body for each in await lying_in(served, DEAD)] == [b"body", b"own"]


async def test_a_unit_is_noted_in_the_retry_topic(consumed):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_queues=3))
    await give_back(served, record, unit_mode=True)
    topic = served.broker._topics.get(RETRY)
    assert (topic.sys_flag, topic.read_queues) == (TOPIC_UNIT_SUB, 3)


async def test_what_cannot_be_given_back_is_refused_by_name(consumed):
    served, _, record = consumed
    for place in (1, served.broker._store.max_offset):
        answer = await give_back(served, record._replace(physical_offset=place))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"look message by offset failed, {place}"
    await served.broker._topics.put(TopicConfig(RETRY, 1, 1, PERM_READ))
    answer = await give_back(served, record)
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_an_unknown_group_is_refused_where_groups_are_not_made(tmp_path):
    async with by_hand(tmp_path, HandClock(), is_group_auto_created=False) as served:
        await served.broker._groups.put(GroupConfig("g"))
        await send(served, b"b")
        (record,) = await lying_in(served, "Orders")
        answer = await give_back(served, record)
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_client_that_sends_its_retry_itself_waits_its_level(consumed):
    served, _, _ = consumed
    served.broker._groups.get("billing")
    await send(served, b"again", {"DELAY": "4", "RETRY_TOPIC": "Orders"}, RETRY)
    (waiting,) = await lying_in(served, SCHEDULE, 3)
    assert waiting.properties()["REAL_TOPIC"] == RETRY


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_such_a_retry_is_a_dead_letter_after_its_last_try_or_from_a_group_in_order(
    consumed, is_ordered
):
    served, _, _ = consumed
    served.broker._groups.get("billing")
    if is_ordered:
        queue = MessageQueue("Orders", "broker-a", 0)
        served.broker._locks.lock([queue], group="billing", client_id="c")
    properties = {"DELAY": "4", "RETRY_TOPIC": "Orders"}
    await send(served, b"b", properties, RETRY, reconsumeTimes="3", maxReconsumeTimes="3")
    await send(served, b"b", properties, RETRY, reconsumeTimes="4", maxReconsumeTimes="3")
    dead = await lying_in(served, DEAD)
    assert len(dead) == (2 if is_ordered else 1)
    assert dead[0].properties()["DELAY"] == "-1"
