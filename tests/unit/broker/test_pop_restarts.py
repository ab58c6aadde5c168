"""What was handed out is known after a restart and after a kill: nothing is lost, nothing comes early."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from cometmq.broker.pop import check_points, journal
from cometmq.codec.bodies.consumer_offset import decode_offset_table
from cometmq.codec.bodies.pop_journal import (
    AckBody,
    CheckPointBody,
    encode_ack,
    encode_check_point,
)
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.conftest import eventually, put_as_broker, serve
from tests.unit.broker.test_pop import (
    ACK,
    HIDDEN_OVER_A_RESTART_MS,
    bodies,
    handles,
    names,
    pop,
    send,
    served_check_points,
)


async def test_a_restart_forgets_nothing_that_was_handed_out(tmp_path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2", b"3")
        first = await pop(served, invisibleTime=HIDDEN_OVER_A_RESTART_MS)
        await served.ask(ACK, names(handles(first)[1]))
    async with serve(tmp_path) as served:
        assert (await pop(served)).code == ResponseCode.POLLING_TIMEOUT
        again = await pop(served, pollTime=30_000)
        seen = bodies(again)
        if len(seen) < 2:
            seen += bodies(await pop(served, pollTime=30_000))
        assert sorted(seen) == [b"1", b"3"]
        assert (
            int(again.fields["popTime"])
            >= int(first.fields["popTime"]) + HIDDEN_OVER_A_RESTART_MS
        )


async def test_a_copy_of_the_files_as_a_kill_leaves_them_hands_out_again_what_is_open(tmp_path):
    async with serve(tmp_path / "killed") as served:
        await send(served, b"1", b"2", b"3")
        await eventually_saved(served)
        first = await pop(served, maxMsgNums=2, invisibleTime=HIDDEN_OVER_A_RESTART_MS)
        await served.ask(ACK, names(handles(first)[0]))
        await eventually(
            lambda: not served_check_points(served).unrecorded(1)
        )  # It is on record.
        shutil.copytree(tmp_path / "killed", tmp_path / "copy")
    async with serve(tmp_path / "copy") as served:
        assert bodies(await pop(served)) == [b"3"]  # Neither early nor lost.
        assert bodies(await pop(served, pollTime=30_000)) == [b"2"]


async def eventually_saved(served):
    """The group is known to the offsets on disk, at the queue's beginning."""
    fields = {"consumerGroup": "g", "topic": "Orders", "queueId": "0", "commitOffset": "0"}
    await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    served.broker._offsets.saver.save_if_dirty()
    await eventually(lambda: served.broker._offsets.saver._running is None)


async def test_what_is_done_is_not_read_again_at_a_start(tmp_path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2")
        for handle in handles(await pop(served)):
            await served.ask(ACK, names(handle))
    async with serve(tmp_path) as served:
        assert len(served_check_points(served)) == 0
        assert (await pop(served)).code == ResponseCode.POLLING_TIMEOUT
        await send(served, b"3")
        assert bodies(await pop(served)) == [b"3"]


async def test_a_pop_that_stays_open_does_not_make_the_next_start_long(tmp_path, monkeypatch):
    monkeypatch.setattr(check_points, "BEHIND_MAX", 10)
    async with serve(tmp_path, revive_queues=1) as served:
        await send(served, b"long")
        await pop(served, invisibleTime=60_000)
        for _ in range(20):
            await send(served, b"short")
            for handle in handles(await pop(served)):
                await served.ask(ACK, names(handle))

        async def is_near():
            fields = {
                "consumerGroup": journal.REVIVE_GROUP,
                "topic": "rmq_sys_REVIVE_LOG_DefaultCluster",
                "queueId": "0",
            }
            told = await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
            return int(told.fields["offset"]) >= 10

        await eventually(is_near)
    async with serve(tmp_path, revive_queues=1) as served:
        assert len(served_check_points(served)) == 1
        assert (await pop(served)).code == ResponseCode.POLLING_TIMEOUT


async def test_what_another_broker_wrote_into_the_revive_topic_counts(served):
    await send(served, b"1", b"2")
    assert bodies(await pop(served, consumerGroup="java")) == [b"1", b"2"]
    now = served.broker._clock.now_ms()
    theirs = CheckPointBody(
        "Orders", "java", 0, 0, (0, 1), now - 1_000, 6_000, broker_name="broker-a"
    )
    ack = AckBody("Orders", "java", 0, 0, now - 1_000, (0,), "broker-a")
    revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
    for tag, body in (("ck", encode_check_point(theirs)), encode_ack(ack)):
        put_as_broker(served, revive, body, {"TAGS": tag}, queue_id=3)
    again = await pop(served, consumerGroup="java", pollTime=30_000)
    assert bodies(again) == [b"2"]


async def test_a_clean_stop_says_how_far_the_group_is(tmp_path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2", b"3")
        await pop(served, maxMsgNums=2)
    saved = decode_offset_table((tmp_path / "config" / "consumerOffset.json").read_text())
    assert saved.offsets["Orders@g"][0] == 2


@pytest.mark.parametrize("late_ms", [0, 30_000], ids=["in time", "long after it was due"])
async def test_a_check_point_that_came_by_a_timer_waits_for_its_acknowledgements(
    served, late_ms
):
    """A timer that opens another broker's store long after delivers first what is due first: check points."""
    await send(served, b"1", b"2")
    assert bodies(await pop(served, consumerGroup="java")) == [b"1", b"2"]
    popped_ms = served.broker._clock.now_ms() - 3_000 - late_ms
    point = CheckPointBody("Orders", "java", 0, 0, (0, 1), popped_ms, 3_000)
    revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
    put_as_broker(served, revive, encode_check_point(point), {"TAGS": "ck"})
    await asyncio.sleep(0.3)
    tag, body = encode_ack(AckBody("Orders", "java", 0, 0, popped_ms, (1,)))
    put_as_broker(served, revive, body, {"TAGS": tag})
    again = await pop(served, consumerGroup="java", pollTime=30_000)
    assert bodies(again) == [b"1"]
