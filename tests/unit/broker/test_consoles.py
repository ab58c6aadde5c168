"""What consoles ask a broker about topics, groups and their clients; a hand-made client answers."""

from __future__ import annotations

import pytest

from cometmq.broker.statistics import statistics
from cometmq.broker.statistics.statistics import ConsumeRateSamples
from cometmq.broker.tables.offsets import Offsets
from cometmq.codec.bodies.stats import (
    decode_all_consume_stats,
    decode_consume_stats,
    decode_group_list,
    decode_topic_stats,
)
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fastjson import loads
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.queue import MessageQueue
from cometmq.net.loop import loop_clock
from tests.unit.broker.billing import QUEUE, WANTED, commit, pull_fields, send
from tests.unit.broker.conftest import serve
from tests.unit.broker.member import Member, beat_of


@pytest.fixture
async def client(served):
    async with Member(served) as joined:
        yield joined


# --- statistics


async def test_a_topic_tells_offsets_times_and_how_much_came_lately(served):
    for _ in range(3):
        await send(served)
    answer = await served.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    stats = decode_topic_stats(answer.body)
    bounds = stats.queues[QUEUE]
    assert (bounds.min_offset, bounds.max_offset) == (0, 3)
    assert abs(bounds.updated_ms - loop_clock().now_ms()) < 60_000
    assert stats.queues[MessageQueue("orders", "broker-a", 1)].max_offset == 0
    assert stats.put_rate == pytest.approx(3 / 60)


async def test_an_unknown_topic_has_no_statistics(served):
    answer = await served.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nothing"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_group_tells_how_far_it_is_in_each_queue(served):
    for _ in range(3):
        await send(served)
    await commit(served, 2)
    answer = await served.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "billing"})
    stats = decode_consume_stats(answer.body)
    progress = stats.queues[QUEUE]
    assert (progress.broker_offset, progress.consumer_offset, progress.lag) == (3, 2, 1)
    assert progress.consumed_ms > 0
    assert stats.lag == 1


async def test_a_group_can_be_asked_for_some_topics_only(served):
    await send(served)
    await commit(served, 1)
    fields = {"consumerGroup": "billing", "topicList": "other;nothing"}
    answer = await served.ask(RequestCode.GET_CONSUME_STATS, fields)
    assert decode_consume_stats(answer.body).queues == {}


async def test_all_groups_of_a_broker_with_their_lag_together(served):
    await send(served)
    await send(served)
    await commit(served, 1)
    answer = await served.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = loads(answer.body)
    assert body["totalDiff"] == 1
    assert body["brokerAddr"] == served.broker.address
    assert any("billing" in group for group in body["consumeStatsList"])


async def test_of_all_groups_each_stands_there_as_it_would_alone(served, monkeypatch):
    """However many turns of the loop it takes, and in how many topics a group has offsets."""
    monkeypatch.setattr(statistics, "QUEUES_IN_A_TURN", 3)
    await send(served)
    for group in ("billing", "shipping", "stock"):
        await served.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=f'{{"groupName":"{group}"}}'.encode(),
        )
        await commit(served, 1, group=group)
    answer = await served.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    together = decode_all_consume_stats(answer.body)
    assert {"billing", "shipping", "stock"} <= set(together)
    for group, topics in together.items():
        alone = await served.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
        queues = {queue: each for topic in topics for queue, each in topic.queues.items()}
        assert queues == decode_consume_stats(alone.body).queues, group
    assert [each.lag for each in together["stock"]] == [0]


async def test_who_consumes_a_topic_groups_with_offsets_and_groups_that_are_there(
    served, client
):
    await send(served)
    await commit(served, 1, group="once")
    await client.beat(WANTED)
    answer = await served.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert decode_group_list(answer.body) == ("billing", "once")


async def test_topics_of_a_group_and_what_it_wants_of_one(served, client):
    await send(served)
    await commit(served, 1)
    await client.beat(WANTED)
    answer = await served.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "billing"})
    assert decode_topic_list(answer.body).topics == ("orders",)
    fields = {"group": "billing", "topic": "orders"}
    answer = await served.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, fields)
    assert loads(answer.body)["subscriptionData"]["subString"] == "*"


async def test_time_spans_say_how_old_the_next_message_is(served):
    await send(served)
    await send(served)
    await commit(served, 1)
    fields = {"topic": "orders", "group": "billing"}
    answer = await served.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    first, empty = loads(answer.body)["consumeTimeSpanSet"]
    assert first["messageQueue"]["queueId"] == 0
    assert 0 <= first["delayTime"] < 60_000
    assert first["minTimeStamp"] <= first["consumeTimeStamp"] <= first["maxTimeStamp"]
    assert empty["minTimeStamp"] == -1


def test_the_rate_of_a_group_is_the_growth_of_its_offsets(tmp_path, clock):
    offsets = Offsets(file=None, clock=clock, pool=None)  # type: ignore[arg-type]  # Saves nothing.
    samples = ConsumeRateSamples(offsets, clock)
    offsets.commit("billing", "orders", 0, offset=100)
    samples.sample()
    clock.turn(10)
    offsets.commit("billing", "orders", 0, offset=150)
    offsets.commit("billing", "orders", 1, offset=50)
    assert samples.rate("billing", "orders") == pytest.approx(10.0)
    assert samples.rate("other", "orders") == 0.0


def test_a_moment_after_a_look_a_rate_is_of_10_seconds_all_the_same(tmp_path, clock):
    offsets = Offsets(file=None, clock=clock, pool=None)  # type: ignore[arg-type]  # Saves nothing.
    samples = ConsumeRateSamples(offsets, clock)
    offsets.commit("billing", "orders", 0, offset=0)
    samples.sample()
    clock.turn(0.1)
    offsets.commit("billing", "orders", 0, offset=100)
    assert samples.rate("billing", "orders") == pytest.approx(10.0)


# --- questions that are passed on


async def test_a_client_whose_heartbeat_is_of_an_old_version_is_not_asked(served):
    await served.done(
        RequestCode.HEART_BEAT, body=beat_of(WANTED, client_id="me@1"), version=61
    )
    fields = {"consumerGroup": "billing", "clientId": "me@1"}
    await served.refused(
        ResponseCode.SYSTEM_ERROR, "too low", RequestCode.GET_CONSUMER_RUNNING_INFO, fields
    )


# --- settings


async def test_settings_are_read_with_their_version(served):
    answer = await served.ask(RequestCode.GET_BROKER_CONFIG)
    values = decode_java_properties(answer.body)
    assert values["brokerName"] == "broker-a"
    assert values["autoCreateTopicEnable"] == "true"
    assert loads(answer.fields["version"])["counter"] == 0


async def test_the_bounds_of_pulls_change_while_the_broker_runs(served):
    for _ in range(5):
        await send(served)
    body = b"maxTransferCountOnMessageInMemory=2\nmaxTransferBytesOnMessageInMemory=100000\n"
    await served.done(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields(0))
    assert len(decode_records(pulled.body)) == 2
    read = await served.ask(RequestCode.GET_BROKER_CONFIG)
    assert decode_java_properties(read.body)["maxTransferCountOnMessageInMemory"] == "2"
    assert loads(read.fields["version"])["counter"] == 1


async def test_whether_the_log_is_read_ahead_changes_while_the_broker_runs(served):
    await send(served)
    for mode, value in (("1", "false"), ("0", "true")):
        answer = await served.done(
            RequestCode.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": mode}
        )
        assert answer.remark == f"set commitlog readahead mode success, mode: {mode}"
        read = await served.ask(RequestCode.GET_BROKER_CONFIG)
        assert decode_java_properties(read.body)["dataReadAheadEnable"] == value
        pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields(0))
        assert len(decode_records(pulled.body)) == 1


@pytest.mark.parametrize("fields", [{}, {"READ_AHEAD_MODE": "2"}, {"READ_AHEAD_MODE": "no"}])
async def test_another_way_to_read_the_log_is_refused(served, fields):
    await served.refused(
        ResponseCode.INVALID_PARAMETER,
        "READ_AHEAD_MODE",
        RequestCode.SET_COMMITLOG_READ_MODE,
        fields,
    )


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"storePathRootDir=/\n", ResponseCode.NO_PERMISSION, "storePathRootDir"),
        (b"noSuchKey=1\n", ResponseCode.NO_PERMISSION, "noSuchKey"),
        (b"maxTransferCountOnMessageInMemory=none\n", 29, "maxTransferCountOnMessageInMemory"),
        (b"a=\\u00zz\n", ResponseCode.SYSTEM_ERROR, "string2Properties"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_by_name(served, body, code, words):
    await served.refused(code, words, RequestCode.UPDATE_BROKER_CONFIG, body=body)


LONG_MAX = (1 << 63) - 1


@pytest.fixture
async def billing(served):
    """A member of the group billing, which wants all of the topic orders."""
    async with Member(served) as joined:
        await joined.beat(WANTED)
        yield joined


async def offset_of(served, group: str, topic: str = "orders") -> int | None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    answer = await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return int(answer.fields["offset"]) if answer.code == 0 else None


# --- 308


async def corrections(served, group: str, **more: str) -> dict[int, int]:
    fields = {"compareGroup": group, "topic": "orders", **more}
    answer = await served.done(RequestCode.QUERY_CORRECTION_OFFSET, fields)
    return loads(answer.body)["correctionOffsets"]


async def test_the_smallest_offset_of_any_group_is_told_for_each_queue(served):
    for _ in range(5):
        await send(served)
    await commit(served, 4, group="fast")
    await commit(served, 2, group="slow")
    assert await corrections(served, "fast") == {0: 2}
    assert await corrections(served, "nobody") == {0: 2}


async def test_groups_that_are_left_out_do_not_count_and_lose_nothing(served):
    for _ in range(5):
        await send(served)
    await commit(served, 4, group="fast")
    await commit(served, 2, group="slow")
    assert await corrections(served, "fast", filterGroups="other,slow") == {0: 4}
    assert await corrections(served, "slow", filterGroups="slow") == {0: LONG_MAX}
    assert await offset_of(served, "slow") == 2


# --- 314


async def clone(served, **more: str) -> None:
    fields = {"srcGroup": "billing", "destGroup": "copy", "offline": "false", **more}
    await served.done(RequestCode.CLONE_GROUP_OFFSET, fields)


async def test_topics_that_the_members_do_not_want_are_copied_only_when_they_are_offline(
    served, billing
):
    await send(served, topic="refunds")
    fields = {"consumerGroup": "billing", "topic": "refunds", "queueId": "0",
              "commitOffset": "1"}  # fmt: skip
    await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    await clone(served)
    assert await offset_of(served, "copy", "refunds") != 1
    await clone(served, offline="true")
    assert await offset_of(served, "copy", "refunds") == 1


# --- 321


async def look(served, **more: str):
    fields = {"topic": "orders", "queueId": "0", "index": "0", "count": "10", **more}
    return await served.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)


async def test_entries_of_a_queue_are_shown_with_its_bounds(served):
    for _ in range(3):
        await send(served)
    told = loads((await look(served, index="1")).body)
    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 3)
    first, second = told["queueData"]
    assert second["physicOffset"] == first["physicOffset"] + first["physicSize"]
    assert first["tagsCode"] == 3433164  # "paid".hashCode() in Java.
    assert "filterData" not in told
    assert len(loads((await look(served, count="2")).body)["queueData"]) == 2


async def test_what_is_not_there_is_told_by_name(served):
    await send(served)
    nowhere = await look(served, queueId="7")
    assert nowhere.code == ResponseCode.SYSTEM_ERROR
    assert "7@orders is not exist!" in nowhere.remark
    behind = await look(served, index="1")
    assert behind.code == 0
    assert "Index 1 of 0@orders is not exist!" in behind.remark
    assert loads(behind.body)["queueData"] == []


async def test_a_look_tells_what_a_group_wants_of_the_topic(served, billing):
    await send(served)
    told = loads((await look(served, consumerGroup="billing")).body)
    assert told["subscriptionData"]["subString"] == "*"
    told = loads((await look(served, consumerGroup="nobody")).body)
    assert told["filterData"] == "nobody@orders is not online!"


# --- 353


async def readable(served, topic: str = "orders", **more: str) -> bool:
    fields = {"group": "billing", "topic": topic, **more}
    answer = await served.done(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)
    return loads(answer.body)["readable"]


async def test_a_group_does_not_get_a_topic_that_is_forbidden_to_it(served, billing):
    await send(served)
    pull = {**pull_fields(0), "sysFlag": "0"}
    await served.done(RequestCode.PULL_MESSAGE, pull)
    assert await readable(served)
    assert not await readable(served, readable="false")
    refused = await served.refused(
        ResponseCode.NO_PERMISSION, "billing", RequestCode.PULL_MESSAGE, pull
    )
    assert refused.fields["forbiddenType"] == "5"
    assert "orders" in refused.remark
    assert await readable(served, readable="true")
    await served.done(RequestCode.PULL_MESSAGE, pull)


async def test_what_is_forbidden_stays_so_over_a_restart_topic_by_topic(tmp_path):
    async with serve(tmp_path / "store") as served:
        for topic in ("orders", "refunds"):
            assert not await readable(served, topic, readable="false")
        assert await readable(served, "refunds", readable="true")
    async with serve(tmp_path / "store") as served:
        assert not await readable(served, "orders")
        assert await readable(served, "refunds")


# --- what is not there yet


async def test_requests_of_features_that_are_not_there_are_refused_by_number(served):
    for code in (1008,):
        await served.refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{code} not supported", code
        )
