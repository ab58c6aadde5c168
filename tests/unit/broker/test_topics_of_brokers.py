"""Topics that the broker acts on: it alone writes there, and it alone moves the groups that note its progress."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cometmq.codec.batch import decode_batch, encode_batch
from cometmq.codec.bodies.pop_journal import CheckPointBody, encode_check_point
from cometmq.codec.properties import decode_properties, encode_properties
from cometmq.codec.record import decode_record, decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import SettingsError
from tests.golden.test_store_kinds import EXPECTED, SOURCE
from tests.support.request_fields import (
    long_fields,
    pop_fields,
    pull_fields,
    short_fields,
    topic_fields,
)
from tests.support.store_puts import writable_copy
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_replies import BACK, asking
from tests.unit.broker.test_sends import KEY, stored

REVIVE_LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"
OF_BROKERS = (
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "rmq_sys_wheel_timer",
    REVIVE_LOG,
    "rmq_sys_REVIVE_LOG_OtherCluster",
    "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
    "rmq_sys_not_there_yet",
)
PROPERTIES = {"UNIQ_KEY": KEY, "TAGS": "ck", "REAL_TOPIC": "Orders", "REAL_QID": "0"}


def requests(topic: str):
    """A message for a topic, by every request that carries one."""
    v2 = short_fields(topic, 0, PROPERTIES)
    batch = encode_batch([(0, b"b", encode_properties(PROPERTIES))] * 2)
    back = short_fields(topic, 0, PROPERTIES)
    back["i"] += BACK
    long_back = long_fields(topic, 0, PROPERTIES)
    long_back["properties"] += BACK
    timed = short_fields(topic, 0, {**PROPERTIES, "TIMER_DELAY_MS": "5000"})
    delayed = short_fields(topic, 0, {**PROPERTIES, "DELAY": "1"})
    half = short_fields(
        topic, 0, {**PROPERTIES, "TRAN_MSG": "true", "PGROUP": "g"}, sysFlag="4"
    )
    return {
        "send": (RequestCode.SEND_MESSAGE, long_fields(topic, 0, PROPERTIES), b"b"),
        "send V2": (RequestCode.SEND_MESSAGE_V2, v2, b"b"),
        "send V2, without a queue": (RequestCode.SEND_MESSAGE_V2, {**v2, "e": "-1"}, b"b"),
        "a batch": (RequestCode.SEND_BATCH_MESSAGE, {**v2, "m": "true"}, batch),
        "a batch as V2": (RequestCode.SEND_MESSAGE_V2, {**v2, "m": "true"}, batch),
        "a reply": (RequestCode.SEND_REPLY_MESSAGE, long_back, b"b"),
        "a reply V2": (RequestCode.SEND_REPLY_MESSAGE_V2, back, b"b"),
        "a timed message": (RequestCode.SEND_MESSAGE_V2, timed, b"b"),
        "a delayed message": (RequestCode.SEND_MESSAGE_V2, delayed, b"b"),
        "a half message": (RequestCode.SEND_MESSAGE_V2, half, b"b"),
    }


WAYS = tuple(requests(""))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("topic", OF_BROKERS)
async def test_a_client_wrote_where_the_broker_believes_what_it_reads(served, topic, way):
    asker = await asking(served)
    end = served.broker._store.max_offset
    code, fields, body = requests(topic)[way]
    for _ in range(2):  # The second would find an open queue.
        await served.refused(ResponseCode.NO_PERMISSION, topic, code, fields, body)
    assert served.broker._store.max_offset == end
    assert not asker.asked
    await asker.channels.close()


@pytest.mark.parametrize(
    "topic",
    [
        "RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_cn-hangzhou", "BenchmarkTest", "TBW102", "DefaultCluster",
        "broker-a", "DefaultCluster_REPLY_TOPIC", "%DLQ%g", "Orders",
    ],
)  # fmt: skip
async def test_official_clients_and_tools_send_to_these(served, topic):
    await served.send(b"b", topic)


async def test_a_reply_was_stored_with_flags_that_hide_its_queue(served):
    asker = await asking(served)
    fields = short_fields("DefaultCluster_REPLY_TOPIC", sysFlag=str(4 | 16 | 32 | 128))
    fields["i"] = BACK
    answer = await served.done(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"b")
    offset = str(int(answer.fields["msgId"][-16:], 16))
    view = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    assert decode_record(view.body).sys_flag == 0
    await asker.channels.close()


async def test_a_forged_check_point_gave_messages_of_a_topic_to_a_group(served):
    await served.send(b"confidential")
    point = CheckPointBody("Orders", "mal", 0, 0, (0,), 1, 1, broker_name="broker-a")
    body = encode_check_point(point, revive_offset=0, acknowledged=0)
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        answer = await served.ask(code, short_fields(REVIVE_LOG, 0, PROPERTIES), body)
        assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("group", "topic"),
    [
        ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC"),
        ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        ("CID_RMQ_SYS_REVIVE_GROUP", REVIVE_LOG),
    ],
)
async def test_a_client_moved_the_brokers_own_notes_of_its_progress(served, group, topic):
    offsets = served.broker._offsets
    await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {
        "consumerGroup": "other", "topic": topic, "queueId": "0", "commitOffset": "7",
    })  # fmt: skip
    before = offsets.of(group, topic)
    place = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    pull = pull_fields(topic, consumerGroup=group, maxMsgNums=1, sysFlag=5, commitOffset=9)
    pop = pop_fields(
        topic, 0, consumerGroup=group, maxMsgNums=1, invisibleTime=30_000, bornTime=0
    )
    refused = [
        (RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": "9"}),
        (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
         {"topic": topic, "group": group, "timestamp": "-1", "isForce": "true", "queueId": "0", "offset": "0"}),
        (RequestCode.CLONE_GROUP_OFFSET,
         {"srcGroup": "other", "destGroup": group, "topic": topic, "offline": "true"}),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "cleanOffset": "true"}),
        (RequestCode.POP_MESSAGE, pop),
    ]  # fmt: skip
    for code, fields in refused:
        await served.refused(ResponseCode.NO_PERMISSION, group, code, fields)
    await served.ask(RequestCode.PULL_MESSAGE, pull)
    assert offsets.of(group, topic) == before


async def test_a_sender_wrote_the_notes_of_timer_and_checks(served):
    forged = {
        "TIMER_ROLL_TIMES": "9" * 5_000, "TIMER_ENQUEUE_MS": "1", "TIMER_DEQUEUE_MS": "1",
        "TRANSACTION_CHECK_TIMES": "15", "TRAN_PREPARED_QUEUE_OFFSET": "0", "mine": "1",
    }  # fmt: skip
    for more, notes in (
        ({"TIMER_DELAY_MS": "60000"}, ("TIMER_ROLL_TIMES", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS")),
        ({"TRAN_MSG": "true", "PGROUP": "g"}, ("TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET")),
    ):  # fmt: skip
        flag = "4" if "TRAN_MSG" in more else "0"
        fields = short_fields("Orders", 0, {"UNIQ_KEY": KEY, **forged, **more}, sysFlag=flag)
        answer = await served.ask(RequestCode.SEND_MESSAGE_V2, fields, b"b")
        offset = str(int(answer.fields["msgId"][-16:], 16))
        view = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
        properties = decode_record(view.body).properties()
        assert properties["REAL_TOPIC"] == "Orders"
        assert properties["mine"] == "1"
        assert not properties.keys() & set(notes)


@pytest.mark.parametrize(
    "properties",
    [
        {"UNIQ_KEY": "k" * 256, "TRAN_MSG": "true", "PGROUP": "g"},
        {"UNIQ_KEY": KEY, "TRAN_MSG": "true", "PGROUP": "g" * 256},
        {"UNIQ_KEY": KEY, "TIMER_DELAY_MS": "5000", "TIMER_DEL_UNIQKEY": "Orders+" + "k" * 512},
    ],
)
async def test_what_waits_was_kept_in_memory_with_a_key_of_any_length(served, properties):
    flag = "4" if "TRAN_MSG" in properties else "0"
    fields = short_fields("Orders", 0, properties, sysFlag=flag)
    await served.refused(
        ResponseCode.MESSAGE_ILLEGAL, "are allowed", RequestCode.SEND_MESSAGE_V2, fields, b"b"
    )


def left_by_java(folder, mappings: dict[str, object]) -> None:
    config = folder / "config"
    config.mkdir(parents=True, exist_ok=True)
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    text = json.dumps({"dataVersion": version, "topicQueueMappingInfoMap": mappings})
    (config / "topicQueueMapping.json").write_text(text)


async def test_a_broker_that_finds_mapped_queues_does_not_start(
    tmp_path,
):
    left_by_java(tmp_path, {"Static": {"topic": "Static", "totalQueues": 4}})
    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(SettingsError, match="Static"):
        async with serve(tmp_path):
            pass
    assert {thread.ident for thread in threading.enumerate()} == before
    (tmp_path / "config" / "topicQueueMapping.json").unlink()
    async with serve(tmp_path) as served:  # Neither its lock nor its store is in the way.
        assert served.broker.port


async def test_a_file_without_mappings_is_no_reason(tmp_path):
    left_by_java(tmp_path, {})
    async with serve(tmp_path) as served:
        await served.refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "static topics",
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        )


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
