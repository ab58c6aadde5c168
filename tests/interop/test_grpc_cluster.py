"""Our gRPC proxy in front of a Java broker 5.3.3, and of ours: sends, receipts, renewals, transactions and dead letters.

Every test here runs on both clusters.
"""

import queue
import sys
import time
from collections.abc import Iterator

import pytest

from cometmq import Admin
from cometmq.model.group import GroupConfig
from cometmq.proxy.v2 import messaging_pb2 as pb
from tests.interop.ours import new_topic
from tests.support import processes
from tests.support.grpc_raw import RawGrpc, resource, seconds
from tests.support.processes import free_port, wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

# The proxy renews soon: what is hidden for a minute at first is hidden for 12 s here.
_IMPATIENT = (
    "import sys; from cometmq.proxy.services import receiving, renewals; "
    "receiving.RENEWED_MS = 12_000; renewals.TIMES_SECONDS = (12,); "
    "from cometmq.proxy.cluster.program import run_proxy; sys.exit(run_proxy(sys.argv[1]))"
)


@pytest.fixture(scope="module")
def client(names, tmp_path_factory) -> Iterator[RawGrpc]:
    folder = tmp_path_factory.mktemp("proxy")
    proxy = processes.proxy(folder, names, port=free_port())
    proxy.command = [sys.executable, "-c", _IMPATIENT, proxy.command[-1]]
    with proxy, RawGrpc(proxy.address) as made:
        yield made


def of_type(names: str, kind: str) -> str:
    """A new topic for messages of a type."""
    topic = f"{kind}_{time.time_ns()}"
    with Admin(names) as admin:
        admin.topics.create(topic, queues=4, attributes={"message.type": kind})
    return topic


def handles_of(messages: list[pb.Message]) -> list[str]:
    return [each.system_properties.receipt_handle for each in messages]


def received(client: RawGrpc, topic: str, group: str, least: int, **more) -> list[pb.Message]:
    """Receive until there are so many messages."""
    found: list[pb.Message] = []

    def has_all() -> bool:
        found.extend(client.receive(topic, group, **more)[1])
        return len(found) >= least

    wait_until(has_all, seconds=60, what=f"{least} messages of {topic}")
    return found


@pytest.fixture
def sent(client, names, group) -> str:
    """A topic with ten messages, whose consumer group has popped before: Java's starts at the end."""
    topic = new_topic(names)
    assert client.receive(topic, group)[1] == []
    messages = [client.message(topic, b"%d" % each, tag="t", keys=["k"]) for each in range(10)]
    answer = client.send(*messages)
    assert [each.status.code for each in answer.entries] == [pb.OK] * 10
    assert [each.message_id for each in answer.entries] == [
        each.system_properties.message_id for each in messages
    ]
    return topic


def test_messages_are_received_once_and_acknowledged_alone_and_together(client, sent, group):
    found = received(client, sent, group, 10)
    assert sorted(each.body for each in found) == [b"%d" % each for each in range(10)]
    system = found[0].system_properties
    assert (system.tag, [*system.keys], system.delivery_attempt) == ("t", ["k"], 1)
    first, *others = handles_of(found)
    assert client.ack(sent, group, first).status.code == pb.OK
    assert client.ack(sent, group, *others).status.code == pb.OK
    assert client.receive(sent, group)[1] == []


def test_a_message_that_is_shown_again_comes_from_its_retry_topic(client, sent, group):
    found = received(client, sent, group, 10)
    [shown, *others] = handles_of(found)
    assert client.ack(sent, group, *others).status.code == pb.OK
    changed = client.change(sent, group, shown, 1)
    assert changed.status.code == pb.OK
    [again] = received(client, sent, group, 1)
    assert again.topic.name == sent
    assert again.system_properties.delivery_attempt == 2
    assert client.ack(sent, group, *handles_of([again])).status.code == pb.OK
    assert client.receive(sent, group)[1] == []


def test_a_renewed_message_stays_hidden_under_the_handle_that_the_client_has(
    client, sent, group
):
    settings = pb.Settings(client_type=pb.PUSH_CONSUMER)
    settings.subscription.group.name = group
    with client.settled(settings):
        found = received(client, sent, group, 10, auto_renew=True)
        time.sleep(16)
        assert client.receive(sent, group)[1] == []
        answer = client.ack(sent, group, *handles_of(found))
        assert [each.status.code for each in answer.entries] == [pb.OK] * 10
    time.sleep(14)
    assert client.receive(sent, group)[1] == []


def test_an_expired_handle_is_refused(client, sent, group):
    found = received(client, sent, group, 10, invisible_duration=seconds(10))
    time.sleep(13)
    answer = client.ack(sent, group, *handles_of(found))
    assert {each.status.code for each in answer.entries} == {pb.INVALID_RECEIPT_HANDLE}


def test_a_dead_letter_is_stored_and_acknowledged(client, sent, group, names):
    [dead, *others] = received(client, sent, group, 10)
    assert client.ack(sent, group, *handles_of(others)).status.code == pb.OK
    forwarded = client.call(
        pb.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(sent), group=resource(group), message_id="m",
            receipt_handle=dead.system_properties.receipt_handle,
        )
    )  # fmt: skip
    assert forwarded.status.code == pb.OK
    assert client.receive(sent, group)[1] == []
    with Admin(names) as admin:
        letters = wait_until(
            lambda: list(admin.dead_letters.read(group)), seconds=30, what="the dead letter"
        )
    assert len(letters) == 1


def test_messages_of_a_group_come_in_order(client, names, group):
    topic = of_type(names, "FIFO")
    with Admin(names) as admin:
        admin.groups.create(GroupConfig(group, orderly=True))
    assert client.receive(topic, group)[1] == []
    for number in range(6):
        client.send(client.message(topic, b"%d" % number, message_group="one"))
    bodies: list[bytes] = []
    while len(bodies) < 6:
        found = received(client, topic, group, 1, count=2)
        bodies += [each.body for each in found]
        assert client.ack(topic, group, *handles_of(found)).status.code == pb.OK
    assert bodies == [b"%d" % each for each in range(6)]


def test_transactions_end_as_their_producer_says(client, names, group):
    topic = of_type(names, "TRANSACTION")
    assert client.receive(topic, group)[1] == []
    for body, outcome in ((b"kept", pb.COMMIT), (b"dropped", pb.ROLLBACK)):
        half = client.message(topic, body, message_type=pb.TRANSACTION)
        [entry] = client.send(half).entries
        assert entry.status.code == pb.OK
        ended = client.call(
            pb.EndTransactionRequest(
                topic=resource(topic), message_id=entry.message_id, resolution=outcome,
                transaction_id=entry.transaction_id,
            )
        )  # fmt: skip
        assert ended.status.code == pb.OK
    assert [each.body for each in received(client, topic, group, 1)] == [b"kept"]


def test_brokers_ask_the_producers_of_the_proxy_about_open_transactions(client, names, group):
    topic = of_type(names, "TRANSACTION")
    assert client.receive(topic, group)[1] == []
    settings = pb.Settings(client_type=pb.PRODUCER)
    settings.publishing.topics.add(name=topic)
    commands: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
    commands.put(pb.TelemetryCommand(settings=settings))
    stream = client.telemetry(iter(commands.get, None))
    assert next(stream).HasField("settings")
    half = client.message(topic, b"open", message_type=pb.TRANSACTION)
    assert client.send(half).status.code == pb.OK
    asked = next(stream).recover_orphaned_transaction_command
    assert asked.message.body == b"open"
    ended = client.call(
        pb.EndTransactionRequest(
            topic=resource(topic), message_id="m", resolution=pb.COMMIT,
            source=pb.SOURCE_SERVER_CHECK, transaction_id=asked.transaction_id,
        )
    )  # fmt: skip
    commands.put(None)
    assert ended.status.code == pb.OK
    assert [each.body for each in received(client, topic, group, 1)] == [b"open"]


def test_a_timed_message_is_recalled(client, names, group):
    topic = of_type(names, "DELAY")
    assert client.receive(topic, group)[1] == []
    message = client.message(topic, b"later")
    message.system_properties.delivery_timestamp.FromMilliseconds(
        int(time.time() * 1000) + 5_000
    )
    [entry] = client.send(message).entries
    assert entry.status.code == pb.OK
    recalled = client.call(
        pb.RecallMessageRequest(topic=resource(topic), recall_handle=entry.recall_handle)
    )
    assert recalled.status.code == pb.OK
    assert recalled.message_id == entry.message_id
    time.sleep(7)
    assert client.receive(topic, group)[1] == []
