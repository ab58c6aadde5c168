"""`cometmq message delayed` and `recall`, as their users run them."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cometmq import Admin, Message, MessageQueue, Producer
from tests.support import processes
from tests.support.command_line import run
from tests.support.programs import halted, small_cluster


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("delayed")
    with small_cluster(folder, recallMessageEnable="true") as (names, _):
        yield names.address


def test_what_waits_is_listed_and_can_be_taken_back(nameserver: str) -> None:
    with Producer(nameserver) as producer:
        hour = producer.send(Message("orders", b"hour", deliver=timedelta(hours=1)))
        level = producer.send(Message("orders", b"level", delay_level=18))
        producer.send(Message("orders", b"now"))
        producer.send(Message("other", b"ten", deliver=timedelta(minutes=10), keys="k"))
    now_ms = time.time() * 1000
    done = run("message", "delayed", "--json", nameserver=nameserver)
    listed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["body"] for line in listed] == ["ten", "hour", "level"]
    assert [line["level"] for line in listed] == [0, 0, 18]
    for line, minutes in zip(listed, (10, 60, 120), strict=True):
        assert abs(line["due_ms"] - now_ms - minutes * 60_000) < 10_000
    assert listed[1]["recall_handle"] == hour.recall_handle
    assert listed[2]["id"] == level.message_id
    last = run(
        "message", "delayed", "--sort=-due_ms", "--limit", "1", "--json", nameserver=nameserver
    )
    assert [json.loads(line) for line in last.stdout.splitlines()] == [listed[2]]

    assert hour.recall_handle is not None
    assert run("message", "recall", hour.recall_handle, nameserver=nameserver).returncode == 0
    done = run("message", "delayed", "--topic", "orders", nameserver=nameserver)
    assert level.message_id in done.stdout.decode()
    assert hour.message_id not in done.stdout.decode()
    assert "level 18" in done.stdout.decode()


def test_each_broker_is_asked_for_its_own_delay_levels(tmp_path: Path) -> None:
    with (
        processes.nameserver(tmp_path / "nameserver") as names,
        processes.broker(
            tmp_path / "plain", names.address, settings={"brokerName": "plain"}
        ) as plain,
        processes.broker(
            tmp_path / "slow",
            names.address,
            settings={"brokerName": "slow", "messageDelayLevel": "10m 20m 30m"},
        ),
        Producer(names.address) as producer,
        Admin(names.address) as admin,
    ):
        admin.topics.create("orders", queues=1)
        processes.wait_until(
            lambda: len(admin.topics.route("orders").queues) == 2,
            seconds=20,
            what="both brokers",
        )
        for name in ("plain", "slow"):
            message = Message("orders", name.encode(), delay_level=2)
            producer.send(message, queue=MessageQueue("orders", name, 0))
        now_ms = time.time() * 1000
        done = run("message", "delayed", "--json", nameserver=names.address)
        with halted(plain):
            partial = run(
                "message", "delayed", "--json", nameserver=names.address, patience=2.0
            )
    assert partial.returncode == 1, partial.stderr
    assert [json.loads(line)["body"] for line in partial.stdout.splitlines()] == ["slow"]
    assert "incomplete: plain does not answer" in partial.stderr.decode()
    due = {line["body"]: line["due_ms"] for line in map(json.loads, done.stdout.splitlines())}
    assert abs(due["slow"] - now_ms - 20 * 60_000) < 60_000
    assert due.get("plain", now_ms) - now_ms < 60_000, "its level 2 are 5 s"


def test_levels_that_are_none_are_refused(nameserver: str) -> None:
    done = run("message", "delayed", "--levels", "soon", nameserver=nameserver)
    assert done.returncode == 2
    assert b"soon is not a delay" in done.stderr
