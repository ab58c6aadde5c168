"""Pulls find what is there, wait for what is not, and are refused by code."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cometmq.codec.bodies.heartbeat import CLUSTERING, ConsumerPart
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.subscription import SQL92, Subscription
from tests.support.request_fields import pull_fields, short_fields
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.member import beat_of, wishes

PULL = RequestCode.PULL_MESSAGE
SUSPEND, SUBSCRIBED = 2, 4


async def send(served, count=1, topic="Orders", tag=None, queue_id=0, **more):
    for number in range(count):
        properties = {"UNIQ_KEY": "K1"} | ({} if tag is None else {"TAGS": tag}) | more
        await served.send(b"%d" % number, topic, queue_id, properties=properties)


def waiting_fields(offset=1, **more):
    """A pull of what comes behind the first message, which waits 20 s for it."""
    flags = {"sysFlag": SUSPEND | SUBSCRIBED, "suspendTimeoutMillis": 20_000}
    return pull_fields("Orders", offset=offset, **flags | more)


@pytest.mark.parametrize(
    ("offset", "code", "next_offset", "count"),
    [
        (0, ResponseCode.SUCCESS, 5, 5),
        (3, ResponseCode.SUCCESS, 5, 2),
        (5, ResponseCode.PULL_NOT_FOUND, 5, 0),
        (6, ResponseCode.PULL_OFFSET_MOVED, 5, 0),
        (1 << 40, ResponseCode.PULL_OFFSET_MOVED, 5, 0),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0, 0),
    ],
)
async def test_an_offset_decides_what_a_pull_is_answered(
    served, offset, code, next_offset, count
):
    await send(served, 5)
    answer = await served.ask(PULL, pull_fields("Orders", offset=offset))
    assert answer.code == code
    assert answer.fields["nextBeginOffset"] == str(next_offset)
    assert (answer.fields["minOffset"], answer.fields["maxOffset"]) == ("0", "5")
    assert len(decode_records(answer.body)) == count


@pytest.mark.parametrize(("flag", "next_offset"), [(SUBSCRIBED, 5), (SUBSCRIBED | SUSPEND, 0)])
async def test_a_consumer_that_follows_a_queue_begins_anew_and_one_that_pulls_by_hand_is_told_the_end(
    served, flag, next_offset
):
    """The official pull consumer, which keeps its offsets by itself, expects the end."""
    await send(served, 5)
    answer = await served.ask(PULL, pull_fields("Orders", offset=9, sysFlag=str(flag)))
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, str(next_offset))


async def test_a_group_with_an_offset_goes_on_at_the_end_of_a_queue_that_lost_its_tail(served):
    await send(served, 5)
    served.broker._offsets.commit("g", "Orders", 0, offset=7)
    answer = await served.ask(PULL, pull_fields("Orders", offset=9))
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "5")


async def test_a_pull_beyond_the_end_commits_nothing(served):
    await send(served, 5)
    brought = pull_fields("Orders", offset=9, commitOffset="8", sysFlag="7")
    answer = await served.ask(PULL, brought)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "0")
    assert served.broker._offsets.get("g", "Orders", 0) is None


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (7, 21)])
async def test_an_empty_queue_waits_at_its_beginning_only(served, offset, code):
    await send(served, queue_id=1)
    answer = await served.ask(PULL, pull_fields("Orders", 0, offset))
    assert answer.code == code


async def test_a_filter_passes_over_what_is_not_wanted(served):
    await send(served, 3, tag="A")
    await send(served, 2, tag="B")
    found = await served.ask(PULL, pull_fields("Orders", subscription="B || C"))
    assert [record.queue_offset for record in decode_records(found.body)] == [3, 4]
    nothing = await served.ask(PULL, pull_fields("Orders", subscription="Z"))
    assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert nothing.fields["nextBeginOffset"] == "5"


async def test_a_held_pull_is_answered_by_a_message_that_passes_its_filter(served):
    await send(served, tag="A")
    waiting = await served.begin(PULL, waiting_fields(subscription="B"))
    await send(served, 2, tag="A")
    assert not waiting.done()
    await send(served, 1, tag="B")
    answer = await waiting
    assert [record.queue_offset for record in decode_records(answer.body)] == [3]


async def test_a_held_pull_is_answered_when_its_time_is_over(served):
    await send(served)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await served.ask(PULL, waiting_fields(suspendTimeoutMillis="300"))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert 0.3 <= loop.time() - began < 10


async def test_a_held_pull_learns_that_its_topic_was_deleted(served):
    await send(served)
    waiting = await served.begin(PULL, waiting_fields())
    await served.done(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
    assert (await waiting).code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_memory_of_held_pulls_goes_with_their_connection(served):
    await send(served)
    for _ in range(10):
        call = await served.begin(PULL, waiting_fields())
        call.add_done_callback(lambda done: done.exception())
    held = served.broker._polls
    await eventually(lambda: len(held) == 10)
    (await served.channels.get(served.broker.address)).close()
    await eventually(lambda: len(held) == 0)


async def test_a_pull_may_commit_the_offset_so_far(served):
    await send(served, 3)
    await served.ask(PULL, pull_fields("Orders", sysFlag="5", commitOffset="2"))
    answer = await served.ask(
        RequestCode.QUERY_CONSUMER_OFFSET,
        {"consumerGroup": "g", "topic": "Orders", "queueId": "0"},
    )
    assert answer.fields["offset"] == "2"


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "an unknown topic": ({"topic": "Nobody"}, 17),
    "a queue beyond the topic's": ({"queueId": "4"}, 29),
    "a queue below zero": ({"queueId": "-1"}, 29),
    "an illegal group": ({"consumerGroup": "a b"}, 26),
    "no subscription anywhere": ({"sysFlag": "0"}, 24),
    "an expression without a tag": ({"subscription": "||"}, 23),
    "a filter language that is not there": ({"expressionType": "XPATH"}, 1),
    "an expression of SQL92 that is none": (
        {"expressionType": "SQL92", "subscription": "a >"},
        23,
    ),
    "a missing offset": ({"queueOffset": None}, 29),
    "an offset that is no number": ({"queueOffset": "x"}, 29),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_pull_is_refused_by_code_and_words(served, case):
    await send(served)
    changes, code = REFUSED[case]
    fields: dict[str, Any] = {**pull_fields("Orders"), **changes}
    fields = {name: value for name, value in fields.items() if value is not None}
    answer = await served.ask(PULL, fields)
    assert answer.code == code
    assert answer.remark


def heartbeat(expression="*", version=1, model=CLUSTERING):
    wanted = wishes("Orders", expression=expression, version=version)
    return beat_of(ConsumerPart("g", wanted, model=model))


async def test_a_subscription_comes_from_the_heartbeat(served):
    await send(served, 2, tag="A")
    await send(served, 1, tag="B")
    await served.ask(RequestCode.HEART_BEAT, body=heartbeat("B"))
    answer = await served.ask(PULL, pull_fields("Orders", sysFlag="0", subVersion="1"))
    assert [record.queue_offset for record in decode_records(answer.body)] == [2]
    older = await served.ask(PULL, pull_fields("Orders", sysFlag="0", subVersion="2"))
    assert older.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_a_broker_without_permission_to_read_refuses_pulls(tmp_path):
    async with serve(tmp_path, perm=2) as served:
        answer = await served.ask(PULL, pull_fields("Orders"))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.fields["forbiddenType"] == "1"


@pytest.mark.parametrize(("is_slave_read", "suggested"), [(True, "1"), (False, "0")])
async def test_who_is_far_behind_is_sent_to_a_slave_where_slaves_may_be_read(
    tmp_path, is_slave_read, suggested
):
    settings = {"is_slave_read": is_slave_read, "access_in_memory_ratio": 0}
    async with serve(tmp_path / "store", **settings) as served:
        await send(served, 3)
        answer = await served.ask(PULL, pull_fields("Orders", offset=0, maxMsgNums="1"))
        assert answer.fields["suggestWhichBrokerId"] == suggested
        latest = await served.ask(PULL, pull_fields("Orders", offset=2))
        assert latest.fields["suggestWhichBrokerId"] == "0"


@pytest.mark.parametrize(("is_slave_read", "suggested"), [(True, "2"), (False, "0")])
async def test_a_group_that_names_a_member_is_sent_there_where_slaves_may_be_read(
    tmp_path, is_slave_read, suggested
):
    async with serve(tmp_path / "store", is_slave_read=is_slave_read) as served:
        await send(served, 3)
        group = {"groupName": "g", "brokerId": 2, "whichBrokerWhenConsumeSlowly": 3}
        body = json.dumps(group).encode()
        await served.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        answer = await served.ask(PULL, pull_fields("Orders"))
        assert answer.fields["suggestWhichBrokerId"] == suggested


CHECK = RequestCode.CHECK_CLIENT_CONFIG


async def send_priced(served, *prices, topic="Orders"):
    for price in prices:
        properties = {"UNIQ_KEY": "K1", "price": str(price)}
        await served.send(b"x", topic, 0, properties=properties)


def sql(expression, offset=0, **more):
    return pull_fields(
        "Orders", 0, offset, subscription=expression, expressionType="SQL92", **more
    )


def offsets(answer):
    return [record.queue_offset for record in decode_records(answer.body)]


def config(expression, kind="SQL92"):
    subscription = {
        "topic": "Orders", "subString": expression, "expressionType": kind, "subVersion": 1,
    }  # fmt: skip
    return json.dumps(
        {"clientId": "c", "group": "g", "subscriptionData": subscription}
    ).encode()


def sql_heartbeat(expression, topic="Orders", *more):
    subscriptions = tuple(
        Subscription(name, text, SQL92, version=1)
        for name, text in ((topic, expression), *more)
    )
    return beat_of(ConsumerPart("g", subscriptions))


async def test_a_pull_gets_what_its_expression_lets_through(served):
    await send_priced(served, *range(10))
    answer = await served.done(PULL, sql("price > 3 AND price <= 6"))
    assert offsets(answer) == [4, 5, 6]
    assert answer.fields["nextBeginOffset"] == "10"


async def test_a_full_answer_ends_before_the_next_message_that_passes(served):
    await send_priced(served, *range(10))
    answer = await served.ask(PULL, sql("price <> 1", maxMsgNums="2"))
    assert offsets(answer) == [0, 2]
    assert answer.fields["nextBeginOffset"] == "3"
    answer = await served.ask(PULL, sql("price > 4", maxMsgBytes="1"))
    assert offsets(answer) == [5]
    assert answer.fields["nextBeginOffset"] == "6"


async def test_a_pull_looks_at_a_bounded_number_of_messages(served):
    fields = short_fields("Orders", 0, properties={"UNIQ_KEY": "K1", "price": "1"})
    sends = [await served.begin(RequestCode.SEND_MESSAGE_V2, fields, b"x") for _ in range(900)]
    await asyncio.gather(*sends)
    offset, looked = 0, []
    while offset < 900:
        answer = await served.ask(PULL, sql("price = 2", offset))
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        looked.append(int(answer.fields["nextBeginOffset"]) - offset)
        offset += looked[-1]
    assert offset == 900
    assert 0 < max(looked) <= 800  # Fewer where the machine is busy: 5 ms is the other bound.


async def test_a_held_pull_sleeps_through_what_its_expression_does_not_let_through(served):
    await send_priced(served, 1)
    fields = sql("price = 7", 1, sysFlag="6", suspendTimeoutMillis="20000")
    waiting = await served.begin(PULL, fields)
    held = served.broker._polls
    await eventually(lambda: len(held) == 1)
    await send_priced(served, 2, 3)
    assert len(held) == 1
    assert not waiting.done()
    await send_priced(served, 7)
    answer = await waiting
    assert offsets(answer) == [3]
    assert answer.fields["nextBeginOffset"] == "4"


async def test_an_expression_of_a_heartbeat_filters(served):
    await send_priced(served, 1, 2, 3)
    await served.ask(RequestCode.HEART_BEAT, body=sql_heartbeat("price >= 2"))
    answer = await served.ask(PULL, pull_fields("Orders", sysFlag="0", subVersion="1"))
    assert offsets(answer) == [1, 2]


async def test_a_bad_expression_of_a_heartbeat_shows_at_the_pull(served):
    await send_priced(served, 1)
    await served.ask(RequestCode.HEART_BEAT, body=sql_heartbeat("price >>"))
    await served.refused(
        ResponseCode.FILTER_DATA_NOT_EXIST,
        "column 8",
        PULL,
        pull_fields("Orders", sysFlag="0", subVersion="1"),
    )


@pytest.mark.parametrize("is_on", [True, False])
async def test_retries_are_filtered_by_the_expression_of_their_topic_where_that_is_on(
    tmp_path, is_on
):
    async with serve(tmp_path, is_retry_filtered=is_on) as served:
        retry = "%RETRY%g"
        await served.ask(
            RequestCode.HEART_BEAT, body=sql_heartbeat("price = 2", "Orders", (retry, "UNIQ_KEY IS NOT NULL"))
        )  # fmt: skip
        for price in (1, 2):
            properties = {"UNIQ_KEY": "K", "price": str(price), "RETRY_TOPIC": "Orders"}
            await served.send(b"x", retry, 0, properties=properties)
        pulled = await served.ask(PULL, pull_fields(retry, sysFlag="0", subVersion="1"))
    assert offsets(pulled) == ([1] if is_on else [0, 1])


async def test_a_client_learns_whether_its_expression_is_one(served):
    await served.done(CHECK, body=config("a > 5"))
    await served.done(CHECK, body=config("TagA", "TAG"))
    await served.done(CHECK)
    await served.refused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, "column 4", CHECK, body=config("a >> 5 AND (")
    )
    pulled = await served.ask(PULL, sql("a >> 5 AND ("))
    assert pulled.code in (ResponseCode.SUBSCRIPTION_PARSE_FAILED, ResponseCode.TOPIC_NOT_EXIST)


async def test_sql92_can_be_switched_off(tmp_path):
    async with serve(tmp_path, is_sql92=False) as served:
        await send_priced(served, 1)
        for answer in (
            await served.ask(CHECK, body=config("a > 5")),
            await served.ask(PULL, sql("a > 5")),
        ):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "does not support consumer to filter message by SQL92" in answer.remark
