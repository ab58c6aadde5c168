"""A group is made to go on elsewhere: its broker sends it there, or its clients reset themselves."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.record import decode_records
from cometmq.model.codes import Language, RequestCode, ResponseCode
from tests.unit.broker.billing import QUEUE, WANTED, commit, pull_fields, send
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.member import Member


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
