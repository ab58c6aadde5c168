"""`cometmq topic show`, `set` and `cometmq message trace`, `resend`, as processes against a real cluster."""

from typing import Any

import orjson
import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
)
from cometmq.embedded import Embedded
from cometmq.model.queue import MessageQueue
from tests.support.command_line import output, printed, run
from tests.support.processes import wait_until


def test_what_a_topic_holds_and_who_reads_it(cluster: Embedded) -> None:
    queue = MessageQueue("orders", "broker-a", 1)
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(
            "orders", queues=2, read_queues=3, attributes={"message.type": "NORMAL"}
        )
        with Producer(cluster.nameserver) as producer:
            for _ in range(5):
                producer.send(Message("orders", b"x"), queue=queue)
        admin.offsets.set("late", {queue: 2})
        found = printed("topic", "show", "orders", cluster=cluster)
        lines = found["queues"]
        assert [(each["read"], each["write"], each["messages"]) for each in lines] == [
            (True, True, 0),
            (True, True, 5),
            (True, False, 0),
        ]
        assert lines[0]["last_ms"] is None
        assert lines[1]["last_ms"] > 0
        assert found["topic"]["messages"] == 5
        assert found["settings"] == [
            {
                "broker": "broker-a", "read": True, "write": True, "read_queues": 3, "write_queues": 2,
                "attributes": ["message.type=NORMAL"],
            },
        ]  # fmt: skip
        assert [(each["group"], each["lag"]) for each in found["groups"]] == [("late", 3)]


def test_a_permission_is_taken_and_given_back(cluster: Embedded) -> None:
    with Admin(cluster.nameserver) as admin:
        admin.topics.create("closed", queues=3, read_queues=4)
        output("topic", "set", "closed", "--no-write", cluster=cluster)
        [settings] = printed("topic", "show", "closed", cluster=cluster)["settings"]
        assert (settings["read"], settings["write"]) == (True, False)
        config = admin.topics.configs("closed")["broker-a"]
        assert (config.perm, config.write_queues, config.read_queues) == (4, 3, 4)
        output("topic", "set", "closed", "--write", "--broker", "broker-a", cluster=cluster)
        assert admin.topics.configs("closed")["broker-a"].perm == 6
    unknown = run(
        "topic", "set", "closed", "--write", "--broker", "b", nameserver=cluster.nameserver
    )
    assert (unknown.returncode, b"no broker 'b' is registered" in unknown.stderr) == (3, True)


def test_the_way_of_a_message_is_a_tree_and_it_can_be_sent_again(cluster: Embedded) -> None:
    got: list[tuple[str, int]] = []

    def listen(message: Any) -> bool:
        got.append((message.message_id, message.reconsume_times))
        return True

    with Producer(cluster.nameserver, settings=ProducerSettings(trace=True)) as producer:
        sent = producer.send(Message("traced", b"body", tag="paid", keys="o-1", properties={"a": "b"}))  # fmt: skip
    settings = PushConsumerSettings(trace=True, consume_from=ConsumeFrom.FIRST)
    with PushConsumer(
        cluster.nameserver, group="reads", listener=listen, subscriptions=["traced"], settings=settings
    ):  # fmt: skip
        wait_until(lambda: got, seconds=30, what="the message")
        again = printed("message", "resend", "traced", sent.message_id, "-g", "reads", cluster=cluster)  # fmt: skip
        assert (again["ok"], again["how"]) == (True, "CR_SUCCESS")
        assert [each[0] for each in got] == [sent.message_id] * 2
        copy = printed("message", "resend", "traced", sent.message_id, cluster=cluster)
        wait_until(lambda: got[-1][0] == copy["id"], seconds=30, what="the copy")
    records = wait_until(
        lambda: [
            each
            for each in [run("message", "trace", sent.message_id, "--json", nameserver=cluster.nameserver)]
            if each.returncode == 0 and b"SubAfter" in each.stdout
        ],
        seconds=30,
        what="its traces",
    )  # fmt: skip
    found = orjson.loads(records[0].stdout)
    kinds = [each["kind"] for each in found]
    assert kinds[:3] == ["Pub", "SubBefore", "SubAfter"]
    tree = output("message", "trace", sent.message_id, cluster=cluster)
    assert "group reads" in tree
    assert "success after" in tree


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        (f"message resend empty {'0' * 32}", 1, "No message matches"),
        (f"message trace {'0' * 32} --trace-topic empty", 1, "There is no trace"),
        (f"message trace {'0' * 32}", 1, "There is no trace"),
        ("topic delete nowhere --yes", 3, "no route of topic 'nowhere'"),
        ("topic set nowhere --no-write", 3, "no broker has the topic 'nowhere'"),
        (
            "topic set nowhere --read --broker broker-a",
            3,
            "broker 'broker-a' does not have the topic 'nowhere'",
        ),
        ("dlq replay nobody", 3, "group 'nobody' has no dead letters"),
        ("dlq delete nobody --yes", 3, "group 'nobody' has no dead letters"),
    ],
)
def test_what_is_not_there_is_status_1_and_a_misspelt_name_an_error(
    cluster: Embedded, command: str, status: int, says: str
) -> None:
    with Admin(cluster.nameserver) as admin:
        admin.topics.create("empty")
    done = run(*command.split(), nameserver=cluster.nameserver)
    assert done.returncode == status
    assert done.stdout == b"" or status == 1
    assert says in done.stderr.decode()
    with Admin(cluster.nameserver) as admin:
        assert not [each for each in admin.topics.list() if "nobody" in each]
