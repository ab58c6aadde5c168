"""A message of a delay level waits in its level's queue, as Java stores it, and comes when it is due."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.delay_offset import decode_delay_offsets
from cometmq.codec.queue_entry import decode_entry
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import StoreFull
from tests.support.hand_clock import HandClock
from tests.unit.broker.waiting import (
    SCHEDULE,
    by_hand,
    delivered,
    lying_in,
    send,
    stays_empty,
)

KEY = "7F0000010000000118B4AAC200000001"


async def test_it_waits_where_java_lets_it_wait(tmp_path):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        answer = await send(served, b"b", {"DELAY": "3", "UNIQ_KEY": KEY}, queue_id=2)
        assert answer.code == ResponseCode.SUCCESS
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("2", "0")
        queue = served.broker._store.queue(SCHEDULE, 2)
        (entry,) = served.broker._store.entries(queue, 0, 10)
        assert entry.tags_code == clock.now_ms() + 10_000
        (record,) = await lying_in(served, SCHEDULE, 2)
    assert record.properties().items() >= {
        ("DELAY", "3"), ("REAL_TOPIC", "Orders"), ("REAL_QID", "2"), ("UNIQ_KEY", KEY),
    }  # fmt: skip


async def test_it_comes_when_it_is_due_and_not_before(tmp_path):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"later", {"DELAY": "2", "TAGS": "t"}, flag="7", queue_id=1)
        clock.turn(4.999)
        assert await stays_empty(served, queue_id=1)
        clock.turn(0.001)
        (record,) = await delivered(served, 1, queue_id=1)
        queue = served.broker._store.queue("Orders", 1)
        (entry,) = served.broker._store.entries(queue, 0, 1)
    assert (record.body, record.flag, record.born_timestamp) == (b"later", 7, 1_700_000_000_000)
    assert record.properties()["DELAY"] == "2"  # Java's keeps it, too.
    assert entry.tags_code == ord("t")


async def test_levels_can_be_chosen_and_the_last_one_stands_for_all_beyond(tmp_path):
    clock = HandClock()
    async with by_hand(tmp_path, clock, delay_levels="1s 3s") as served:
        await send(served, b"beyond", {"DELAY": "18"})
        (record,) = await lying_in(served, SCHEDULE, 1)
        assert record.properties()["DELAY"] == "2"
        clock.turn(3)
        assert [r.body for r in await delivered(served, 1)] == [b"beyond"]


async def test_a_restart_goes_on_where_it_was(tmp_path):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"first", {"DELAY": "1"})
        await send(served, b"second", {"DELAY": "3"})
        clock.turn(1)
        await delivered(served, 1)
    file = tmp_path / "config" / "delayOffset.json"
    assert decode_delay_offsets(file.read_text()).offsets == {1: 1, 3: 0}
    clock.turn(10)
    async with by_hand(tmp_path, clock) as served:
        found = await delivered(served, 2)
        answer = await served.ask(RequestCode.GET_ALL_DELAY_OFFSET)
    assert [record.body for record in found] == [b"first", b"second"]
    assert decode_delay_offsets(answer.body).offsets == {1: 1, 3: 1}


async def test_a_start_brings_back_an_offset_beyond_its_queue(tmp_path):
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"b", {"DELAY": "1"})
    text = json.dumps({"dataVersion": {}, "offsetTable": {"1": 99, "7": 3}})
    (tmp_path / "config" / "delayOffset.json").write_text(text)
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"c", {"DELAY": "1"})
        clock.turn(1)
        assert [record.body for record in await delivered(served, 1)] == [b"c"]


@pytest.mark.parametrize("error", [StoreFull("no room"), KeyError("a fault of ours")])
async def test_a_delivery_that_fails_is_tried_again_and_harms_no_other_level(tmp_path, error):
    clock = HandClock()
    async with by_hand(tmp_path, clock, delay_levels="1s 1s") as served:
        await send(served, b"stuck", {"DELAY": "1"})
        await send(served, b"other", {"DELAY": "2"}, topic="Others")
        store, put_many = served.broker._store, served.broker._store.put_many
        failed: list[int] = []

        def refuse(puts):
            if puts[0][2] == b"stuck" and not failed:
                failed.append(1)
                raise error
            return put_many(puts)

        store.put_many = refuse
        clock.turn(1)
        await delivered(served, 1, "Others")
        assert failed
        assert await stays_empty(served)
        clock.turn(1)
        assert [record.body for record in await delivered(served, 1)] == [b"stuck"]


async def test_nobody_reaches_the_delay_queue_by_its_name(tmp_path):
    async with by_hand(tmp_path, HandClock()) as served:
        await send(served, b"b", {"DELAY": "3"})
        answer = await send(served, b"b", topic=SCHEDULE, queue_id=2)
    assert answer.code == ResponseCode.NO_PERMISSION


def test_the_entry_has_room_for_a_time():
    assert (
        decode_entry(b"\0" * 12 + (1_700_000_010_000).to_bytes(8)).tags_code
        == 1_700_000_010_000
    )
