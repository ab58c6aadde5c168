"""Calls of MessagingService that a Java proxy 5.3.3 has answered too: each is a function that asks any server.

`answers_of` makes all of them, many at a time, and returns what was said, without what differs from run to run. Topics and groups
are made by `prepare`. tests/golden/grpc/java-5.3.3.json has the answers of Java's proxy, ours.json those that differ on purpose.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from cometmq import Admin
from cometmq.model.errors import ClientError
from cometmq.model.group import GroupConfig
from cometmq.proxy.v2 import messaging_pb2 as pb
from tests.support.grpc_raw import RawGrpc, resource, seconds
from tests.support.grpc_said import Said, parts_of, said_of, said_to
from tests.support.processes import wait_until

# What brokers of these tests are set to.
BROKER_SETTINGS: dict[str, str | int | bool] = {
    "recallMessageEnable": "true", "transactionTimeOut": 2_000, "transactionCheckInterval": 3_000,
    "enableMixedMessageType": "true",
}  # fmt: skip
_TOPICS = {
    "plain": "", "steps": "FIFO", "later": "DELAY", "pays": "TRANSACTION", "mixed": "MIXED",
}  # fmt: skip
_AT_A_TIME = 24
Call = Callable[[RawGrpc, str], Said]


def prepare(nameserver: str) -> None:
    """Create the topics and groups of all calls."""
    single = {"unreadable": 2, "unwritable": 4, "of%plain": None}  # Their permissions.
    single.update(dict.fromkeys(map(_own, RECEIPTS)))
    with Admin(nameserver) as admin:

        def is_known(name: str) -> bool:
            try:
                return bool(admin.topics.route(name).queues)
            except ClientError:
                return False

        for name, kind in _TOPICS.items():
            attributes = {"message.type": kind} if kind else {}
            admin.topics.create(name, queues=4, attributes=attributes)
        for name, perm in single.items():
            admin.topics.create(name, queues=1, perm=perm)
        admin.groups.create(GroupConfig("ordered", orderly=True))
        admin.groups.create(GroupConfig("twice", retry_max_times=1))
        for name in (*_TOPICS, *single):  # A proxy remembers for seconds that there was none.
            wait_until(partial(is_known, name), seconds=30, what=name)


def answers_of(address: str) -> dict[str, Said]:
    """Make all calls; return what was said to each, by its name."""

    def said(name: str) -> Said:
        with RawGrpc(address, f"client {name}") as client:
            return CALLS[name](client, _own(name))

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(CALLS, pool.map(said, CALLS), strict=True))


def _own(name: str) -> str:
    """The topic of one call, if it has one."""
    return "own_" + re.sub(r"\W", "_", name)


# --- routes

_ENDPOINTS = pb.Endpoints(
    scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)]
)  # fmt: skip
_BAD_TOPICS = {
    "blank": " ", "empty": "", "long": "t" * 128, "of illegal signs": "a.b",
    "of the system": "SCHEDULE_TOPIC_XXXX", "of half messages": "RMQ_SYS_TRANS_HALF_TOPIC",
}  # fmt: skip
_BAD_GROUPS = {
    "blank": " ", "empty": "", "long": "g" * 256, "of illegal signs": "a.b",
    "of the system": "CID_RMQ_SYS_TRANS",
}  # fmt: skip


def _route(topic: str, namespace: str = "") -> Call:
    return partial(
        said_to, pb.QueryRouteRequest(topic=resource(topic, namespace), endpoints=_ENDPOINTS)
    )


def _assignment(topic: str, group: str) -> Call:
    return partial(
        said_to,
        pb.QueryAssignmentRequest(
            topic=resource(topic), group=resource(group), endpoints=_ENDPOINTS
        ),
    )


ROUTES: dict[str, Call] = {
    **{f"route of {name}": _route(name) for name in (*_TOPICS, "unreadable", "unwritable", "nowhere")},
    **{f"route of a topic {what}": _route(name) for what, name in _BAD_TOPICS.items()},
    "route in a namespace": _route("plain", "of"),
    "assignment": _assignment("plain", "readers"),
    "assignment in order": _assignment("plain", "ordered"),
    "assignment of nowhere": _assignment("nowhere", "readers"),
    "assignment of unreadable": _assignment("unreadable", "readers"),
    "assignment of unwritable": _assignment("unwritable", "readers"),
    **{f"assignment to a group {what}": _assignment("plain", name) for what, name in _BAD_GROUPS.items()},
    "assignment of a topic blank": _assignment(" ", "readers"),
}  # fmt: skip


# --- sends


def _with(made: pb.Message, values: Mapping[str, str]) -> pb.Message:
    made.user_properties.update(values)
    return made


def _send(
    topic: str, body: bytes = b"x", properties: Mapping[str, str] | None = None, **system: Any
) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        made = _with(client.message(topic, body, **system), properties or {})
        return said_to(pb.SendMessageRequest(messages=[made]), client)

    return call


def _sends(*topics: str) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        made = [client.message(topic) for topic in topics]
        return said_to(pb.SendMessageRequest(messages=made), client)

    return call


_DUE = {"seconds": 1_000_000_000}
_SYSTEMS: dict[str, dict[str, Any]] = {
    "NORMAL": {}, "FIFO": {"message_group": "g"}, "DELAY": {"delivery_timestamp": _DUE},
    "TRANSACTION": {"message_type": pb.TRANSACTION},
}  # fmt: skip
_FAR = {"seconds": 9_999_999_999}
SENDS: dict[str, Call] = {
    "send": _send("plain"),
    "send with everything": _send("plain", b"body", {"a": "b"}, tag="t", keys=["k1", "k2"], trace_context="c", born_host="h"),
    "send of a group": _send("steps", message_group="g"),
    "send of a transaction": _send("pays", message_type=pb.TRANSACTION),
    "send due in the past": _send("later", delivery_timestamp=_DUE),
    "send to mixed": _send("mixed", message_group="g"),
    "send in a namespace": lambda client, _: said_to(pb.SendMessageRequest(messages=[_in_namespace(client.message("plain"))]), client),
    "send of 4 MiB": _send("plain", bytes(4 << 20)),
    **{f"send to a topic {what}": _send(name) for what, name in _BAD_TOPICS.items()},
    "send to nowhere": _send("nowhere"),
    "send to unwritable": _send("unwritable"),
    "send to a retry topic": _send("%RETRY%readers"),
    "send of nothing": _sends(),
    "send of two": _sends("plain", "plain"),
    "send to two topics": _sends("plain", "mixed"),
    "send of an empty body": _send("plain", b""),
    "send of too large a body": _send("plain", bytes((4 << 20) + 1)),
    "send with a tag blank": _send("plain", tag=" "),
    "send with a tag empty": _send("plain", tag=""),
    "send with a tag of two": _send("plain", tag="a|b"),
    "send with a tag of control": _send("plain", tag="a\x02"),
    "send with a key blank": _send("plain", keys=[" "]),
    "send with a key empty": _send("plain", keys=[""]),
    "send with a key of a line": _send("plain", keys=["\n"]),
    "send with a key of control": _send("plain", keys=["a\x01"]),
    "send with a key of a bar": _send("plain", keys=["a|b"]),
    "send of a group blank": _send("steps", message_group=" "),
    "send of a group empty": _send("steps", message_group=""),
    "send of a group of control": _send("steps", message_group="g\x01"),
    "send of a group of 63": _send("steps", message_group="g" * 63),
    "send of a group of 64": _send("steps", message_group="g" * 64),
    "send without an id": _send("plain", message_id=""),
    "send with a blank id": _send("plain", message_id=" "),
    "send with 128 properties": _send("plain", properties={f"p{n}": "x" for n in range(128)}),
    "send with 129 properties": _send("plain", properties={f"p{n}": "x" for n in range(129)}),
    "send with a property of 16,383": _send("plain", properties={"a": "x" * 16_383}),
    "send with a property of 16,384": _send("plain", properties={"a": "x" * 16_384}),
    "send with a property of the system": _send("plain", properties={"UNIQ_KEY": "x"}),
    "send with a name of control": _send("plain", properties={"a\x01": "x"}),
    "send with a value of control": _send("plain", properties={"a": "x\x02"}),
    "send with a property without a name": _send("plain", properties={"": "x"}),
    "send with a dispatch": _send("plain", properties={"INNER_MULTI_DISPATCH": "x"}),
    "send with a sharding key": _send("plain", properties={"__SHARDINGKEY": "x"}),
    "send due too late": _send("later", delivery_timestamp=_FAR),
    "send with a time of bad nanos": _send("plain", born_timestamp={"seconds": 1, "nanos": -1}),
    "send born before 1970": _send("plain", born_timestamp={"seconds": -1}),
    "send with a recovery of an hour": _send("pays", message_type=pb.TRANSACTION, orphaned_transaction_recovery_duration={"seconds": 3_600}),
    "send with a recovery of more": _send("pays", message_type=pb.TRANSACTION, orphaned_transaction_recovery_duration={"seconds": 3_601}),
    "send of a delayed transaction": _send("pays", message_type=pb.TRANSACTION, delivery_timestamp=_DUE),
    "send of another digest": _send("plain", body_digest=pb.Digest(type=pb.MD5, checksum="00")),
    "send of a lite topic": _send("plain", lite_topic="l"),
    "send with a trace of 40,000": _send("plain", trace_context="t" * 40_000),
    **{
        f"send of {kind} to {topic}": _send(topic, **system)
        for kind, system in _SYSTEMS.items()
        for topic, accepted in _TOPICS.items()
        if accepted not in (kind, "MIXED") and (accepted or kind != "NORMAL")
    },
}  # fmt: skip


def _in_namespace(made: pb.Message) -> pb.Message:
    made.topic.resource_namespace = "of"
    return made


# --- receives: without a message that could come, but where they have a topic of their own


def _settings(kind: pb.ClientType, topic: str, group: str) -> pb.Settings:
    made = pb.Settings(client_type=kind, access_point=_ENDPOINTS)
    made.user_agent.version = "5.1.2"
    if kind == pb.PRODUCER:
        made.publishing.topics.append(resource(topic))
        return made
    made.subscription.group.name = group
    entry = made.subscription.subscriptions.add(topic=resource(topic))
    entry.expression.type, entry.expression.expression = pb.TAG, "*"
    return made


@contextmanager
def _consumer(client: RawGrpc, topic: str, group: str = "readers") -> Iterator[None]:
    """The client with settings: Java's proxy receives for no other."""
    with client.settled(_settings(pb.SIMPLE_CONSUMER, topic, group)):
        yield


def _receive(
    group: str = "readers", topic: str = "plain", *, timeout: float | None = 30, version: str = "", **more: Any
) -> Call:  # fmt: skip
    def call(client: RawGrpc, _topic: str) -> Said:
        if version:
            client.metadata = [
                (name, version if name == "x-mq-client-version" else value)
                for name, value in client.metadata
            ]
        request = client.receive_request(topic, group, **more)
        with _consumer(client, "plain"):
            return parts_of(client, request, timeout)

    return call


RECEIVES: dict[str, Call] = {
    **{f"receive of a topic {what}": _receive(topic=name) for what, name in _BAD_TOPICS.items()},
    **{f"receive for a group {what}": _receive(name) for what, name in _BAD_GROUPS.items()},
    "receive of nowhere": _receive(topic="nowhere"),
    "receive of unreadable": _receive(topic="unreadable"),
    "receive hidden for 9 s": _receive(invisible_duration=seconds(9)),
    "receive hidden for more than 12 hours": _receive(invisible_duration=seconds(43_201)),
    "receive hidden for less than nothing": _receive(invisible_duration=seconds(-1)),
    "receive with too little time": _receive(timeout=3),
    "receive with too little time, old": _receive(timeout=3, version="5.0.2"),
    "receive by SQL that is none": _receive("by_SQL", filter_expression=pb.FilterExpression(type=pb.SQL, expression="a >")),
    "receive by no tags": _receive("by_tags", filter_expression=pb.FilterExpression(type=pb.TAG, expression="||")),
    "receive batches of -1": _receive("batches", count=-1),
}  # fmt: skip


# --- receipts: each with a topic of its own, in which there is one message


def _with_message(work: Callable[[RawGrpc, str, str], Said], **system: Any) -> Call:
    """A call of a consumer that has received the message of its topic; `work` gets the handle too."""

    def call(client: RawGrpc, topic: str) -> Said:
        sent = client.send(client.message(topic, **system))
        assert sent.status.code == pb.OK, sent
        with _consumer(client, topic):
            _, [found] = client.receive(topic)
            return work(client, topic, found.system_properties.receipt_handle)

    return call


def _first_parts(client: RawGrpc, topic: str, **more: Any) -> Said:
    made = client.message(
        topic, b"body", tag="t", keys=["k1", "k2"], trace_context="c", born_host="h",
    )  # fmt: skip
    client.send(_with(made, {"a": "b"}))
    with _consumer(client, topic):
        return parts_of(client, client.receive_request(topic, **more))


def _unsettled(timeout: float | None, client: RawGrpc, topic: str) -> Said:
    client.send(client.message(topic))
    return parts_of(client, client.receive_request(topic), timeout)


def _received(group: str, client: RawGrpc, topic: str) -> Said:
    with _consumer(client, topic, group):
        return parts_of(client, client.receive_request(topic, group))


def _after_its_stream(client: RawGrpc, topic: str) -> Said:
    client.send(client.message(topic))
    with _consumer(client, topic):
        pass
    return parts_of(client, client.receive_request(topic, auto_renew=True))


def _ack(*handles: str) -> Callable[[RawGrpc, str, str], Said]:
    def work(client: RawGrpc, topic: str, own: str) -> Said:
        return [
            said_of(lambda: client.ack(topic, "readers", *(each or own for each in handles)))
        ]

    return work


def _change(handle: str, hidden: float) -> Callable[[RawGrpc, str, str], Said]:
    def work(client: RawGrpc, topic: str, own: str) -> Said:
        return [said_of(lambda: client.change(topic, "readers", handle or own, hidden))]

    return work


def _forward(handle: str) -> Callable[[RawGrpc, str, str], Said]:
    def work(client: RawGrpc, topic: str, own: str) -> Said:
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(topic), group=resource("readers"), receipt_handle=handle or own,
            message_id="m", delivery_attempt=1, max_delivery_attempts=1,
        )  # fmt: skip
        return said_to(request, client)

    return work


def _one_after_the_other(
    *works: Callable[[RawGrpc, str, str], Said],
) -> Callable[[RawGrpc, str, str], Said]:
    return lambda client, topic, own: [
        each for work in works for each in work(client, topic, own)
    ]


def _again(client: RawGrpc, topic: str, _own: str) -> Said:
    return parts_of(client, client.receive_request(topic))


_BAD_HANDLES = {
    "random": "abc", "seven words": "0 1 2 3 0 broker-a 0", "of another broker": "0 99999999999999 9 3 0 other 0 0 0",
    "expired": "0 1 2 3 0 broker-a 0 0 0", "negative": "0 99999999999999 9 3 0 broker-a 0 -5 0",
}  # fmt: skip
RECEIPTS: dict[str, Call] = {
    "receive nothing": partial(_received, "readers"),
    "receive nothing in order": partial(_received, "ordered"),
    "receive renewed without a stream": _after_its_stream,
    "receive": _first_parts,
    "receive renewed": partial(_first_parts, auto_renew=True),
    "receive without a deadline": partial(_unsettled, None),
    "receive without settings": partial(_unsettled, 30),
    "receive batches of 0": partial(_first_parts, count=0),
    "receive batches of 1,000": partial(_first_parts, count=1_000),
    "receive of another broker": partial(
        _first_parts, message_queue=pb.MessageQueue(broker=pb.Broker(name="other"))
    ),
    "receive other tags": partial(
        _first_parts, filter_expression=pb.FilterExpression(type=pb.TAG, expression="other")
    ),
    "ack": _with_message(_one_after_the_other(_ack(""), _ack(""))),
    "ack of two": _with_message(_ack("", "abc")),
    "ack of nothing": _with_message(_ack()),
    **{f"ack {what}": _with_message(_ack(handle)) for what, handle in _BAD_HANDLES.items()},
    "change": _with_message(_one_after_the_other(_change("", 20), _change("", 20))),
    "change to now": _with_message(_one_after_the_other(_change("", 0), _again)),
    "change to before": _with_message(_change("", -1)),
    "change to more than 12 hours": _with_message(_change("", 43_201)),
    "change after ack": _with_message(_one_after_the_other(_ack(""), _change("", 20))),
    **{f"change {what}": _with_message(_change(handle, 20)) for what, handle in _BAD_HANDLES.items()},
    "forward": _with_message(_one_after_the_other(_forward(""), _forward(""))),
    **{f"forward {what}": _with_message(_forward(handle)) for what, handle in _BAD_HANDLES.items()},
    "forward eight words": _with_message(lambda client, topic, own: _forward(own.rpartition(" ")[0])(client, topic, own)),
}  # fmt: skip


# --- transactions and recalls


def _end(*ends: tuple[Any, str | None]) -> Call:
    """A transaction, and its ends one after the other, with its id if none is named."""

    def call(client: RawGrpc, _topic: str) -> Said:
        made = client.message("pays", message_type=pb.TRANSACTION)
        [entry] = client.send(made).entries
        found: Said = []
        for resolution, transaction_id in ends:
            found += said_to(
                pb.EndTransactionRequest(
                    topic=resource("pays"), message_id=entry.message_id, resolution=resolution, source=pb.SOURCE_CLIENT,
                    transaction_id=entry.transaction_id if transaction_id is None else transaction_id,
                ),
                client,
            )  # fmt: skip
        return found

    return call


def _recall(topic: str, handle: str | None) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        wanted = handle
        if wanted is None:
            made = client.message(topic, delivery_timestamp={"seconds": _soon()})
            wanted = client.send(made).entries[0].recall_handle
        return said_to(
            pb.RecallMessageRequest(topic=resource(topic), recall_handle=wanted), client
        )

    return call


def _soon() -> int:
    return int(time.time()) + 600


ENDS: dict[str, Call] = {
    "commit": _end((pb.COMMIT, None)),
    "rollback": _end((pb.ROLLBACK, None)),
    "end unresolved": _end((pb.TRANSACTION_RESOLUTION_UNSPECIFIED, None)),
    "commit twice": _end((pb.COMMIT, None), (pb.COMMIT, None)),
    "rollback after commit": _end((pb.COMMIT, None), (pb.ROLLBACK, None)),
    "commit without an id": _end((pb.COMMIT, "")),
    "commit of a blank id": _end((pb.COMMIT, " ")),
    "commit of another id": _end((pb.COMMIT, "unknown")),
    "recall": _recall("later", None),
    "recall of plain": _recall("plain", "x"),
    "recall of nowhere": _recall("nowhere", "x"),
    "recall without a handle": _recall("later", ""),
    "recall by a random handle": _recall("later", "abc"),
}  # fmt: skip


# --- clients


def _settle(settings: pb.Settings) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        def answer() -> pb.TelemetryCommand:
            with client.settled(settings) as found:
                return found

        return [said_of(answer)]

    return call


def _filtered(expression: str, kind: pb.FilterType) -> pb.Settings:
    made = _settings(pb.PUSH_CONSUMER, "plain", "readers")
    entry = made.subscription.subscriptions[0].expression
    entry.expression, entry.type = expression, kind
    return made


def _beating(settings: pb.Settings | None, request: Any) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        if settings is None:
            return said_to(request, client)
        with client.settled(settings):
            return said_to(request, client)

    return call


def _beat(kind: pb.ClientType, group: str = "readers") -> pb.HeartbeatRequest:
    return pb.HeartbeatRequest(client_type=kind, group=resource(group))


_PRODUCER = _settings(pb.PRODUCER, "plain", "")
_CONSUMER = _settings(pb.SIMPLE_CONSUMER, "plain", "readers")
CLIENTS: dict[str, Call] = {
    "settings of a producer": _settle(_PRODUCER),
    "settings of a simple consumer": _settle(_CONSUMER),
    "settings of a push consumer": _settle(_settings(pb.PUSH_CONSUMER, "plain", "readers")),
    "settings of a push consumer in order": _settle(_settings(pb.PUSH_CONSUMER, "steps", "ordered")),
    "settings of a group tried twice": _settle(_settings(pb.PUSH_CONSUMER, "plain", "twice")),
    "settings of neither": _settle(pb.Settings()),
    "settings of a topic blank": _settle(_settings(pb.PRODUCER, " ", "")),
    "settings of a topic of illegal signs": _settle(_settings(pb.PRODUCER, "a.b", "")),
    "settings of nowhere": _settle(_settings(pb.PRODUCER, "nowhere", "")),
    "settings of a group blank": _settle(_settings(pb.PUSH_CONSUMER, "plain", " ")),
    "settings of a group of illegal signs": _settle(_settings(pb.PUSH_CONSUMER, "plain", "a.b")),
    "settings with no tags": _settle(_filtered("||", pb.TAG)),
    "settings with SQL that is none": _settle(_filtered("a >", pb.SQL)),
    "heartbeat of a producer": _beating(_PRODUCER, _beat(pb.PRODUCER)),
    "heartbeat of a consumer": _beating(_CONSUMER, _beat(pb.SIMPLE_CONSUMER)),
    "heartbeat without settings": _beating(None, _beat(pb.SIMPLE_CONSUMER)),
    "heartbeat of no type": _beating(_CONSUMER, _beat(pb.CLIENT_TYPE_UNSPECIFIED)),
    "heartbeat of another type": _beating(_CONSUMER, _beat(pb.PRODUCER)),
    "heartbeat of a group blank": _beating(_CONSUMER, _beat(pb.SIMPLE_CONSUMER, " ")),
    "end of a producer": _beating(_PRODUCER, pb.NotifyClientTerminationRequest()),
    "end of a consumer": _beating(_CONSUMER, pb.NotifyClientTerminationRequest(group=resource("readers"))),
    "end without settings": _beating(None, pb.NotifyClientTerminationRequest(group=resource("readers"))),
    "end of a group blank": _beating(_CONSUMER, pb.NotifyClientTerminationRequest(group=resource(" "))),
}  # fmt: skip


# --- calls of any kind


def _nameless(request: Any) -> Call:
    """A call without a client id."""

    def call(client: RawGrpc, _topic: str) -> Said:
        client.metadata = [each for each in client.metadata if each[0] != "x-mq-client-id"]
        if isinstance(request, (pb.ReceiveMessageRequest, pb.PullMessageRequest)):
            return parts_of(client, request)
        return said_to(request, client)

    return call


def _undecoded(client: RawGrpc, _topic: str) -> Said:
    method = client.channel.unary_unary(
        "/apache.rocketmq.v2.MessagingService/SendMessage",
        response_deserializer=pb.SendMessageResponse.FromString,
    )
    return [said_of(lambda: method(b"\xff\xff\xff", metadata=client.metadata, timeout=30))]


def _of_method(path: str) -> Call:
    def call(client: RawGrpc, _topic: str) -> Said:
        method = client.channel.unary_unary(path, response_deserializer=pb.Status.FromString)
        return [said_of(lambda: method(b"", metadata=client.metadata, timeout=30))]

    return call


_NAMELESS: Sequence[Any] = (
    pb.QueryRouteRequest(topic=resource("plain")), pb.QueryAssignmentRequest(topic=resource("plain"), group=resource("readers")),
    pb.HeartbeatRequest(client_type=pb.PRODUCER), pb.SendMessageRequest(), pb.ReceiveMessageRequest(), pb.AckMessageRequest(),
    pb.ForwardMessageToDeadLetterQueueRequest(), pb.EndTransactionRequest(), pb.NotifyClientTerminationRequest(),
    pb.ChangeInvisibleDurationRequest(), pb.RecallMessageRequest(),
)  # fmt: skip
OTHERS: dict[str, Call] = {
    **{f"{type(each).__name__} without a client id": _nameless(each) for each in _NAMELESS},
    "what is no request": _undecoded,
    "unknown method": _of_method("/apache.rocketmq.v2.MessagingService/Unknown"),
    "unknown service": _of_method("/apache.rocketmq.v2.Unknown/Unknown"),
    "service Admin": _of_method("/apache.rocketmq.v2.Admin/ChangeLogLevel"),
    "SyncLiteSubscription": partial(said_to, pb.SyncLiteSubscriptionRequest()),
    "UpdateOffset": partial(said_to, pb.UpdateOffsetRequest()),
    "GetOffset": partial(said_to, pb.GetOffsetRequest()),
    "QueryOffset": partial(said_to, pb.QueryOffsetRequest()),
    "PullMessage": lambda client, _: parts_of(client, pb.PullMessageRequest()),
}  # fmt: skip


CALLS: dict[str, Call] = {
    **ROUTES, **SENDS, **RECEIVES, **RECEIPTS, **ENDS, **CLIENTS, **OTHERS,
}  # fmt: skip
