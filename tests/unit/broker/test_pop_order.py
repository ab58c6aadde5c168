"""Pop in order: a queue is closed while messages of it are handed out."""

from __future__ import annotations

import asyncio

from cometmq.model.codes import ResponseCode
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_pop import (
    ACK,
    CHANGE,
    HIDDEN_OVER_A_RESTART_MS,
    POP,
    bodies,
    handles,
    names,
    pop,
    pop_fields,
    send,
)


async def test_a_queue_in_order_is_closed_until_its_messages_are_acknowledged(served):
    await send(served, b"1", b"2", b"3")
    first = await pop(served, order="true", maxMsgNums=2)
    assert bodies(first) == [b"1", b"2"]
    assert first.fields["reviveQid"] == "999"
    assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
    one, two = handles(first)
    await served.ask(ACK, names(one))
    assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
    waiting = await served.begin(POP, pop_fields(order="true", pollTime=20_000))
    await asyncio.sleep(0.05)
    await served.ask(ACK, names(two))
    assert bodies(await waiting) == [b"3"]


async def test_what_is_not_acknowledged_in_order_comes_again_with_its_count(tmp_path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2")
        first = await pop(served, order="true", invisibleTime=HIDDEN_OVER_A_RESTART_MS)
        await served.ask(ACK, names(handles(first)[0]))
    async with serve(tmp_path) as served:
        assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
        again = await pop(served, order="true", pollTime=30_000)
        assert bodies(again) == [b"2"]
        assert again.fields["orderCountInfo"] == "0 qo0%1 1;0 0 1"


async def test_an_attempt_whose_answer_was_lost_gets_the_same_messages(served):
    await send(served, b"1")
    await pop(served, order="true", attemptId="a")
    again = await pop(served, order="true", attemptId="a")
    assert bodies(again) == [b"1"]
    assert again.fields["orderCountInfo"] == "0 0 0"


async def test_a_message_in_order_may_come_again_sooner(served):
    await send(served, b"1")
    (handle,) = handles(await pop(served, order="true"))
    await served.ask(CHANGE, names(handle, invisibleTime=100))
    assert bodies(await pop(served, order="true", pollTime=30_000)) == [b"1"]
