"""SQL92 at the broker: what pulls get, how held ones wake, and how bad expressions are answered."""

from __future__ import annotations

import asyncio
import json

import pytest

from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.subscription import SQL92, Subscription
from tests.support.request_fields import pull_fields, short_fields
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.member import beat_of

PULL = RequestCode.PULL_MESSAGE
CHECK = RequestCode.CHECK_CLIENT_CONFIG


async def send(served, *prices, topic="Orders"):
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


def heartbeat(expression, topic="Orders", *more):
    subscriptions = tuple(
        Subscription(name, text, SQL92, version=1)
        for name, text in ((topic, expression), *more)
    )
    return beat_of(ConsumerPart("g", subscriptions))


async def test_a_pull_gets_what_its_expression_lets_through(served):
    await send(served, *range(10))
    answer = await served.done(PULL, sql("price > 3 AND price <= 6"))
    assert offsets(answer) == [4, 5, 6]
    assert answer.fields["nextBeginOffset"] == "10"


async def test_a_full_answer_ends_before_the_next_message_that_passes(served):
    await send(served, *range(10))
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
    await send(served, 1)
    fields = sql("price = 7", 1, sysFlag="6", suspendTimeoutMillis="20000")
    waiting = await served.begin(PULL, fields)
    held = served.broker._polls
    await eventually(lambda: len(held) == 1)
    await send(served, 2, 3)
    assert len(held) == 1
    assert not waiting.done()
    await send(served, 7)
    answer = await waiting
    assert offsets(answer) == [3]
    assert answer.fields["nextBeginOffset"] == "4"


async def test_an_expression_of_a_heartbeat_filters(served):
    await send(served, 1, 2, 3)
    await served.ask(RequestCode.HEART_BEAT, body=heartbeat("price >= 2"))
    answer = await served.ask(PULL, pull_fields("Orders", sysFlag="0", subVersion="1"))
    assert offsets(answer) == [1, 2]


async def test_a_bad_expression_of_a_heartbeat_shows_at_the_pull(served):
    await send(served, 1)
    await served.ask(RequestCode.HEART_BEAT, body=heartbeat("price >>"))
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
            RequestCode.HEART_BEAT, body=heartbeat("price = 2", "Orders", (retry, "UNIQ_KEY IS NOT NULL"))
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
        await send(served, 1)
        for answer in (
            await served.ask(CHECK, body=config("a > 5")),
            await served.ask(PULL, sql("a > 5")),
        ):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "does not support consumer to filter message by SQL92" in answer.remark
