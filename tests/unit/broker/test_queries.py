"""Queries find messages by key and by their place, as Java's broker answers them."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.codec.message_id import decode_message_id
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.loop import loop_clock
from tests.support.request_fields import short_fields
from tests.unit.broker.conftest import Served, serve

LONG_MAX = (1 << 63) - 1


async def send(served: Served, number: int, *, keys: str, topic: str = "Orders") -> Command:
    properties = {"UNIQ_KEY": f"UNIQUE{number}", "KEYS": keys}
    return await served.send(b"%d" % number, topic, number % 4, properties=properties)


async def query(served: Served, key: str, topic: str = "Orders", **more: object) -> Command:
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": 64,
        "beginTimestamp": 0,
        "endTimestamp": LONG_MAX,
        **more,
    }
    return await served.ask(
        RequestCode.QUERY_MESSAGE, {name: str(value) for name, value in fields.items()}
    )


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


async def test_a_message_is_found_by_each_word_of_its_keys_and_by_its_unique_key(served):
    for number in range(9):
        await send(served, number, keys=f"all k{number % 3}")
    found = await query(served, "k1")
    assert found.code == ResponseCode.SUCCESS
    assert bodies(found) == [b"1", b"4", b"7"], "the oldest first"
    assert bodies(await query(served, "UNIQUE8", _UNIQUE_KEY_QUERY="true")) == [b"8"]
    assert len(bodies(await query(served, "all"))) == 9


async def test_a_unique_id_of_a_producer_whose_clock_is_ahead_is_found(served):
    """mqadmin and dashboards begin 1 s before the time in the id, which is the producer's."""
    sent_ms = loop_clock().now_ms()
    await send(served, 1, keys="one")
    for ahead_ms in (300, 60_000, 300_000):
        asked: dict[str, Any] = {
            "beginTimestamp": sent_ms + ahead_ms - 1000,
            "_UNIQUE_KEY_QUERY": "true",
        }
        assert bodies(await query(served, "UNIQUE1", **asked)) == [b"1"]
    late: dict[str, Any] = {"beginTimestamp": sent_ms + 3_600_000}
    unknown = await query(served, "UNIQUE1", **late, _UNIQUE_KEY_QUERY="true")
    assert unknown.code == ResponseCode.QUERY_NOT_FOUND
    assert (await query(served, "one", **late)).code == ResponseCode.QUERY_NOT_FOUND


async def test_the_newest_are_given_when_there_are_more_than_asked_for(served):
    for number in range(9):
        await send(served, number, keys="all")
    assert bodies(await query(served, "all", maxNum=3)) == [b"6", b"7", b"8"]


async def test_no_more_than_the_settings_allow_are_given(tmp_path):
    async with serve(tmp_path, query_count_max=4, query_count_unique=2) as served:
        for number in range(9):
            await send(served, number, keys="all")
        assert len(bodies(await query(served, "all"))) == 4
        assert len(bodies(await query(served, "all", _UNIQUE_KEY_QUERY="true"))) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "unknown"},
        {"topic": "Other"},
        {"endTimestamp": 1000},
        {"beginTimestamp": LONG_MAX - 1},
        {"maxNum": 0},
        {"maxNum": -1},
    ],
)
async def test_what_is_not_there_is_answered_by_its_code(served, fields):
    await send(served, 1, keys="all")
    answer = await query(served, **{"key": "all", **fields})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "can not find message, maybe time range not correct"
    assert answer.fields["indexLastUpdatePhyoffset"] == "0"


async def test_an_answer_says_how_far_the_index_is(served):
    await send(served, 1, keys="all")
    last = await send(served, 2, keys="other")
    answer = await query(served, "all")
    _, offset = decode_message_id(last.fields["msgId"])
    assert answer.fields["indexLastUpdatePhyoffset"] == str(offset)
    [record] = decode_records(answer.body)
    assert int(answer.fields["indexLastUpdateTimestamp"]) >= record.store_timestamp


async def test_an_answer_fits_a_frame(tmp_path):
    async with serve(tmp_path, commitlog_file_size=32 << 20, index_slots=100) as served:
        for number in range(6):
            fields = short_fields("Orders", 0, properties={"UNIQ_KEY": "U", "KEYS": "all"})
            body = b"%d" % number * (3 << 20)
            await served.done(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert [body[:1] for body in bodies(await query(served, "all"))] == [
            *(b"1", b"2", b"3", b"4", b"5")
        ]


async def test_a_broker_without_index_says_that_it_finds_nothing(tmp_path):
    async with serve(tmp_path, is_index_built=False) as served:
        await send(served, 1, keys="all")
        assert (await query(served, "all")).code == ResponseCode.QUERY_NOT_FOUND
    assert not (tmp_path / "index").exists()


async def test_a_message_is_found_again_after_a_restart(tmp_path):
    for number in range(3):
        async with serve(tmp_path, index_slots=50, index_entries=4) as served:
            await send(served, number, keys="all")
            assert len(bodies(await query(served, "all"))) == number + 1
    assert len(list((tmp_path / "index").iterdir())) == 2


async def test_a_message_is_viewed_by_the_offset_of_its_id(served):
    sent = await send(served, 7, keys="all")
    _, offset = decode_message_id(sent.fields["msgId"])
    answer = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    assert bodies(answer) == [b"7"]


@pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
async def test_where_no_message_begins_none_is_viewed(served, offset):
    await send(served, 7, keys="all")
    answer = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"can not find message by the offset, {offset}"
