"""Bodies of topics, groups, offsets and key-value tables: both ages of them, and broken ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.bodies.consumer_offset import (
    OffsetTable,
    decode_offset_table,
    encode_light_offsets_file,
    encode_offset_table,
    encode_offsets_file,
)
from cometmq.codec.bodies.group_config import (
    decode_group_config,
    decode_group_configs,
    decode_group_table,
    encode_group_config,
    encode_group_table,
    encode_groups_file,
)
from cometmq.codec.bodies.ha_status import (
    HaGroup,
    HaGroupMember,
    HaMaster,
    HaSlave,
    HaStatus,
    decode_ha_status,
    encode_ha_status,
)
from cometmq.codec.bodies.kv import (
    decode_kv_file,
    decode_kv_table,
    encode_kv_file,
    encode_kv_table,
)
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.codec.bodies.topic_config import (
    TopicsFileEncoder,
    decode_data_version,
    decode_topic_config,
    decode_topic_configs,
    decode_topic_table,
    encode_data_version,
    encode_topic_config,
    encode_topic_table,
)
from cometmq.codec.bodies.topic_list import TopicList, decode_topic_list, encode_topic_list
from cometmq.codec.fastjson import loads
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig

STORES = Path(__file__).parents[2] / "golden" / "stores"
FILES: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], str]]] = {
    "topics.json": (decode_topic_table, TopicsFileEncoder().encode),
    "subscriptionGroup.json": (decode_group_table, encode_groups_file),
    "consumerOffset.json": (decode_offset_table, encode_offsets_file),
}


@pytest.mark.parametrize("store", ["clean", "crash"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_java_wrote_is_written_again_byte_for_byte(store, name):
    content = (STORES / store / "store" / "config" / name).read_bytes()
    decode, encode = FILES[name]
    assert encode(decode(content)).encode() == content


def test_offsets_of_light_groups_have_a_table_of_their_own():
    content = (STORES / "kinds" / "store" / "config" / "lmqConsumerOffset.json").read_bytes()
    assert encode_light_offsets_file(decode_offset_table(content)).encode() == content
    text = (
        '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":3},'
        '"groupTopicMap":{"g":["T"],"%LMQ%g":["T"]},"lmqOffsetTable":{"%LMQ%a@%LMQ%g":7},'
        '"offsetTable":{"T@g":{0:1,1:2},"T@%LMQ%g":{1:9}}}'
    )
    table = decode_offset_table(text)
    assert table.offsets == {
        "T@g": {0: 1, 1: 2},
        "T@%LMQ%g": {1: 9},
        "%LMQ%a@%LMQ%g": {0: 7},
    }
    again = decode_offset_table(encode_light_offsets_file(table))
    assert again == table
    assert loads(encode_light_offsets_file(table))["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 7}
    assert "lmqOffsetTable" not in loads(encode_offsets_file(table))


def test_topics_as_4_9_writes_them_are_read():
    table = decode_topic_table(
        '{"dataVersion":{"counter":3,"timestamp":7},"topicConfigTable":{"T":{"order":true,'
        '"perm":4,"readQueueNums":2,"topicFilterType":"SINGLE_TAG","topicName":"T",'
        '"topicSysFlag":1,"writeQueueNums":1}}}'
    )
    assert table.version == DataVersion(7, 3, 0)
    assert table.topics == {"T": TopicConfig("T", 2, 1, 4, sys_flag=1, ordered=True)}
    assert decode_topic_table(encode_topic_table(table)) == table


def test_a_topic_that_says_little_has_java_s_defaults():
    topic = decode_topic_table('{"topicConfigTable":{"T":{}}}').topics["T"]
    assert topic == TopicConfig("T", 16, 16)


def test_single_topics_and_lists_of_them_come_back():
    topic = TopicConfig("T", 1, 2, attributes={"+message.type": "FIFO"})
    body = encode_topic_config(topic)
    assert decode_topic_config(body) == topic
    assert decode_topic_configs(b'{"topicConfigList":[%b,%b]}' % (body, body)) == (topic, topic)


def test_a_group_as_4_9_writes_it_is_read():
    group = decode_group_config(
        '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,'
        '"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,'
        '"retryMaxTimes":3,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )
    assert group == GroupConfig("g", consume_enabled=False, retry_max_times=3)


def test_groups_and_what_is_forbidden_to_them_come_back():
    text = (
        '{"dataVersion":{"counter":1,"stateVersion":2,"timestamp":3},'
        '"forbiddenTable":{"g":{"T":5}},"subscriptionGroupTable":{"g":{"groupName":"g",'
        '"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000}}}}}'
    )
    table = decode_group_table(text)
    assert table.forbidden == {"g": {"T": 5}}
    assert table.groups["g"].retry_policy["type"] == "EXPONENTIAL"
    assert decode_group_table(encode_group_table(table)) == table
    group = table.groups["g"]
    body = encode_group_config(group)
    assert decode_group_config(body) == group
    assert decode_group_configs(b'{"groupConfigList":[%b]}' % body) == (group,)


@pytest.mark.parametrize(
    "text",
    ['{"offsetTable":{"T@g":{0:12,1:3}}}', '{"offsetTable":{"T@g":{"0":12,"1":3,}}}'],
)
def test_offsets_are_read_with_and_without_quotes(text):
    assert decode_offset_table(text).offsets == {"T@g": {0: 12, 1: 3}}


def test_offsets_are_written_without_quotes():
    table = OffsetTable(DataVersion(1, 2, 3), {"T@g": {0: 12, 1: 3}})
    assert encode_offset_table(table) == (
        b'{"dataVersion":{"counter":2,"stateVersion":3,"timestamp":1},'
        b'"offsetTable":{"T@g":{0:12,1:3}}}'
    )


def test_key_value_tables_and_their_file_come_back():
    assert encode_kv_table({"T": "broker-a:4"}) == b'{"table":{"T":"broker-a:4"}}'
    assert decode_kv_table(b'{"table":{"T":"broker-a:4"}}') == {"T": "broker-a:4"}
    assert decode_kv_table(b"{}") == {}
    tables = {"n": {"k": 'v "quoted"'}, "empty": {}}
    assert decode_kv_file(encode_kv_file(tables)) == tables


def test_topic_lists_and_data_versions_come_back():
    body = encode_topic_list(["A", "B"], broker_address="h:1")
    assert body == b'{"brokerAddr":"h:1","topicList":["A","B"]}'
    assert decode_topic_list(body) == TopicList(("A", "B"), "h:1")
    assert decode_topic_list(b'{"topicList":[]}') == TopicList()
    version = DataVersion(1, 2, 3)
    assert decode_data_version(encode_data_version(version)) == version


@pytest.mark.parametrize(
    ("decode", "text", "complaint"),
    [
        (decode_topic_table, "", "topic table must be an object, not null"),
        (decode_topic_table, "[]", "topic table must be an object"),
        (decode_topic_table, '{"topicConfigTable"', "topic table: "),
        (decode_topic_table, '{"topicConfigTable":7}', "topicConfigTable must be an object"),
        (
            decode_topic_table,
            '{"topicConfigTable":{"T":{"perm":"RW"}}}',
            "topicConfigTable.T: perm must be a number of 32 bits, not 'RW'",
        ),
        (
            decode_topic_table,
            '{"topicConfigTable":{"T":{"readQueueNums":4294967296}}}',
            "readQueueNums must be a number of 32 bits",
        ),
        (decode_topic_config, "{}", "topicName is missing"),
        (decode_topic_configs, '{"topicConfigList":{}}', "topicConfigList must be a list"),
        (decode_group_config, '{"groupName":1}', "groupName must be a text, not 1"),
        (
            decode_group_config,
            '{"groupName":"g","consumeEnable":"maybe"}',
            "consumeEnable must be true or false",
        ),
        (
            decode_offset_table,
            '{"offsetTable":{"T@g":{"x":1}}}',
            "T@g: the name 'x' must be a number",
        ),
        (decode_offset_table, '{"offsetTable":{"T@g":{0:true}}}', "0 must be a number"),
        (decode_kv_table, '{"table":{"k":[]}}', "k must be a text"),
        (decode_topic_list, '{"topicList":["a",1]}', "topicList must be a list of texts"),
        (decode_data_version, '{"counter":1.5}', "counter must be a number of 64 bits"),
    ],
)
def test_a_broken_body_is_refused_with_the_name_of_what_is_wrong(decode, text, complaint):
    with pytest.raises(CodecError) as refused:
        decode(text)
    assert complaint in str(refused.value)


QUEUES = st.builds(MessageQueue, st.text(max_size=9), st.text(max_size=9), st.integers(0, 99))


@given(st.dictionaries(QUEUES, st.integers(-1, 1 << 60)), st.booleans())
def test_what_is_written_is_read(offsets, is_pretty):
    assert decode_queue_offsets(encode_queue_offsets(offsets, is_pretty=is_pretty)) == offsets


def test_a_queue_is_an_object_as_key():
    body = encode_queue_offsets({MessageQueue("T", "b", 1): 7})
    assert body == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}'


def test_the_list_form_is_read_too():
    body = b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"T"}]}'
    assert decode_queue_offsets(body) == {MessageQueue("T", "b", 1): 7}


def test_an_empty_table_is_one():
    assert decode_queue_offsets("{}") == {}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b'{"offsetTable":5}', b'{"offsetTable":{"T":5}}',
        b'{"offsetTable":{{"topic":"T"}:5}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:"x"}}',
        b'{"offsetTable":[{"topic":"T"}]}',
    ],
)  # fmt: skip
def test_what_is_no_table_is_a_codec_error(body):
    with pytest.raises(CodecError):
        decode_queue_offsets(body)


@given(st.binary(max_size=60))
def test_garbage_gives_offsets_or_a_codec_error(body):
    with contextlib.suppress(CodecError):
        decode_queue_offsets(body)


MASTER = HaStatus(
    is_master=True,
    max_offset=900,
    in_sync_slaves=1,
    slaves=(
        HaSlave(address="10.0.0.2:41000", acked=800, gap=100, is_in_sync=True, sent=900),
        HaSlave(
            address="10.0.0.3:41001",
            acked=0,
            gap=900,
            is_in_sync=False,
            broker_id=2,
            error="gone",
        ),
    ),
    stored_ms=1_700_000_000_000,
    needed=2,
    refused=3,
)
SLAVE = HaStatus(
    is_master=False,
    master=HaMaster(
        address="10.0.0.1:10912", max_offset=800, read_ms=5, written_ms=6, is_active=False,
        error="the logs differ at 7", metadata_ms=9, metadata_error="gone",
    ),
)  # fmt: skip
LEADER = replace(
    MASTER,
    group=HaGroup(
        name="g", own="n0", role="leader", term=7, leader="n0", confirmed=800, lease_ms=900, elections=2,
        members=(
            HaGroupMember(member_id="n0", address="10.0.0.1:40911", broker_id=1, is_connected=True, acked=900, gap=0),
            HaGroupMember(member_id="n1", address="10.0.0.2:40911", broker_id=2, is_connected=False, error="gone", votes=False),
        ),
    ),
)  # fmt: skip
# As a broker of RocketMQ 5.3.3 writes them: fields that HARuntimeInfo has getters for.
JAVA_MASTER = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
    b'"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"10.0.0.2:41000","diff":0,"inSync":true,'
    b'"slaveAckOffset":1234,"transferFromWhere":1234,"transferredByteInSecond":55}],"inSyncSlaveNums":1,'
    b'"master":true,"masterCommitLogMaxOffset":1234}'
)


@pytest.mark.parametrize("status", [MASTER, SLAVE, LEADER])
def test_what_is_written_is_read_back(status):
    assert decode_ha_status(encode_ha_status(status)) == status


def test_what_java_wrote_is_read():
    status = decode_ha_status(JAVA_MASTER)
    (slave,) = status.slaves
    assert (status.is_master, status.max_offset, status.in_sync_slaves) == (True, 1234, 1)
    assert (slave.acked, slave.bytes_per_second, slave.broker_id) == (1234, 55, None)
    assert (status.needed, status.stored_ms) == (None, None)


def test_every_name_that_java_writes_is_written():
    """Also that of a master's client part and of a slave's list, which mqadmin's reader asks the size of."""
    java, ours = json.loads(JAVA_MASTER), json.loads(encode_ha_status(SLAVE))
    assert java.keys() <= ours.keys()
    assert java["haClientRuntimeInfo"].keys() <= ours["haClientRuntimeInfo"].keys()
    assert ours["haConnectionInfo"] == []
    of_slave = json.loads(encode_ha_status(MASTER))["haConnectionInfo"][0]
    assert java["haConnectionInfo"][0].keys() <= of_slave.keys()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"master":1}', b'{"master":true,"haConnectionInfo":[1]}']
)
def test_what_is_none_is_refused(body):
    with pytest.raises(CodecError):
        decode_ha_status(body)
