"""`cometmq group` and `cometmq offset`, as processes against a real cluster."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import orjson
import pytest

from cometmq import Admin, Message, Producer, PushConsumer
from cometmq.embedded import Embedded
from cometmq.errors import GroupNotFound
from cometmq.model.queue import MessageQueue
from tests.support import json_tables
from tests.support.command_line import Running, output, run
from tests.support.processes import wait_until

TOPIC = "orders"
COUNT = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    with Embedded() as cluster:
        with Admin(cluster.nameserver) as admin:
            admin.topics.create(TOPIC, queues=2)
        with Producer(cluster.nameserver) as producer:
            for number in range(COUNT):
                queue = MessageQueue(TOPIC, "broker-a", number % 2)
                producer.send(Message(TOPIC, b"%d" % number), queue=queue)
        yield cluster


@pytest.fixture(scope="module")
def member(cluster: Embedded) -> Iterator[list[bytes]]:
    got: list[bytes] = []
    with PushConsumer(
        cluster.nameserver,
        group="billing",
        listener=lambda message: got.append(message.body),
        subscriptions=[TOPIC],
    ):
        wait_until(lambda: len(got) >= COUNT, seconds=30, what="all messages consumed")
        yield got


def printed(*arguments: str, cluster: Embedded) -> Any:
    return orjson.loads(output(*arguments, "--json", cluster=cluster))


def offsets(cluster: Embedded, group: str) -> list[int | None]:
    with Admin(cluster.nameserver) as admin:
        return list(admin.offsets.committed(group, TOPIC).values())


def test_each_prints_json_as_its_page_says(cluster: Embedded, member: list[bytes]) -> None:
    """`command_line.run` compares what is printed with --json with that page."""
    listed = printed("group", "list", cluster=cluster)
    assert [(each["group"], each["members"], each["topics"]) for each in listed] == [
        ("billing", 1, [TOPIC])
    ]
    shown = printed("group", "show", "billing", "--threads", cluster=cluster)
    assert shown["type"] == "CONSUME_PASSIVELY"
    [running] = shown["running"]
    assert running["client"] == shown["members"][0]["client"]
    assert (shown["group"]["group"], shown["group"]["members"]) == ("billing", 1)
    fewer = printed(
        "group", "show", "billing", "--sort=-queue", "--limit", "1", cluster=cluster
    )
    assert [each["queue"] for each in fewer["queues"]] == [1]
    assert "MainThread" in running["threads"]
    assert {each["queue"] for each in running["queues"] if each["topic"] == TOPIC} == {0, 1}
    printed("offset", "show", "billing", cluster=cluster)
    # Members store their offsets each 5 s.
    wait_until(lambda: offsets(cluster, "billing") == [6, 6], seconds=30, what="commits")
    every = printed("offset", "show", "--topic", TOPIC, cluster=cluster)
    assert [each["queue"] for each in every if each["group"] == "billing"] == [0, 1]


def test_a_watched_look_is_a_history_that_outlives_a_broker_that_is_away(tmp_path) -> None:
    arguments = ("offset", "show", "--json", "--watch")
    with ExitStack() as stack:
        with Embedded() as cluster:
            with Admin(cluster.nameserver) as admin:
                admin.topics.create(TOPIC, queues=1)
                admin.offsets.set("kept", {MessageQueue(TOPIC, "broker-a", 0): 0})
            watching = stack.enter_context(
                Running(tmp_path, *arguments, nameserver=cluster.nameserver)
            )
            watching.wait_for(r"\n.*\n")
        # The cluster is gone, the command is not.
        watching.wait_for(r"^error: .*; trying again", path=watching.err)
        assert watching.end() == 0
    first, second = [json.loads(line) for line in watching.out.read_text().splitlines()][:2]
    assert [each["group"] for each in first] == ["kept"]
    assert first[0]["at_ms"] < second[0]["at_ms"]


def test_a_group_with_members_goes_where_it_is_sent(
    cluster: Embedded, member: list[bytes]
) -> None:
    wait_until(lambda: offsets(cluster, "billing") == [6, 6], seconds=30, what="commits")
    moves = printed(
        "offset", "reset", "billing", TOPIC, "--to", "earliest", "--dry-run", cluster=cluster
    )
    assert [(each["offset"], each["new"], each["moves"]) for each in moves] == [(6, 0, -6)] * 2
    assert offsets(cluster, "billing") == [6, 6]
    member.clear()
    arguments = ("offset", "reset", "billing", TOPIC, "--to-offset", "4", "--queue", "1")
    output(*arguments, "--yes", cluster=cluster)
    wait_until(lambda: len(member) >= 2, seconds=30, what="two messages again")
    assert sorted(member) == [b"11", b"9"]


def test_nothing_moves_without_a_yes(cluster: Embedded, member: list[bytes]) -> None:
    output("offset", "skip", "billing", TOPIC, "--dry-run", "--json", cluster=cluster)
    asked = run("offset", "skip", "billing", TOPIC, nameserver=cluster.nameserver)
    assert asked.returncode == 3
    assert b"It skips" in asked.stderr
    assert b"nothing was done" in asked.stderr


def test_offsets_go_into_a_file_and_to_another_group(cluster: Embedded, tmp_path) -> None:
    with Admin(cluster.nameserver) as admin:
        queues = [MessageQueue(TOPIC, "broker-a", number) for number in range(2)]
        admin.offsets.set("first", dict(zip(queues, (3, 5), strict=True)))
    file = tmp_path / "offsets.json"
    output("offset", "export", "first", str(file), cluster=cluster)
    json_tables.check("offset export", json.loads(file.read_bytes()))
    output("offset", "import", str(file), "-g", "second", "--yes", "--json", cluster=cluster)
    assert offsets(cluster, "second") == [3, 5]
    output("offset", "copy", "second", "third", "--yes", "--json", cluster=cluster)
    assert offsets(cluster, "third") == [3, 5]


@pytest.mark.parametrize(
    ("offset", "queue", "says"),
    [
        (COUNT + 1, 0, "a group cannot continue at 13"),
        (-1, 0, "a group cannot continue at -1"),
        (0, 7, "no route has the queue orders@broker-a:7"),
    ],
)
def test_one_offset_that_is_wrong_moves_nothing(
    cluster: Embedded, tmp_path, offset: int, queue: int, says: str
) -> None:
    rows = [
        {"topic": TOPIC, "broker": "broker-a", "queue": 1, "offset": 2},
        {"topic": TOPIC, "broker": "broker-a", "queue": queue, "offset": offset},
    ]
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps({"group": "fourth", "exported_ms": 1, "offsets": rows}))
    done = run("offset", "import", str(file), "--yes", nameserver=cluster.nameserver)
    assert done.returncode == 3
    assert says in done.stderr.decode()
    assert offsets(cluster, "fourth") == [0, 0]  # Where a broker begins a young queue.


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "wrong.json"),
        (b"[]", "must be an object"),
        (b'{"group": 1, "offsets": []}', "group must be a text"),
        (b'{"group": "x", "offsets": [{"topic": "t"}]}', "broker is missing"),
    ],
)
def test_a_file_that_is_no_export_is_refused(
    cluster: Embedded, tmp_path, content: bytes, says: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_bytes(content)
    done = run("offset", "import", str(file), "--yes", nameserver=cluster.nameserver)
    assert done.returncode == 2
    assert says in done.stderr.decode()


@pytest.mark.parametrize(
    "command",
    [
        "group show bilings",
        "group show bilings --json",
        "group set bilings --no-consume",
        "group delete bilings --yes",
        "offset show bilings",
        "offset reset bilings orders --to earliest --yes",
        "offset reset bilings orders --to-offset 0 --dry-run",
        "offset skip bilings orders --yes",
        "group conflicts bilings",
    ],
)
def test_a_misspelt_group_is_an_error(cluster: Embedded, command: str) -> None:
    done = run(*command.split(), nameserver=cluster.nameserver)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"no broker has the consumer group 'bilings'" in done.stderr
    with Admin(cluster.nameserver) as admin, pytest.raises(GroupNotFound):
        admin.offsets.lag("bilings")


def test_no_queue_is_no_move(cluster: Embedded, member: list[bytes]) -> None:
    arguments = ("offset", "reset", "billing", TOPIC, "--to", "earliest", "--queue", "7")
    done = run(*arguments, "--json", "--yes", nameserver=cluster.nameserver)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no such queue" in done.stderr


def test_a_group_is_made_changed_and_deleted(cluster: Embedded) -> None:
    output("group", "create", "audit", "--retry-max", "3", cluster=cluster)
    again = run("group", "create", "audit", nameserver=cluster.nameserver)
    assert again.returncode == 2
    assert b"cometmq group set" in again.stderr
    output("group", "set", "audit", "--no-consume", cluster=cluster)
    [settings] = printed("group", "show", "audit", cluster=cluster)["settings"]
    assert (settings["consume"], settings["retry_max"]) == (False, 3)
    output("group", "delete", "audit", "--topics", "--yes", cluster=cluster)
    with Admin(cluster.nameserver) as admin:
        assert "audit" not in admin.groups.configs()
