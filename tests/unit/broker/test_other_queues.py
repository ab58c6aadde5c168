"""A broker on a Java broker's store with light and batch queues: it serves them, and takes no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cometmq.codec.batch import decode_batch
from cometmq.codec.properties import decode_properties
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from tests.golden.test_store_kinds import EXPECTED, SOURCE
from tests.support.request_fields import pull_fields, short_fields, topic_fields
from tests.support.store_puts import writable_copy
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_sends import KEY, stored

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
SIZES: dict[str, Any] = {
    "commitlog_file_size": 65_536,
    "queue_file_size": 2_000,
    "index_slots": 100,
    "index_entries": 400,
    "disk_warning_ratio": 90,
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return writable_copy(SOURCE / "store", tmp_path / "store")


async def test_light_queues_are_consumed_where_they_are_switched_on(store):
    wanted = [line["body"] for line in EXPECTED["plain"] if "%LMQ%left" in line["lights"]]
    async with serve(store, is_light_read=True, **SIZES) as served:
        found = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("%LMQ%left", offset=190))
        bodies = [record.body.decode() for record in decode_records(found.body)]
        assert bodies == wanted[190:]
        refused = await served.ask(
            RequestCode.SEND_MESSAGE_V2, short_fields("%LMQ%left", properties={}), b"x"
        )
        assert refused.code == ResponseCode.NO_PERMISSION
    async with serve(store, **SIZES) as served:
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("%LMQ%left"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_batch_topics_are_consumed_and_a_send_to_one_is_refused_by_name(store):
    lines = [line for line in EXPECTED["batches"] if line["queue"] == 1]
    async with serve(store, **SIZES) as served:
        offset = lines[3]["offset"]
        fields = pull_fields("KindsBatches", 1, offset)
        found = await served.done(RequestCode.PULL_MESSAGE, fields)
        first = decode_records(found.body)[0]
        assert [item.body.decode() for item in decode_batch(first.body)] == lines[3]["bodies"]
        next_offset = int(found.fields["nextBeginOffset"])
        assert next_offset > offset + len(lines[3]["bodies"])
        asked = {"topic": "KindsBatches", "queueId": "1"}
        answer = await served.ask(RequestCode.GET_MAX_OFFSET, asked)
        assert answer.fields["offset"] == str(sum(len(line["bodies"]) for line in lines))
        for _ in range(2):
            await served.refused(
                ResponseCode.MESSAGE_ILLEGAL,
                "queue.type=BatchCQ",
                RequestCode.SEND_MESSAGE_V2,
                short_fields("KindsBatches", properties={}),
                b"x",
            )


def create_fields(attributes: str) -> dict[str, str]:
    return topic_fields("Fresh", 2, attributes=attributes)


async def test_a_batch_topic_is_not_made(served):
    await served.refused(
        ResponseCode.INVALID_PARAMETER,
        "queue.type=BatchCQ",
        CREATE,
        create_fields("+queue.type=BatchCQ"),
    )
    await served.done(CREATE, create_fields("+queue.type=SimpleCQ"))


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_message_for_light_queues_is_refused_where_java_would_put_it_there(
    tmp_path, is_on
):
    properties = {"UNIQ_KEY": KEY, "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
    async with serve(tmp_path / "store", is_multi_dispatch=is_on) as served:
        for _ in range(2):  # The first opens a lane.
            answer = await served.ask(
                RequestCode.SEND_MESSAGE_V2, short_fields(properties=properties), b"x"
            )
            if is_on:
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL
                assert "INNER_MULTI_DISPATCH" in answer.remark
            else:
                record = await stored(served, answer)
                kept = decode_properties(record.property_block)
                assert kept["INNER_MULTI_DISPATCH"] == "%LMQ%a,%LMQ%b"
        await served.send(b"x", properties={"UNIQ_KEY": KEY})
