"""Every frame that Java programs sent each other is understood, and says the same when we write it.

The frames are recordings (frames/README.md), so this is the proof that our codings are RocketMQ's.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from cometmq.codec.bodies import (
    cluster,
    connection,
    group_config,
    heartbeat,
    kv,
    register,
    route,
    topic_config,
    topic_list,
)
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers import client, nameserver, offset, pull, query, send, topic
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import decode_command, encode_command
from cometmq.model.codes import RequestCode
from tests.support.frames import parts_of

FOLDER = Path(__file__).parent / "frames"

REQUEST_HEADERS = {
    RequestCode.SEND_MESSAGE: send.SendRequest,
    RequestCode.SEND_MESSAGE_V2: send.SendRequestV2,
    RequestCode.SEND_BATCH_MESSAGE: send.SendRequestV2,
    RequestCode.PULL_MESSAGE: pull.PullRequest,
    RequestCode.LITE_PULL_MESSAGE: pull.PullRequest,
    RequestCode.VIEW_MESSAGE_BY_ID: query.ViewMessageRequest,
    RequestCode.QUERY_CONSUMER_OFFSET: offset.QueryConsumerOffset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offset.UpdateConsumerOffset,
    RequestCode.GET_MAX_OFFSET: offset.QueueRequest,
    RequestCode.GET_MIN_OFFSET: offset.QueueRequest,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offset.SearchOffset,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: client.ConsumerGroupRequest,
    RequestCode.UNREGISTER_CLIENT: client.UnregisterClient,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: client.ConsumerGroupRequest,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topic.CreateTopic,
    RequestCode.REGISTER_BROKER: nameserver.RegisterBroker,
    RequestCode.UNREGISTER_BROKER: nameserver.BrokerIdentity,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: nameserver.RouteRequest,
    RequestCode.PUT_KV_CONFIG: nameserver.PutKvConfig,
    RequestCode.GET_KV_CONFIG: nameserver.KvConfigRequest,
}
ANSWER_HEADERS = {
    RequestCode.SEND_MESSAGE: send.SendResponse,
    RequestCode.SEND_MESSAGE_V2: send.SendResponse,
    RequestCode.SEND_BATCH_MESSAGE: send.SendResponse,
    RequestCode.PULL_MESSAGE: pull.PullResponse,
    RequestCode.QUERY_CONSUMER_OFFSET: offset.OffsetResponse,
    RequestCode.GET_MAX_OFFSET: offset.OffsetResponse,
    RequestCode.GET_MIN_OFFSET: offset.OffsetResponse,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offset.OffsetResponse,
    RequestCode.REGISTER_BROKER: nameserver.RegisterBrokerResponse,
    RequestCode.GET_KV_CONFIG: nameserver.KvConfigResponse,
}
# What RpcRequestHeader and the stream mark of lite pull (ReqT) add to any header (5.x); no one here asks for it.
LEFT_ALONE = {
    "lo",
    "ns",
    "nsd",
    "bname",
    "brokerName",
    "oway",
    "accessKey",
    "namespaceV2",
    "ReqT",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line of a recording."""

    file: str
    line: int
    code: int
    answers: int | None
    kind: int
    header: bytes
    body: bytes
    frame: bytes

    @property
    def name(self) -> str:
        what = f"answer-{self.answers}-" if self.answers is not None else ""
        return f"{self.file}-{self.line}-{what}{self.code}"


def recordings() -> list[Recorded]:
    found = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            values = json.loads(line)
            frame = bytes.fromhex(values["frame"])
            parts = parts_of(frame)
            found.append(
                Recorded(path.stem, number, values["code"], values["answers"], *parts, frame)
            )
    return found


FRAMES = recordings()
each_frame = pytest.mark.parametrize("recorded", FRAMES, ids=lambda recorded: recorded.name)


def command_of(recorded: Recorded):
    return decode_command(recorded.kind, recorded.header, recorded.body)


def test_the_recordings_hold_what_the_design_needs():
    files = Counter(recorded.file.split("-")[0] for recorded in FRAMES)
    assert files["client"] >= 300
    assert files["registration"] >= 20
    requests = {recorded.code for recorded in FRAMES if recorded.answers is None}
    assert requests >= {int(code) for code in REQUEST_HEADERS} - {int(RequestCode.SEND_MESSAGE)}


@each_frame
def test_a_recorded_frame_says_the_same_when_we_write_it(recorded):
    command = command_of(recorded)
    written = encode_command(command)
    kind, header, body = parts_of(written)
    assert kind == recorded.kind
    assert body == recorded.body
    if kind == 0:
        assert meaning(json.loads(header)) == meaning(json.loads(recorded.header))
    else:
        assert decode_command(kind, header, body) == command
        assert len(written) == len(recorded.frame)


def meaning(header: dict[str, object]) -> dict[str, object]:
    """A JSON header without what may be left out: no fields, no remark."""
    return {name: value for name, value in header.items() if value not in ({}, None)}


def headed(table: dict[RequestCode, type], recorded: Recorded) -> type | None:
    """The header class of a frame, where there is one in `table` for it."""
    code = recorded.answers if recorded.answers is not None else recorded.code
    return next((header for key, header in table.items() if int(key) == code), None)


TYPED = [
    (recorded, header)
    for recorded in FRAMES
    if (recorded.answers is None or recorded.code == 0)
    and (
        header := headed(
            REQUEST_HEADERS if recorded.answers is None else ANSWER_HEADERS, recorded
        )
    )
]


@pytest.mark.parametrize(
    ("recorded", "header"),
    TYPED,
    ids=[f"{recorded.name}-{kind.__name__}" for recorded, kind in TYPED],
)
def test_a_typed_header_keeps_every_field(recorded, header):
    fields = command_of(recorded)[6]
    written = encode_fields(decode_fields(header, fields))
    left = {name for name in fields if name not in written}
    assert left <= LEFT_ALONE, f"{header.__name__} forgets {left - LEFT_ALONE}"
    assert {name: str(written[name]) for name in written if name in fields} == {
        name: str(fields[name]) for name in fields if name in written
    }


BODIES = {
    ("answer", RequestCode.GET_ROUTEINFO_BY_TOPIC): (
        route.decode_topic_route,
        route.encode_topic_route,
    ),
    ("answer", RequestCode.GET_BROKER_CLUSTER_INFO): (
        cluster.decode_cluster_info,
        cluster.encode_cluster_info,
    ),
    ("answer", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER): (
        topic_list.decode_topic_list,
        lambda value: topic_list.encode_topic_list(
            value.topics, broker_address=value.broker_address
        ),
    ),
    ("answer", RequestCode.GET_KVLIST_BY_NAMESPACE): (kv.decode_kv_table, kv.encode_kv_table),
    ("answer", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG): (
        group_config.decode_group_table,
        group_config.encode_group_table,
    ),
    ("answer", RequestCode.GET_ALL_TOPIC_CONFIG): (
        topic_config.decode_topic_table,
        topic_config.encode_topic_table,
    ),
    ("request", RequestCode.HEART_BEAT): (
        heartbeat.decode_heartbeat,
        heartbeat.encode_heartbeat,
    ),
    ("answer", RequestCode.GET_CONSUMER_LIST_BY_GROUP): (
        connection.decode_consumer_ids,
        connection.encode_consumer_ids,
    ),
    ("answer", RequestCode.GET_CONSUMER_CONNECTION_LIST): (
        connection.decode_consumer_connections,
        connection.encode_consumer_connections,
    ),
    ("request", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP): (
        group_config.decode_group_config,
        group_config.encode_group_config,
    ),
}


def bodied(recorded: Recorded):
    role = "request" if recorded.answers is None else "answer"
    code = recorded.code if recorded.answers is None else recorded.answers
    ok = recorded.answers is None or recorded.code == 0
    found = (value for (side, key), value in BODIES.items() if (side, int(key)) == (role, code))
    return next(found, None) if ok and recorded.body else None


WITH_BODIES = [(recorded, codec) for recorded in FRAMES if (codec := bodied(recorded))]


@pytest.mark.parametrize(
    ("recorded", "codec"), WITH_BODIES, ids=[recorded.name for recorded, _ in WITH_BODIES]
)
def test_a_recorded_body_means_the_same_when_we_write_it(recorded, codec):
    decode, encode = codec
    value = decode(recorded.body)
    assert value
    assert decode(encode(value)) == value


REGISTRATIONS = [
    recorded
    for recorded in FRAMES
    if recorded.code == int(RequestCode.REGISTER_BROKER) and recorded.answers is None
]


@pytest.mark.parametrize("recorded", REGISTRATIONS, ids=lambda recorded: recorded.name)
def test_a_recorded_registration_names_the_topics_of_its_broker(recorded):
    command = command_of(recorded)
    header = decode_fields(nameserver.RegisterBroker, command[6])
    assert register.body_crc(recorded.body) == int(command[6]["bodyCrc32"])
    registration = register.decode_registration(
        recorded.body, is_compressed=header.compressed, version=command[4]
    )
    assert "TBW102" in registration.table.topics


PULLED = [
    recorded
    for recorded in FRAMES
    if recorded.answers in {int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)}
    and recorded.code == 0
]


@pytest.mark.parametrize("recorded", PULLED, ids=lambda recorded: recorded.name)
def test_the_records_of_a_pull_answer_are_messages_of_one_queue(recorded):
    header = decode_fields(pull.PullResponse, command_of(recorded)[6])
    records = decode_records(recorded.body)
    assert records
    assert records[-1].queue_offset < header.next_begin_offset
    assert len({(record.topic, record.queue_id) for record in records}) == 1
