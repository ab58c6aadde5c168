"""Offsets beyond the end of their queue at the start of a master: the log lost its end, or never came as far."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.pop.journal import REVIVE_GROUP
from cometmq.codec.bodies.consumer_offset import (
    OffsetTable,
    decode_offset_table,
    encode_offsets_file,
)
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.record import decode_records
from cometmq.model.codes import Language, RequestCode, ResponseCode
from cometmq.model.codes import RequestCode as Code
from cometmq.model.data_version import DataVersion
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from tests.support.request_fields import long_fields, pop_fields
from tests.unit.broker.billing import QUEUE, WANTED, commit, pull_fields, send
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.member import Member

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"


def write_offsets(store, offsets):
    """Have the file of a broker that was killed say these offsets, by "topic@group" and queue."""
    (store / "abort").touch()
    path = store / "config" / "consumerOffset.json"
    known = decode_offset_table(path.read_text()).offsets if path.exists() else {}
    path.write_text(encode_offsets_file(OffsetTable(DataVersion(1), {**known, **offsets})))


def warnings_of(caplog):
    return [
        each.message
        for each in caplog.records
        if "beyond it, which would make groups" in each.message
    ]


async def test_a_group_sees_what_is_sent_behind_the_lost_end_of_its_queue(tmp_path, caplog):
    """60 of 60 new messages were skipped: the group stood at 400, and the promoted log ended at 340."""
    async with serve(tmp_path) as served:
        for _ in range(3):
            await send(served)
        await commit(served, 3)
    write_offsets(tmp_path, {"orders@billing": {0: 8}, "orders@others": {0: 2, 3: 9}})
    async with serve(tmp_path) as served:
        assert served.broker._offsets.get("billing", "orders", 0) == 3
        assert served.broker._offsets.of("others", "orders") == {0: 2, 3: 0}
        for _ in range(6):
            await send(served)
        # A consumer that still runs has the old offset in memory: it is moved, whatever it commits first.
        await commit(served, 8)
        moved = await served.ask(Code.PULL_MESSAGE, pull_fields(8))
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED
        assert moved.fields["nextBeginOffset"] == "3"
        found = await served.ask(Code.PULL_MESSAGE, pull_fields(3))
        assert len(decode_records(found.body)) == 6
        await commit(served, 9)
        assert served.broker._offsets.get("billing", "orders", 0) == 9
    (line,) = warnings_of(caplog)
    assert line.startswith("set to the end of the queue: 2 offsets beyond it")
    assert "billing in orders (1 queue)" in line
    assert "others in orders (1 queue)" in line


async def test_offsets_within_their_queues_stay_and_nothing_is_said(tmp_path, caplog):
    async with serve(tmp_path) as served:
        for _ in range(3):
            await send(served)
        await commit(served, 3)
    async with serve(tmp_path) as served:
        assert served.broker._offsets.get("billing", QUEUE.topic, 0) == 3
        assert served.broker._offsets.resets == {}
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(("said", "kept"), [(5, {0: 0}), (1, {0: 0}), (0, {0: 0})])
async def test_check_points_behind_a_lost_end_are_read_again(tmp_path, said, kept):
    """The offset is that of the last record that is done; one beyond the end passed over the next check point."""
    fields = pop_fields("orders", 0, consumerGroup="billing", maxMsgNums=1, bornTime=0)
    async with serve(tmp_path, revive_queues=1) as served:
        await send(served)
        await served.done(Code.POP_MESSAGE, fields)
        assert served.broker._store.queue(REVIVE_TOPIC, 0).max_offset == 1
    write_offsets(tmp_path, {f"{REVIVE_TOPIC}@{REVIVE_GROUP}": {0: said}})
    async with serve(tmp_path, revive_queues=1) as served:
        assert served.broker._offsets.of(REVIVE_GROUP, REVIVE_TOPIC) == kept


async def test_no_check_point_is_passed_over_where_the_revive_queue_has_no_record(tmp_path):
    async with serve(tmp_path, revive_queues=1):
        pass
    write_offsets(tmp_path, {f"{REVIVE_TOPIC}@{REVIVE_GROUP}": {0: 5}})
    async with serve(tmp_path, revive_queues=1) as served:
        assert served.broker._offsets.of(REVIVE_GROUP, REVIVE_TOPIC) == {}


async def test_half_messages_are_open_where_the_log_lost_what_ended_them(tmp_path):
    """Their group's offset said that they were ended: by records that are in no log any more."""
    half = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "7F000001000000000000000000000001"}
    async with serve(tmp_path) as served:
        fields = long_fields("orders", properties=half, sysFlag="4")
        await served.done(Code.SEND_MESSAGE, fields, b"half")
        assert served.broker._store.queue(HALF_TOPIC, 0).max_offset == 1
    key = f"@{TRANSACTION_GROUP}"
    write_offsets(tmp_path, {HALF_TOPIC + key: {0: 1}, OP_HALF_TOPIC + key: {0: 1}})
    async with serve(tmp_path) as served:
        (transactions,) = (
            each
            for each in served.broker.role.features
            if type(each).__name__ == "Transactions"
        )
        assert len(transactions._table.open) == 1


async def test_a_reset_moves_the_offset_and_the_next_pull_is_sent_there(served):
    for _ in range(5):
        await send(served)
    await commit(served, 5)
    fields = {"topic": "orders", "group": "billing", "timestamp": "0", "isForce": "true"}
    answer = await served.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert decode_queue_offsets(answer.body)[QUEUE] == 0
    moved = await served.ask(RequestCode.PULL_MESSAGE, pull_fields(5))
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED
    assert moved.fields["nextBeginOffset"] == "0"
    again = await served.done(RequestCode.PULL_MESSAGE, pull_fields(0))
    assert len(decode_records(again.body)) == 5


async def test_a_held_pull_learns_of_a_reset_at_once(served):
    await send(served)
    await commit(served, 1)
    held = asyncio.create_task(
        served.ask(RequestCode.PULL_MESSAGE, pull_fields(1, suspend=True))
    )
    await eventually(lambda: len(served.broker._polls))
    fields = {"topic": "orders", "group": "billing", "queueId": "0", "offset": "0",
              "timestamp": "-1", "isForce": "true"}  # fmt: skip
    await served.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    answer = await asyncio.wait_for(held, 5)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "0")


async def test_a_commit_of_before_the_reset_does_not_undo_it(served):
    for _ in range(3):
        await send(served)
    await commit(served, 3)
    fields = {"topic": "orders", "group": "billing", "timestamp": "0", "isForce": "true"}
    await served.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    await commit(served, 3)
    assert served.broker._offsets.get("billing", "orders", 0) == 0
    with_commit = {**pull_fields(3), "sysFlag": "5", "commitOffset": "3"}
    await served.ask(RequestCode.PULL_MESSAGE, with_commit)
    assert served.broker._offsets.get("billing", "orders", 0) == 0
    await commit(served, 2)
    assert served.broker._offsets.get("billing", "orders", 0) == 2


@pytest.mark.parametrize("language", [Language.JAVA, Language.CPP])
async def test_where_clients_reset_themselves_they_are_told(tmp_path, language):
    async with serve(tmp_path, is_reset_by_broker=False) as served:
        await send(served)
        await commit(served, 1)
        member = Member(served)
        await member.beat(WANTED)
        fields = {"topic": "orders", "group": "billing", "timestamp": "0", "isForce": "true"}
        answer = await served.ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, language=int(language)
        )
        assert decode_queue_offsets(answer.body)[QUEUE] == 0
        told = await eventually(
            lambda: [
                c for c in member.asked if c.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            ]
        )
        assert (b'"offsetTable":[' in told[0].body) == (language is Language.CPP)
        assert decode_queue_offsets(told[0].body)[QUEUE] == 0
        await member.channels.close()
