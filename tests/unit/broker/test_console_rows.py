"""Requests of consoles for single rows: offsets side by side (308, 314), queue entries (321), 353."""

from __future__ import annotations

import pytest

from cometmq.codec.fastjson import loads
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.billing import WANTED, commit, pull_fields, send
from tests.unit.broker.conftest import serve
from tests.unit.broker.member import Member

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
    refused = await served.ask(RequestCode.PULL_MESSAGE, pull)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.fields["forbiddenType"] == "5"
    assert "billing" in refused.remark
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
