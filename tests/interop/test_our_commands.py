"""Our commands for operators do the same on Java's servers 5.3.3 as on ours.

Every test here runs on both clusters.
"""

from typing import Any

import orjson
import pytest

from cometmq import Admin, Message, MessageQueue, Producer
from cometmq.admin import GroupConfig
from tests.interop.ours import SECONDS, bodies, messages, new_topic
from tests.support import json_tables, topics
from tests.support.command_line import run
from tests.support.processes import wait_until

PATIENCE_SECONDS = 20  # Less than `run` gives a command.

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]


def command(names: str, *arguments: str, status: int = 0) -> bytes:
    """What a command prints that ends with a status.

    A JVM that has just started beside others may need many seconds for its first answers: what is asked here is
    what it says.
    """
    done = run(*arguments, nameserver=names, patience=PATIENCE_SECONDS)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout


def said(names: str, *arguments: str, status: int = 0) -> Any:
    """What a command prints as JSON, as its page says."""
    printed = command(names, *arguments, "--json", status=status)
    found = orjson.loads(printed)
    json_tables.check(" ".join(arguments[:2]), found)
    return found


def broker_of(names: str) -> str:
    return str(said(names, "cluster", "list")[0]["broker"])


def test_brokers_are_shown_and_drained(names: str) -> None:
    topic = new_topic(names, 2)
    [broker] = said(names, "cluster", "list")
    assert broker["state"] == "up"
    assert broker["version"].startswith("V5")
    assert isinstance(broker["disk_percent"], float)
    numbers = said(names, "cluster", "show", broker["broker"])["numbers"]
    assert int(numbers["bootTimestamp"]) > 0
    settings = said(names, "cluster", "config", broker["broker"], "brokerName", "listenPort")
    assert {each["key"]: each["value"] for each in settings}["brokerName"] == broker["broker"]
    with Admin(names) as admin:
        command(names, "cluster", "drain", broker["broker"])
        try:
            assert admin.topics.route(topic).write_queues(topic) == []
            assert said(names, "cluster", "list")[0]["state"] == "drained"
        finally:
            command(names, "cluster", "undrain", broker["broker"])
        assert len(admin.topics.route(topic).write_queues(topic)) == 2


def test_groups_and_their_offsets(names: str, group: str, producer: Producer) -> None:
    topic = new_topic(names, 2)
    with Admin(names) as admin:
        admin.groups.create(GroupConfig(group, retry_max_times=3))
    broker = broker_of(names)
    for number in range(6):
        queue = MessageQueue(topic, broker, number % 2)
        producer.send(Message(topic, b"x"), queue=queue)
    arguments = ("offset", "reset", group, topic)
    moved = said(names, *arguments, "--to-offset", "1", "--yes")
    assert [each["new"] for each in moved] == [1, 1]
    listed = {each["group"]: each for each in said(names, "group", "list")}
    assert (listed[group]["lag"], listed[group]["members"]) == (4, 0)
    shown = said(names, "group", "show", group)
    assert [each["offset"] for each in shown["queues"] if each["topic"] == topic] == [1, 1]
    assert shown["settings"][0]["retry_max"] == 3
    said(names, "offset", "reset", group, topic, "--to", "earliest", "--yes")
    assert [each["offset"] for each in said(names, "offset", "show", group, "--topic", topic)] == [0, 0]  # fmt: skip
    command(names, "offset", "skip", group, topic, "--yes")
    assert [each["lag"] for each in said(names, "offset", "show", group, "--topic", topic)] == [0, 0]  # fmt: skip
    command(names, "group", "set", group, "--no-consume")
    assert said(names, "group", "show", group)["group"]["enabled"] is False
    command(names, "group", "delete", group, "--yes")


def test_topics_and_their_permissions(names: str, topic: str, producer: Producer) -> None:
    producer.send_many(messages(topic, bodies("m", 10)))
    shown = said(names, "topic", "show", topic)
    assert sum(each["messages"] for each in shown["queues"]) == 10
    assert shown["topic"]["messages"] == 10
    command(names, "topic", "set", topic, "--no-write")
    [settings] = said(names, "topic", "show", topic)["settings"]
    assert (settings["read"], settings["write"]) == (True, False)
    command(names, "topic", "set", topic, "--write")
    assert said(names, "topic", "show", topic)["settings"][0]["write"] is True


def test_dead_letters_go_back_once(
    names: str, topic: str, group: str, producer: Producer
) -> None:
    dead = f"%DLQ%{group}"
    with Admin(names) as admin:
        for name in (dead, topic):
            admin.topics.create(name, queues=1)
        wait_until(
            lambda: {dead, topic} <= set(admin.topics.list()), seconds=SECONDS, what="topics"
        )
    producer.send_many(messages(dead, bodies("d", 50)))
    assert {each["group"]: each["letters"] for each in said(names, "dlq", "list")}[group] == 50
    first = said(names, "dlq", "replay", group, "--to-topic", topic)
    second = said(names, "dlq", "replay", group, "--to-topic", topic)
    assert (first["sent"], second["sent"], second["before"]) == ({topic: 50}, {}, 50)
    assert len(topics.read(names, topic)) == 50


OF_GROUPS = {"group", "progress", "abandoned", "stopped", "queues", "members", "letters"}


def test_the_doctor_finds_no_program_at_fault(names: str) -> None:
    done = run("doctor", "--json", nameserver=names, patience=PATIENCE_SECONDS)
    found = orjson.loads(done.stdout)
    json_tables.check("doctor", found)
    # Other tests leave groups without members, and no test decides how full the disk of this machine is.
    of_programs = [
        each
        for each in found
        if each["check"] not in {*OF_GROUPS, "topic"}
        and "of the disk of its log is used" not in each["text"]
    ]
    assert of_programs == []
