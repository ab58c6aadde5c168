"""Calls of a plain gRPC client to an embedded broker: routes, sends, receipts, offsets, and what is refused with which text."""

import gzip
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cometmq import Admin, Message, Producer, ProducerSettings, PullConsumer
from cometmq.codec.bodies.running import DirectResult, decode_direct
from cometmq.codec.compression import Compression
from cometmq.codec.host import encode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.embedded import Embedded
from cometmq.model.codes import Language, RequestCode
from cometmq.model.group import GroupConfig
from cometmq.proxy.v2 import messaging_pb2 as pb
from tests.support.frames import ask
from tests.support.grpc_raw import RawGrpc, resource

_TOPICS: dict[str, dict[str, str]] = {
    "plain": {}, "steps": {"message.type": "FIFO"}, "later": {"message.type": "DELAY"},
    "pays": {"message.type": "TRANSACTION"}, "mixed": {"message.type": "MIXED"},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    settings = {"transactionTimeOut": 500, "transactionCheckInterval": 300}
    with Embedded(grpc_port=0, settings=settings) as made:
        with Admin(made.nameserver) as admin:
            for name, attributes in _TOPICS.items():
                admin.topics.create(name, queues=4, attributes=attributes)
            admin.groups.create(GroupConfig("ordered", orderly=True))
            admin.groups.create(GroupConfig("twice", retry_max_times=1))
        yield made


@pytest.fixture
def client(cluster) -> Iterator[RawGrpc]:
    with RawGrpc(cluster.grpc_address) as made:
        yield made


@pytest.fixture
def topic(cluster, request) -> str:
    """A topic of its own for a test."""
    name = request.node.name.partition("[")[0][:100]
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(name, queues=2)
    return name


# --- routes


def test_a_route_has_the_queues_under_the_address_that_the_client_used(client, cluster):
    told = pb.Endpoints(
        scheme=pb.DOMAIN_NAME, addresses=[pb.Address(host="broker.test", port=9)]
    )
    answer = client.call(pb.QueryRouteRequest(topic=resource("plain"), endpoints=told))
    assert answer.status.code == pb.OK
    assert [each.id for each in answer.message_queues] == [0, 1, 2, 3]
    for each in answer.message_queues:
        assert each.permission == pb.READ_WRITE
        assert each.broker.endpoints == told
        assert (each.broker.name, each.broker.id) == ("broker-a", 0)
        assert list(each.accept_message_types) == [pb.NORMAL]
    # Without an address in the call, the one that it came to.
    [first, *_] = client.call(pb.QueryRouteRequest(topic=resource("mixed"))).message_queues
    [address] = first.broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == cluster.grpc_address
    assert list(first.accept_message_types) == [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]


def test_a_topic_that_does_not_exist_is_named_and_not_created(client):
    for _ in range(2):
        status = client.call(pb.QueryRouteRequest(topic=resource("nowhere"))).status
        assert status.code == pb.TOPIC_NOT_FOUND
        assert status.message == "No topic route info in name server for the topic: nowhere"


def test_a_consumer_is_assigned_one_queue_for_all_or_each_if_its_group_is_in_order(client):
    def ids(group):
        asked = pb.QueryAssignmentRequest(topic=resource("plain"), group=resource(group))
        return [each.message_queue.id for each in client.call(asked).assignments]

    assert ids("readers") == [-1]
    assert ids("ordered") == [0, 1, 2, 3]


# --- sends (what is refused: test_grpc_answers.py)


def test_a_refused_call_leaves_its_connection_as_it_was(client):
    for bad in (client.message(" "), client.message("plain", b""), client.message("steps")):
        assert client.send(bad).status.code != pb.OK
    assert client.send(client.message("plain")).status.code == pb.OK


def test_each_message_of_a_call_has_its_entry_and_its_group_its_queue(client):
    sent = [client.message("steps", b"%d" % n, message_group=f"g{n % 2}") for n in range(6)]
    answer = client.send(*sent)
    assert answer.status.code == pb.OK
    assert [each.message_id for each in answer.entries] == [
        each.system_properties.message_id for each in sent
    ]
    queues: dict[str, set[int]] = {}
    found: list[pb.Message] = []
    while len(found) < 6:
        found += client.receive("steps", "watchers")[1]
    for each in found:
        system = each.system_properties
        queues.setdefault(system.message_group, set()).add(system.queue_id)
        assert system.message_type == pb.FIFO
    assert {group: len(ids) for group, ids in queues.items()} == {"g0": 1, "g1": 1}


def test_entries_differ_if_one_message_of_a_call_is_refused(client, cluster):
    # The broker refuses properties of more than 32,767 bytes; the proxy, which counts only the user's, does not.
    good, bad = client.message("plain"), client.message("plain", trace_context="t" * 40_000)
    answer = client.send(good, bad)
    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert [each.status.code for each in answer.entries] == [pb.OK, pb.BAD_REQUEST]


def test_a_message_arrives_as_it_was_sent(client, topic):
    made = client.message(
        topic, b"body", tag="blue", keys=["k1", "k2"], trace_context="00-1", born_host="me",
        born_timestamp={"seconds": 1_700_000_000, "nanos": 5_000_000},
    )  # fmt: skip
    made.user_properties.update(colour="grün", empty="")
    client.send(made)
    _, [found] = client.receive(topic)
    system = found.system_properties
    assert found.body == b"body"
    assert dict(found.user_properties) == {"colour": "grün"}
    assert (system.tag, list(system.keys)) == ("blue", ["k1", "k2"])
    assert system.message_id == made.system_properties.message_id
    assert (system.trace_context, system.born_host) == ("00-1", "me")
    assert system.born_timestamp.ToMilliseconds() == 1_700_000_000_005
    assert (system.body_digest.type, system.body_digest.checksum) == (
        pb.MD5, "841A2D689AD86BD1611447453C22C6FC",
    )  # fmt: skip
    assert (system.message_type, system.delivery_attempt) == (pb.NORMAL, 1)
    assert system.invisible_duration.seconds == 15


# --- receipts


def test_a_handle_is_idempotent_until_its_time_is_over(client, topic):
    client.send(client.message(topic))
    _, [found] = client.receive(topic)
    handle = found.system_properties.receipt_handle
    for _ in range(2):
        answer = client.ack(topic, "readers", handle)
        assert answer.status.code == pb.OK


_BAD_HANDLES = {
    "random": "abc", "seven words": "0 1 2 3 0 broker-a 0", "other broker": "0 1 2 3 0 other 0 0 0",
    "expired": "0 1 2 3 0 broker-a 0 0 0", "negative": "0 1 2 3 0 broker-a 0 -5 0",
    "no queue": "0 1 2 3 0 broker-a 99 0 0", "long": "0 " * 400,
}  # fmt: skip


@pytest.mark.parametrize("name", _BAD_HANDLES)
def test_a_bad_handle_changes_nothing(client, topic, name):
    client.send(client.message(topic))
    handle = _BAD_HANDLES[name]
    answer = client.ack(topic, "readers", handle)
    assert answer.entries[0].status.code == pb.INVALID_RECEIPT_HANDLE, answer
    assert answer.status.code == pb.INVALID_RECEIPT_HANDLE
    changed = client.change(topic, "readers", handle, 20)
    assert changed.status.code == pb.INVALID_RECEIPT_HANDLE
    forwarded = client.call(
        pb.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(topic),
            group=resource("readers"),
            receipt_handle=handle,
            message_id="m",
        )
    )
    # Official clients repeat a call that is refused, for ever: one that is only too late is not.
    is_late = name in ("expired", "no queue")
    assert forwarded.status.code == (pb.OK if is_late else pb.INVALID_RECEIPT_HANDLE)
    assert len(client.receive(topic)[1]) == 1


def test_entries_of_acknowledgements_have_their_own_status(client, topic):
    client.send(client.message(topic))
    _, [found] = client.receive(topic)
    answer = client.ack(topic, "readers", found.system_properties.receipt_handle, "abc")
    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert [each.status.code for each in answer.entries] == [pb.OK, pb.INVALID_RECEIPT_HANDLE]


def test_a_message_is_forwarded_to_the_dead_letters(client, topic, cluster):
    client.send(client.message(topic, b"dead"))
    _, [found] = client.receive(topic, "buriers")
    answer = client.call(
        pb.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(topic), group=resource("buriers"), message_id="m",
            receipt_handle=found.system_properties.receipt_handle,
        )
    )  # fmt: skip
    assert answer.status.code == pb.OK
    with Admin(cluster.nameserver) as admin:
        assert "%DLQ%buriers" in set(admin.topics.list())
    assert client.change(topic, "buriers", found.system_properties.receipt_handle, 1).status.code == (
        pb.INVALID_RECEIPT_HANDLE
    )  # fmt: skip


def test_a_message_tried_too_often_becomes_a_dead_letter(client, topic, cluster):
    client.send(client.message(topic, b"poison"))
    for attempt in (1, 2):
        _, [found] = client.receive(topic, "twice")
        assert found.system_properties.delivery_attempt == attempt
        client.change(topic, "twice", found.system_properties.receipt_handle, 0)
    status, found = client.receive(topic, "twice")
    assert (status.code, found) == (pb.MESSAGE_NOT_FOUND, [])
    with Admin(cluster.nameserver) as admin:
        assert "%DLQ%twice" in set(admin.topics.list())


def test_a_queue_in_order_is_locked_until_its_messages_are_acknowledged(client, topic):
    client.send(*(client.message("mixed", b"%d" % n, message_group="g") for n in range(3)))
    _, first = client.receive("mixed", "ordered", count=1, attempt_id="a")
    assert [each.body for each in first] == [b"0"]
    status, found = client.receive("mixed", "ordered", count=1, attempt_id="b")
    assert (status.code, found) == (pb.MESSAGE_NOT_FOUND, [])
    # The same attempt, whose answer may be lost, gets the same again.
    _, again = client.receive("mixed", "ordered", count=1, attempt_id="a")
    assert [each.body for each in again] == [b"0"]
    client.ack("mixed", "ordered", again[0].system_properties.receipt_handle)
    _, second = client.receive("mixed", "ordered", count=1)
    assert [each.body for each in second] == [b"1"]


# --- renewals


def test_messages_of_a_client_that_stops_are_delivered_to_others(cluster, topic):
    with RawGrpc(cluster.grpc_address, "first") as first:
        first.send(first.message(topic))
        _, [found] = first.receive(topic, "renewed", auto_renew=True)
        assert found.system_properties.invisible_duration.seconds == 60
        first.call(pb.NotifyClientTerminationRequest(group=resource("renewed")))
    began = time.monotonic()
    with RawGrpc(cluster.grpc_address, "second") as second:
        _, [again] = second.receive(topic, "renewed", auto_renew=True)
        assert again.system_properties.delivery_attempt == 2
        assert time.monotonic() - began < 5
        # The handle of the first delivery is void.
        handle = found.system_properties.receipt_handle
        assert (
            second.change(topic, "renewed", handle, 20).status.code == pb.INVALID_RECEIPT_HANDLE
        )
        answer = second.ack(topic, "renewed", again.system_properties.receipt_handle)
        assert answer.status.code == pb.OK


# --- transactions


def test_a_transaction_ends_once_and_its_id_is_checked(client):
    made = client.message("pays", b"half", message_type=pb.TRANSACTION)
    [entry] = client.send(made).entries
    key = made.system_properties.message_id
    assert entry.transaction_id.startswith(f"{key}.")

    def end(resolution, transaction_id=entry.transaction_id):
        return client.call(
            pb.EndTransactionRequest(
                topic=resource("pays"), message_id=key, transaction_id=transaction_id,
                resolution=resolution, source=pb.SOURCE_CLIENT,
            )
        ).status.code  # fmt: skip

    assert end(pb.TRANSACTION_RESOLUTION_UNSPECIFIED) == pb.OK
    for wrong in ("", " ", key, entry.transaction_id[:-3], f"x{entry.transaction_id}"):
        assert end(pb.COMMIT, wrong) == pb.INVALID_TRANSACTION_ID
    assert [end(pb.COMMIT), end(pb.COMMIT)] == [pb.OK, pb.OK]
    assert end(pb.ROLLBACK) == pb.INVALID_TRANSACTION_ID
    _, [found] = client.receive("pays", "payers")
    assert (found.body, found.system_properties.message_type) == (b"half", pb.TRANSACTION)


def test_an_orphaned_transaction_is_recovered_over_the_stream(cluster):
    settings = pb.Settings(
        client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[resource("pays")])
    )
    with RawGrpc(cluster.grpc_address, "orphan") as client:
        made = client.message("pays", b"orphan", message_type=pb.TRANSACTION)
        waiting: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
        waiting.put(pb.TelemetryCommand(settings=settings))
        stream = client.telemetry(iter(waiting.get, None))
        answer = next(stream)
        assert answer.settings.backoff_policy.max_attempts == 3
        assert answer.settings.publishing.max_body_size == 4 << 20
        client.send(made)
        asked = next(stream).recover_orphaned_transaction_command
        assert asked.message.body == b"orphan"
        assert asked.message.topic.name == "pays"
        ended = client.call(
            pb.EndTransactionRequest(
                topic=resource("pays"), transaction_id=asked.transaction_id, message_id="m",
                resolution=pb.ROLLBACK, source=pb.SOURCE_SERVER_CHECK,
            )
        )  # fmt: skip
        assert ended.status.code == pb.OK
        waiting.put(None)


# --- pulls and offsets


def test_a_queue_is_pulled_by_offset(client, topic):
    for number in range(3):
        client.send(client.message(topic, b"%d" % number))
    queues = [pb.MessageQueue(topic=resource(topic), id=each) for each in range(2)]

    def offset(place, policy, **more):
        asked = pb.QueryOffsetRequest(message_queue=place, query_offset_policy=policy, **more)
        return client.call(asked).offset

    assert sum(offset(each, pb.END) for each in queues) == 3
    assert sum(offset(each, pb.TIMESTAMP, timestamp={"seconds": 1}) for each in queues) == 0
    bodies = []
    for place in queues:
        asked = pb.PullMessageRequest(
            group=resource("pullers"), message_queue=place, offset=0, batch_size=32
        )
        parts = list(client.stream(asked))
        bodies += [each.message.body for each in parts if each.HasField("message")]
        assert parts[-1].next_offset == offset(place, pb.END)
        get = pb.GetOffsetRequest(group=resource("pullers"), message_queue=place)
        assert client.call(get).status.code == pb.OFFSET_NOT_FOUND
        update = pb.UpdateOffsetRequest(
            group=resource("pullers"), message_queue=place, offset=parts[-1].next_offset
        )
        assert client.call(update).status.code == pb.OK
        assert client.call(get).offset == parts[-1].next_offset
        update.offset = 1 << 60
        assert client.call(update).status.code == pb.ILLEGAL_OFFSET
    assert sorted(bodies) == [b"0", b"1", b"2"]
    far = pb.PullMessageRequest(
        group=resource("pullers"), message_queue=queues[0], offset=99, batch_size=32
    )
    assert next(iter(client.stream(far))).status.code == pb.ILLEGAL_OFFSET


# --- members


def test_clients_are_seen_by_operators(cluster, topic):
    settings = pb.Settings(
        client_type=pb.SIMPLE_CONSUMER,
        subscription=pb.Subscription(
            group=resource("seen"),
            subscriptions=[pb.SubscriptionEntry(topic=resource(topic), expression=pb.FilterExpression(type=pb.TAG, expression="a || b"))],
        ),
    )  # fmt: skip
    with RawGrpc(cluster.grpc_address, "a-client") as client, ExitStack() as stack:
        # As the official client calls it; the protocol calls it GOLANG.
        client.metadata[0] = ("x-mq-language", "GO")
        answer = stack.enter_context(client.settled(settings))
        assert answer.status.code == pb.OK
        assert answer.settings.subscription.receive_batch_size == 32
        assert answer.settings.subscription.long_polling_timeout.seconds == 20
        assert answer.settings.backoff_policy.max_attempts == 17
        assert not answer.settings.metric.on
        with Admin(cluster.nameserver) as admin:
            [found] = admin.groups.connections("seen").values()
        [connection] = found.connections
        assert (connection.client_id, connection.language) == ("a-client", Language.GO)
        assert found.subscriptions[topic].tags == ("a", "b")
        client.call(pb.NotifyClientTerminationRequest(group=resource("seen")))


def _answer_commands(stream, waiting, verdicts):
    """Answer the commands of a console as a consumer does, until the stream ends."""
    for command in stream:
        if command.HasField("print_thread_stack_trace_command"):
            nonce = command.print_thread_stack_trace_command.nonce
            stack = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: waits")
            waiting.put(pb.TelemetryCommand(thread_stack_trace=stack))
            continue
        asked = command.verify_message_command
        assert asked.message.body == b"tried"
        made = pb.TelemetryCommand(status=pb.Status(code=verdicts.pop(0)))
        made.verify_message_result.nonce = asked.nonce
        waiting.put(made)


def test_a_console_asks_a_client_over_its_stream(cluster, topic):
    settings = pb.Settings(client_type=pb.PUSH_CONSUMER)
    settings.subscription.group.name = "asked"
    settings.subscription.subscriptions.add(topic=resource(topic)).expression.type = pb.TAG
    waiting: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
    waiting.put(pb.TelemetryCommand(settings=settings))
    with RawGrpc(cluster.grpc_address, "asked-client") as client:
        stream = client.telemetry(iter(waiting.get, None))
        assert next(stream).HasField("settings")
        client.send(client.message(topic, b"tried"))
        _, [found] = client.receive(topic, "asked")
        verdicts = [pb.OK, pb.FAILED_TO_CONSUME_MESSAGE]
        thread = threading.Thread(target=_answer_commands, args=(stream, waiting, verdicts))
        thread.start()
        with Admin(cluster.nameserver) as admin:
            state = admin.groups.running("asked", "asked-client")
            assert (state.subscriptions[0].topic, state.stacks) == (topic, None)
            assert state.properties["PROP_CLIENT_VERSION"] == "V5_1_2"
            state = admin.groups.running("asked", "asked-client", stacks=True)
            assert state.stacks == "main: waits"
        physical = int(found.system_properties.receipt_handle.rpartition(" ")[2])
        fields = {
            "consumerGroup": "asked", "clientId": "asked-client", "topic": topic,
            "msgId": encode_message_id(encode_host(cluster.broker), physical),
        }  # fmt: skip
        for expected in (DirectResult.SUCCESS, DirectResult.LATER):
            _, said = ask(cluster.broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
            assert decode_direct(said).result is expected
        client.call(pb.NotifyClientTerminationRequest(group=resource("asked")))
        waiting.put(None)
        thread.join(10)


def test_a_heartbeat_registers_a_client_without_settings(cluster):
    with RawGrpc(cluster.grpc_address, "beating") as client:
        beat = pb.HeartbeatRequest(group=resource("beats"), client_type=pb.PUSH_CONSUMER)
        untyped = pb.HeartbeatRequest(group=resource("beats"))
        assert client.call(untyped).status.code == pb.UNRECOGNIZED_CLIENT_TYPE
        for each in (beat, untyped):
            assert client.call(each).status.code == pb.OK
        with Admin(cluster.nameserver) as admin:
            [found] = admin.groups.connections("beats").values()
            assert [each.client_id for each in found.connections] == ["beating"]
        client.call(pb.NotifyClientTerminationRequest())


def test_a_call_that_waits_is_answered_when_the_broker_stops():
    with Embedded(grpc_port=0) as cluster:
        with Admin(cluster.nameserver) as admin:
            admin.topics.create("quiet", queues=1)
        client = RawGrpc(cluster.grpc_address)
        waiting = client.stream(client.receive_request("quiet"), timeout=60)
        time.sleep(0.5)
        began = time.monotonic()
        cluster.close()
        assert next(iter(waiting)).status.code == pb.MESSAGE_NOT_FOUND
        assert time.monotonic() - began < 10
        client.channel.close()


def test_a_message_that_arrives_wakes_a_call(client, topic):
    waiting = client.stream(client.receive_request(topic, "woken"), timeout=30)
    time.sleep(0.5)
    client.send(client.message(topic, b"awake"))
    began = time.monotonic()
    parts = list(waiting)
    assert [each.message.body for each in parts if each.HasField("message")] == [b"awake"]
    assert time.monotonic() - began < 4


# --- clients of both protocols, and namespaces


@pytest.mark.parametrize("compression", list(Compression))
def test_what_a_remoting_client_sends_compressed_arrives_plain(
    client, topic, cluster, compression
):
    settings = ProducerSettings(compress_over=10, compression=compression)
    body = b"long enough " * 1_000
    with Producer(cluster.nameserver, settings=settings) as producer:
        producer.send(Message(topic, body, tag="t", keys=("k",), properties={"a": "b"}))
    _, [found] = client.receive(topic)
    system = found.system_properties
    assert (found.body, system.body_encoding) == (body, pb.IDENTITY)
    assert (system.tag, list(system.keys), dict(found.user_properties)) == (
        "t",
        ["k"],
        {"a": "b"},
    )


def test_what_a_grpc_client_sends_a_remoting_client_receives(client, topic, cluster):
    made = client.message(topic, b"across", tag="t", keys=["k1", "k2"])
    made.user_properties["a"] = "b"
    client.send(made)
    with PullConsumer(cluster.nameserver, group="remoting") as consumer:
        consumer.subscribe(topic)
        [found] = consumer.receive(wait_ms=10_000)
    assert (found.body, found.tag, tuple(found.keys)) == (b"across", "t", ("k1", "k2"))
    assert found.properties["a"] == "b"
    assert found.message_id == made.system_properties.message_id


def test_a_body_that_a_client_compressed_with_gzip_is_passed_on(client, topic):
    body = gzip.compress(b"squeezed")
    client.send(client.message(topic, body, body_encoding=pb.GZIP))
    _, [found] = client.receive(topic)
    assert (found.body, found.system_properties.body_encoding) == (body, pb.GZIP)


def test_topics_of_namespaces_are_apart(client, cluster):
    with Admin(cluster.nameserver) as admin:
        admin.topics.create("shop%orders", queues=1)
        admin.topics.create("orders", queues=1)
    made = client.message("orders", b"of the shop")
    made.topic.resource_namespace = "shop"
    assert client.send(made).status.code == pb.OK
    asked = client.receive_request("orders")
    asked.message_queue.topic.resource_namespace = asked.group.resource_namespace = "shop"
    parts = list(client.stream(asked))
    [found] = [each.message for each in parts if each.HasField("message")]
    assert found.topic == resource("orders", "shop")
    assert found.body == b"of the shop"
    assert client.receive("orders")[1] == []
    bad = pb.QueryRouteRequest(topic=resource("orders", "a.b"))
    assert client.call(bad).status.code == pb.ILLEGAL_TOPIC
