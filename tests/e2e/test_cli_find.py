"""`cometmq message find`, as its users run it."""

from uuid import uuid4

import pytest

from cometmq import Admin, Message, Producer, StoredMessage
from cometmq.embedded import Embedded
from cometmq.model.errors import NetError
from tests.support.command_line import json_lines, run
from tests.support.processes import free_port


@pytest.fixture(scope="module")
def sent(cluster: Embedded) -> tuple[str, list]:
    """A topic of ten messages, and what their sends were answered."""
    topic = f"topic-{uuid4().hex[:8]}"
    with Producer(cluster.nameserver) as producer:
        results = [
            producer.send(Message(topic, b"%d" % number, keys=("all", f"k{number % 5}")))
            for number in range(10)
        ]
    return topic, results


def find(cluster: Embedded, topic: str, *how: str) -> list[dict]:
    return json_lines("message", "find", topic, *how, "--json", cluster=cluster)


def test_by_key(cluster, sent):
    topic, _ = sent
    assert [message["body"] for message in find(cluster, topic, "--key", "k3")] == ["3", "8"]
    newest = find(cluster, topic, "--key", "all", "--limit", "2")
    assert [message["body"] for message in newest] == ["8", "9"]
    backwards = find(cluster, topic, "--key", "all", "--sort=-body", "--limit", "4")
    assert [message["body"] for message in backwards] == ["9", "8", "7", "6"]


@pytest.mark.parametrize("name", ["message_id", "offset_message_id"])
def test_by_either_id(cluster, sent, name):
    topic, results = sent
    for number in (0, 9):
        [message] = find(cluster, topic, "--id", getattr(results[number], name))
        assert message["body"] == str(number)


def test_by_place(cluster, sent):
    topic, results = sent
    place = results[6].queue
    [message] = find(
        cluster,
        topic,
        *("--offset", str(results[6].queue_offset), "--queue", str(place.queue_id)),
    )
    assert message["body"] == "6"


def test_by_time(cluster, sent):
    topic, _ = sent
    [*_, newest] = find(cluster, topic, "--key", "all")
    found = find(cluster, topic, "--time", str(newest["stored_ms"]))
    assert newest in found
    assert all(message["stored_ms"] >= newest["stored_ms"] for message in found)
    assert len(find(cluster, topic, "--time", "2020-01-01", "--limit", "4")) == 4


def test_by_time_finds_more_than_a_broker_returns_at_a_time(cluster):
    with Admin(cluster.nameserver) as admin, Producer(cluster.nameserver) as producer:
        admin.topics.create("many", queues=1)
        for number in range(70):
            producer.send(Message("many", b"%d" % number))
    found = find(cluster, "many", "--time", "2020-01-01", "--limit", "65")
    assert [message["body"] for message in found] == [str(number) for number in range(65)]


@pytest.mark.parametrize(
    "how",
    [
        ("--key", "unknown"),
        ("--id", "7F000001000051C30000000000005AF7"),
        ("--offset", "1000"),
        ("--time", "2100-01-01"),
    ],
)
def test_nothing_found_is_status_1(cluster, sent, how):
    done = run("message", "find", sent[0], *how, nameserver=cluster.nameserver)
    assert done.returncode == 1
    assert b"No message matches" in done.stderr


@pytest.mark.parametrize("how", [(), ("--key", "a", "--offset", "1"), ("--time", "soon")])
def test_wrong_arguments_are_explained_with_status_2(cluster, how):
    done = run("message", "find", "orders", *how, nameserver=cluster.nameserver)
    assert done.returncode == 2
    assert done.stderr


def test_a_key_with_another_white_space_than_a_space_is_found_under_its_name(cluster):
    from cometmq import Admin, Message, Producer

    topic, keys = "ChineseKeys", ("订单\u3000号", "合同\u00a0七", "a\tb")
    with Admin(cluster.nameserver) as admin, Producer(cluster.nameserver) as producer:
        admin.topics.create(topic, queues=1)
        for key in keys:
            producer.send(Message(topic, key.encode(), keys=key))
        for key in keys:
            (found,) = admin.messages.by_key(topic, key)
            assert (found.keys, found.body) == ((key,), key.encode())
            (shown,) = find(cluster, topic, "--key", key)
            assert shown["keys"] == [key]
        assert admin.messages.by_key(topic, "订单") == []


def test_a_message_is_found_by_a_begin_just_before_it(cluster):
    from cometmq import Admin, Message, Producer

    topic = "JustBefore"
    with Admin(cluster.nameserver) as admin, Producer(cluster.nameserver) as producer:
        admin.topics.create(topic, queues=1)
        for number in range(10):
            producer.send(Message(topic, b"%d" % number, keys=f"n{number}"))
        for number in range(10):
            (all_time,) = admin.messages.by_key(topic, f"n{number}")
            at = all_time.stored_ms
            assert admin.messages.by_key(topic, f"n{number}", begin_ms=at, end_ms=at) == [
                all_time
            ]
            assert admin.messages.by_key(topic, f"n{number}", begin_ms=at + 1) == []
            assert admin.messages.by_key(topic, f"n{number}", end_ms=at - 1) == []


def test_the_client_gives_messages(cluster, sent):
    from cometmq import Admin

    topic, results = sent
    with Admin(cluster.nameserver) as admin:
        found = admin.messages.by_key(topic, "k0")
        assert all(isinstance(message, StoredMessage) for message in found)
        assert [message.body for message in found] == [b"0", b"5"]
        viewed = admin.messages.view(results[5].offset_message_id)
        assert viewed == found[1]
        assert viewed.queue == results[5].queue
        assert admin.messages.by_id(topic, results[5].message_id) == viewed
        assert admin.messages.by_id(topic, "0" * 32) is None
        assert admin.messages.by_key(topic, "k0", end_ms=1000) == []


def test_an_id_is_not_unknown_because_no_server_answers():
    with Admin(f"127.0.0.1:{free_port()}") as admin, pytest.raises(NetError):
        admin.messages.find("7F000001000051C30000000000005AF7")


def test_messages_of_a_deleted_topic_of_the_same_name_are_told_from_those_of_the_new_one(
    cluster,
):
    topic = f"topic-{uuid4().hex[:8]}"
    texts = dict[str, list[str]]()
    with Admin(cluster.nameserver) as admin:
        for life, count in (("old", 6), ("new", 3)):
            admin.topics.create(topic, queues=4 if life == "old" else 2)
            with Producer(cluster.nameserver) as producer:
                for number in range(count):
                    body = f"{life} {number}".encode()
                    producer.send(Message(topic, body, keys=("all",)))
            texts[life] = [f"{life} {number}" for number in range(count)]
            if life == "old":
                admin.topics.delete(topic)
    found = find(cluster, topic, "--key", "all")
    assert {each["body"]: each["deleted"] for each in found} == {
        **dict.fromkeys(texts["old"], True),
        **dict.fromkeys(texts["new"], False),
    }
    printed = run("message", "find", topic, "--key", "all", nameserver=cluster.nameserver)
    lines = printed.stdout.decode().splitlines()
    marked = [line for line in lines if line.rstrip().endswith("of a deleted topic")]
    assert (len(lines), len(marked)) == (9, 6)
    [dead] = [each for each in found if each["body"] == "old 5"]
    [same] = find(cluster, topic, "--id", dead["id"])
    assert same["deleted"]
