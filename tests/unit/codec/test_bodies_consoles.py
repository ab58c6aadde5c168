"""Bodies that consoles read: as docs/format/consoles.md has them, and read back."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from cometmq.codec.bodies.cluster import (
    ClusterInfo,
    decode_cluster_info,
    decode_member_group,
    encode_cluster_info,
    encode_member_group,
)
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, decode_heartbeat
from cometmq.codec.bodies.queue_entries import QueueLook, encode_queue_look
from cometmq.codec.bodies.queue_offsets import (
    decode_client_offsets,
    decode_queue_offsets,
    encode_client_offsets,
    encode_queue_offset_list,
    encode_queue_offsets,
)
from cometmq.codec.bodies.register import (
    PLAIN_SIZE_MAX,
    RegisterBrokerBody,
    body_crc,
    decode_registration,
    encode_registration,
)
from cometmq.codec.bodies.route import decode_topic_route, encode_topic_route
from cometmq.codec.bodies.running import (
    ConsumeRates,
    DirectOutcome,
    DirectResult,
    PopState,
    QueueState,
    RunningState,
    decode_direct,
    decode_running,
    encode_direct,
    encode_running,
)
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueBounds,
    QueueProgress,
    StatsWindow,
    TopicStats,
    decode_consume_stats,
    decode_group_list,
    decode_stats_windows,
    decode_topic_stats,
    encode_consume_stats,
    encode_group_list,
    encode_stats_windows,
    encode_topic_stats,
)
from cometmq.codec.bodies.topic_config import TopicTable, encode_topic_table
from cometmq.codec.fastjson import dumps, loads
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import BombError, CodecError
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.model.subscription import SQL92, Subscription, parse_subscription
from cometmq.model.topic import TopicConfig

PAGE = Path(__file__).parents[3] / "docs" / "format" / "consoles.md"
QUEUE = MessageQueue("T", "broker-a", 0)
ANY = MessageQueue("T", "broker-a", -1)
NOON = 1_700_000_000_000
TOPIC = TopicStats({QUEUE: QueueBounds(2, 12, NOON)}, 0.5)
GROUP = ConsumeStats({QUEUE: QueueProgress(12, 7, 7, NOON)}, 1.5)
OUTCOME = DirectOutcome(DirectResult.SUCCESS, 3)


def examples() -> list[str]:
    lines = PAGE.read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("    {")]


def test_the_page_shows_what_the_code_writes():
    assert examples() == [
        encode_topic_stats(TOPIC).decode(),
        encode_consume_stats(GROUP).decode(),
        encode_stats_windows(
            minute=StatsWindow(6, 0.1), hour=StatsWindow(12, 0.5), day=StatsWindow(12, 0.5)
        ).decode(),
        dumps({"correctionOffsets": {0: 12, 1: 2**63 - 1}}).decode(),
        encode_queue_look(QueueLook(2, 12, [QueueEntry(1024, 165, 97)], "T", "g")).decode(),
        dumps({"group": "g", "readable": False, "topic": "T"}).decode(),
        encode_queue_offsets({QUEUE: 7}).decode(),
        encode_queue_offset_list({QUEUE: 7}).decode(),
        encode_direct(OUTCOME).decode(),
    ]


def test_statistics_are_read_back():
    assert decode_topic_stats(encode_topic_stats(TOPIC)) == TOPIC
    assert decode_consume_stats(encode_consume_stats(GROUP)) == GROUP
    assert GROUP.lag == 5
    ours = ConsumeStats({QUEUE: QueueProgress(12, 7, 7, NOON, False, NOON + 1)}, 1.5)
    assert decode_consume_stats(encode_consume_stats(ours)) == ours
    assert decode_group_list(encode_group_list(["b", "a"])) == ("a", "b")


def test_offsets_are_read_in_either_form():
    assert decode_queue_offsets(encode_queue_offset_list({QUEUE: 7})) == {QUEUE: 7}
    assert decode_client_offsets(encode_client_offsets({QUEUE: 7})) == {QUEUE: 7}


def test_a_running_consumer_is_read_back():
    state = RunningState(
        {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        (parse_subscription("T", "a || b", version=3),),
        {QUEUE: QueueState(commit_offset=4, cached_count=2, cached_min=4, cached_max=5)},
        {"T": ConsumeRates(1.5, 2.0, 3.0, 4.0, 0.5, 6)},
        "MainThread",
        {ANY: PopState(waiting_count=3, popped_ms=NOON, is_dropped=True)},
    )
    assert decode_running(encode_running(state)) == state
    assert b"jstack" not in encode_running(RunningState({}))


def test_a_filter_by_sql_is_shown_to_people():
    wanted = Subscription("T", "a > 1", SQL92)
    told = loads(encode_queue_look(QueueLook(0, 0, [], "T", "g", wanted)))
    assert told["subscriptionData"]["expressionType"] == "SQL92"
    assert '"a > 1"' in told["filterData"]
    plain = parse_subscription("T", "*")
    assert (
        loads(encode_queue_look(QueueLook(0, 0, [], "T", "g", plain)))["filterData"] == "null"
    )


@pytest.mark.parametrize("result", list(DirectResult))
def test_each_verdict_is_read_back(result):
    outcome = DirectOutcome(result, 1, "why", is_orderly=True)
    assert decode_direct(encode_direct(outcome)) == outcome


def test_a_verdict_of_a_later_version_is_no_error():
    assert decode_direct(b'{"consumeResult":"CR_MAYBE"}').result is DirectResult.NULL


def test_what_is_wrong_is_named():
    for read, name in ((decode_topic_stats, "topicPutTps"), (decode_stats_windows, "statsDay")):
        with pytest.raises(CodecError, match="a number with too many digits"):
            read(b'{"%s":%s}' % (name.encode(), b"9" * 400))
    with pytest.raises(CodecError, match="must be a queue"):
        decode_topic_stats(b'{"offsetTable":{"a":{}}}')
    body = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}'
    with pytest.raises(CodecError, match="brokerOffset"):
        decode_consume_stats(body)
    assert loads(encode_topic_stats(TopicStats())) == {"offsetTable": {}, "topicPutTps": 0.0}


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


def test_before_3_0_11_the_body_is_the_topic_table_and_without_one_there_are_no_topics():
    old = decode_registration(encode_topic_table(TABLE), version=36)
    assert old == RegisterBrokerBody(TABLE)
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


def beat(**consumer: object) -> str:
    consumers = [{"groupName": "g", **consumer}]
    return json.dumps({"clientID": "c1", "consumerDataSet": consumers, "producerDataSet": []})


def test_a_consumer_that_says_little_has_defaults():
    wanted = parse_subscription("Orders", "*", version=0)
    said = beat(subscriptionDataSet=[{"topic": "Orders"}])
    assert decode_heartbeat(said) == Heartbeat("c1", (), (ConsumerPart("g", (wanted,)),))


def test_tags_follow_from_the_expression_whatever_else_a_client_says():
    wishes = [
        {"topic": "T", "subString": "A || B", "subVersion": 1, "tagsSet": [], "codeSet": []},
        {"topic": "S", "subString": "a > 1", "expressionType": "SQL92"},
    ]
    (part,) = decode_heartbeat(beat(subscriptionDataSet=wishes)).consumers
    assert part.subscriptions == (
        parse_subscription("T", "A || B", version=1),
        Subscription("S", "a > 1", SQL92, version=0),
    )
    assert part.subscriptions[0].tags
