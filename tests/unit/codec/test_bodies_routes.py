"""Bodies of routes, clusters and registrations, and how they break."""

from __future__ import annotations

import struct
import zlib

import pytest

from cometmq.codec.bodies.cluster import (
    ClusterInfo,
    decode_cluster_info,
    decode_member_group,
    encode_cluster_info,
    encode_member_group,
)
from cometmq.codec.bodies.register import (
    PLAIN_SIZE_MAX,
    RegisterBrokerBody,
    body_crc,
    decode_registration,
    encode_registration,
)
from cometmq.codec.bodies.route import decode_topic_route, encode_topic_route
from cometmq.codec.bodies.topic_config import TopicTable, encode_topic_table
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import BombError, CodecError
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.model.topic import TopicConfig

ROUTE = TopicRoute(
    queues=(QueueData("broker-a", 4, 4, 6),),
    brokers=(BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911", 1: "h:10921"}),),
)
FASTJSON = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"h:10921"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
    b'"writeQueueNums":4}]}'
)
STANDARD = FASTJSON.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":')


def test_a_route_has_a_form_for_old_peers_and_one_in_standard_json():
    assert encode_topic_route(ROUTE) == FASTJSON
    assert encode_topic_route(ROUTE, is_standard=True) == STANDARD
    assert decode_topic_route(FASTJSON) == decode_topic_route(STANDARD) == ROUTE


def test_the_flag_that_4_4_misspelt_is_read():
    old = FASTJSON.replace(b'"topicSysFlag":0', b'"topicSynFlag":2')
    assert decode_topic_route(old).queues[0].sys_flag == 2


def test_clusters_and_member_groups_come_back():
    clusters = ClusterInfo({"broker-a": ROUTE.brokers[0]}, {"DefaultCluster": ("broker-a",)})
    assert decode_cluster_info(encode_cluster_info(clusters)) == clusters
    group = BrokerData("c", "broker-a", {0: "h:1"})
    assert encode_member_group(group) == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"h:1"},"brokerName":"broker-a","cluster":"c"}}'
    )
    assert decode_member_group(encode_member_group(group)) == group


TABLE = TopicTable(
    DataVersion(1000, 2, 3),
    {
        "T": TopicConfig("T", 4, 8, 6, attributes={"message.type": "FIFO"}),
        "%RETRY%g": TopicConfig("%RETRY%g", 1, 1, 4),
    },
)
FULL = RegisterBrokerBody(
    TABLE, ("f:1",), {"T": {"topic": "T", "bname": "b", "currIdMap": {"0": 0}}}
)


def test_a_compressed_body_whose_header_denies_it_is_read():
    # RocketMQ 5.3.3 with compressedRegister=true sends exactly this.
    body = encode_registration(FULL, is_compressed=True)
    assert decode_registration(body, is_compressed=False) == FULL


def test_a_compressed_registration_of_4_9_has_no_queue_mappings():
    whole = zlib.decompress(encode_registration(RegisterBrokerBody(TABLE), is_compressed=True))
    old = zlib.compress(whole[:-4])
    assert decode_registration(old, is_compressed=True, version=409).table == TABLE
    with pytest.raises(CodecError, match="ends within the number of queue mappings"):
        decode_registration(old, is_compressed=True)


def test_before_3_0_11_the_body_is_the_topic_table():
    assert decode_registration(encode_topic_table(TABLE), version=36) == RegisterBrokerBody(
        TABLE
    )


def test_without_a_body_a_broker_has_no_topics():
    assert decode_registration(b"") == RegisterBrokerBody(TopicTable(DataVersion(0)))


def test_attributes_that_cannot_be_read_are_none_as_in_java():
    body = _packed(b"T 4 4 6 SINGLE_TAG {broken")
    assert decode_registration(body, is_compressed=True).table.topics["T"].attributes == {}


def test_the_checksum_of_a_body_has_no_sign_bit():
    assert body_crc(b"hello") == 907060870
    assert all(body_crc(bytes([byte])) >= 0 for byte in range(256))


def _packed(topic: bytes) -> bytes:
    parts = [b'{"counter":1,"timestamp":1}', topic, b"[]"]
    version, text, servers = (struct.pack(">i", len(part)) + part for part in parts)
    one, none = struct.pack(">i", 1), struct.pack(">i", 0)
    return zlib.compress(version + one + text + servers + none)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"not json", "registration: "),
        (
            b'{"topicConfigSerializeWrapper":[]}',
            "topicConfigSerializeWrapper must be an object",
        ),
        (b'{"filterServerList":[1]}', "filterServerList must be a list of texts"),
        (zlib.compress(b"abc"), "ends within the length of the data version"),
        (zlib.compress(struct.pack(">i", -1)), "the length of the data version is -1"),
        (zlib.compress(struct.pack(">i", 1 << 30)), "ends within the data version"),
        (_packed(b"T 4 4"), "'T 4 4' is not a topic"),
        (_packed(b"T x 4 6 SINGLE_TAG"), "readQueueNums must be a number of 32 bits, not 'x'"),
        (encode_registration(FULL, is_compressed=True)[:-6], "incomplete"),
        (b"\x78\x9c broken", "damaged"),
    ],
)
def test_a_broken_registration_says_what_is_wrong(body, complaint):
    with pytest.raises(CodecError) as refused:
        decode_registration(body)
    assert complaint in str(refused.value)


def test_a_registration_that_would_unpack_beyond_the_bound_is_refused():
    with pytest.raises(BombError):
        decode_registration(zlib.compress(bytes(PLAIN_SIZE_MAX + 1)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"brokerDatas":[{}]}', "topic route.brokerDatas[0]: brokerName is missing"),
        ('{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":"h:1"}}]}', "must be a number"),
        ('{"queueDatas":{}}', "queueDatas must be a list"),
        ('{"queueDatas":["b"]}', "queueDatas[0] must be an object, not 'b'"),
    ],
)
def test_a_broken_route_says_what_is_wrong(text, complaint):
    with pytest.raises(CodecError) as refused:
        decode_topic_route(text)
    assert complaint in str(refused.value)
