"""For all bodies: what is written comes back, whatever is read is a value or a CodecError."""

from __future__ import annotations

import contextlib
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec import fastjson
from cometmq.codec.bodies.cluster import (
    ClusterInfo,
    decode_cluster_info,
    decode_member_group,
    encode_cluster_info,
)
from cometmq.codec.bodies.consumer_offset import (
    OffsetTable,
    decode_offset_table,
    encode_offset_table,
    encode_offsets_file,
)
from cometmq.codec.bodies.group_config import (
    GroupTable,
    decode_group_config,
    decode_group_table,
    encode_group_table,
    encode_groups_file,
)
from cometmq.codec.bodies.kv import (
    decode_kv_file,
    decode_kv_table,
    encode_kv_file,
    encode_kv_table,
)
from cometmq.codec.bodies.register import (
    RegisterBrokerBody,
    decode_registration,
    encode_registration,
)
from cometmq.codec.bodies.route import decode_topic_route, encode_topic_route
from cometmq.codec.bodies.topic_config import (
    TopicsFileEncoder,
    TopicTable,
    decode_data_version,
    decode_topic_table,
    encode_topic_table,
    topic_table_json,
)
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fastjson import FrozenObject, JavaList, dumps, loads
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError
from cometmq.model.group import GroupConfig
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.model.topic import TopicConfig

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# Names as brokers allow them; any text where nothing splits it.
NAMES = st.text("abcXYZ0189%|_-", min_size=1, max_size=12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ADDRESSES = st.dictionaries(st.integers(0, 9), TEXTS, max_size=3)
VERSIONS = st.builds(DataVersion, INT64, INT64, INT64)
# Attributes stand behind blanks in the compressed form: Java asks for none in them.
ATTRIBUTES = st.dictionaries(NAMES, NAMES, max_size=2)
TOPICS = st.builds(
    TopicConfig,
    NAMES, INT32, INT32, INT32, st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    attributes=ATTRIBUTES,
)  # fmt: skip
TABLES = st.builds(
    TopicTable,
    VERSIONS,
    st.lists(TOPICS, max_size=4).map(lambda topics: {topic.name: topic for topic in topics}),
)
GROUPS = st.builds(
    GroupConfig,
    NAMES,
    consume_enabled=st.booleans(),
    orderly=st.booleans(),
    retry_queues=INT32,
    broker_id=INT64,
    attributes=ATTRIBUTES,
)
BROKERS = st.builds(BrokerData, TEXTS, TEXTS, ADDRESSES, st.booleans(), st.none() | TEXTS)
ROUTES = st.builds(
    TopicRoute,
    st.lists(st.builds(QueueData, TEXTS, INT32, INT32, INT32, INT32), max_size=3).map(tuple),
    st.lists(BROKERS, max_size=3).map(tuple),
    st.none() | TEXTS,
    st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2),
    st.none()
    | st.dictionaries(TEXTS, st.just({"bname": "b", "currIdMap": {"0": 1}}), max_size=2),
)
MAPPINGS = st.dictionaries(NAMES, st.just(None), max_size=2).map(
    lambda names: {name: {"topic": name, "totalQueues": 4} for name in names}
)
REGISTRATIONS = st.builds(
    RegisterBrokerBody, TABLES, st.lists(TEXTS, max_size=2).map(tuple), MAPPINGS
)


@given(ROUTES, st.booleans())
def test_a_route_comes_back(route, is_standard):
    body = encode_topic_route(route, is_standard=is_standard)
    assert decode_topic_route(body) == route
    if is_standard:
        json.loads(body)


@given(REGISTRATIONS, st.booleans())
def test_a_registration_comes_back(registration, is_compressed):
    body = encode_registration(registration, is_compressed=is_compressed)
    assert decode_registration(body, is_compressed=is_compressed) == registration


@given(TABLES)
def test_a_topic_table_comes_back_from_a_body_and_from_its_file(table):
    assert decode_topic_table(encode_topic_table(table)) == table
    assert decode_topic_table(TopicsFileEncoder().encode(table)) == table


@given(st.lists(TABLES, min_size=1, max_size=4))
def test_the_file_of_topics_is_the_same_whatever_was_encoded_before(tables):
    encoder = TopicsFileEncoder()
    for table in tables:
        whole = fastjson.dumps(topic_table_json(table), pretty=True).decode()
        assert encoder.encode(table) == whole == TopicsFileEncoder().encode(table)


@given(
    st.builds(
        GroupTable,
        VERSIONS,
        st.lists(GROUPS, max_size=3).map(
            lambda groups: {group.name: group for group in groups}
        ),
        st.dictionaries(TEXTS, st.dictionaries(TEXTS, INT32, max_size=2), max_size=2),
    )
)
def test_a_group_table_comes_back_from_a_body_and_from_its_file(table):
    assert decode_group_table(encode_group_table(table)) == table
    assert decode_group_table(encode_groups_file(table)) == table


@given(
    st.builds(
        OffsetTable,
        VERSIONS,
        st.dictionaries(
            st.builds("{}@{}".format, NAMES, NAMES),
            st.dictionaries(st.integers(0, 99), INT64, max_size=3),
            max_size=3,
        ),
    )
)
def test_offsets_come_back_from_a_body_and_from_their_file(table):
    assert decode_offset_table(encode_offset_table(table)) == table
    assert decode_offset_table(encode_offsets_file(table)) == table


@given(
    st.builds(
        ClusterInfo,
        st.dictionaries(TEXTS, BROKERS, max_size=3),
        st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
    )
)
def test_clusters_come_back(clusters):
    assert decode_cluster_info(encode_cluster_info(clusters)) == clusters


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), max_size=3))
def test_key_value_tables_come_back(tables):
    assert decode_kv_file(encode_kv_file(tables)) == tables
    for table in tables.values():
        assert decode_kv_table(encode_kv_table(table)) == table


DECODERS = [
    decode_cluster_info, decode_data_version, decode_group_config, decode_group_table,
    decode_kv_file, decode_kv_table, decode_member_group, decode_offset_table,
    decode_registration, decode_topic_list, decode_topic_route, decode_topic_table,
]  # fmt: skip
# Values of any shape under the names that the decoders look for.
KEYS = st.sampled_from(
    """brokerAddrTable clusterAddrTable brokerDatas queueDatas brokerAddrs brokerName cluster
    topicConfigTable topicConfigSerializeWrapper filterServerList filterServerTable dataVersion
    offsetTable table configTable topicList brokerMemberGroup groupName subscriptionGroupTable
    forbiddenTable attributes perm readQueueNums topicName groupRetryPolicy timestamp
    topicQueueMappingByBroker topicQueueMappingInfoMap 0 1""".split()  # noqa: SIM905
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("decode", DECODERS)
@given(content=st.binary(max_size=80) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_value_or_a_codec_error(decode, content):
    with suppress(CodecError):
        decode(content)


@given(content=st.binary(max_size=60), registration=REGISTRATIONS, cut=st.integers(0, 200))
def test_a_registration_cut_or_overwritten_gives_a_value_or_a_codec_error(
    content, registration, cut
):
    body = encode_registration(registration, is_compressed=True)
    for broken in (body[:cut], body[:cut] + content + body[cut + len(content) :]):
        with suppress(CodecError):
            decode_registration(broken, is_compressed=True)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)
# "$ref" means something else, and None members are left out: neither comes back as it went.
OBJECTS = st.dictionaries(TEXT.filter("$ref".__ne__), SCALARS, max_size=2).map(FrozenObject)
OBJECT_KEYS = TEXT.filter("$ref".__ne__) | st.integers(-(1 << 63), (1 << 63) - 1) | OBJECTS
ANY_VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner | st.none(), max_size=4)
        | st.lists(inner, max_size=4).map(JavaList)
        | st.dictionaries(OBJECT_KEYS, inner, max_size=4)
    ),
    max_leaves=15,
)
PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", ",", '"', "'", "0", "-1", "1.5", "a", "true", "null", " ", "\\u00e9",
     "/*", "*/", "//", "\n", '"a"', '{"$ref":"$"}', '{"$ref":"$.a[0]"}', '{"$ref":".."}', "{0:1}"]
)  # fmt: skip


@given(ANY_VALUES, st.booleans(), st.booleans())
def test_what_is_written_is_read(value, pretty, sort_keys):
    written = dumps(value, pretty=pretty, sort_keys=sort_keys)
    assert loads(written) == value
    assert dumps(loads(written), sort_keys=True) == dumps(value, sort_keys=True)


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_a_value_or_a_codec_error(text):
    with contextlib.suppress(CodecError):
        loads(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_codec_error(content):
    with contextlib.suppress(CodecError):
        loads(content)
