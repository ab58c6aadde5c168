"""What the page of waiting messages shows: what the command shows, of each broker by its own levels."""

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from cometmq import Message, Producer
from tests.dashboard.web import Served, Visitor, text_of
from tests.support.command_line import run
from tests.support.programs import small_cluster


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("waiting")
    settings = {"recallMessageEnable": "true", "messageDelayLevel": "10m 20m 30m"}
    with small_cluster(folder, **settings) as (names, _):
        yield names.address


@pytest.fixture(scope="module")
def visitor(nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with Served(tmp_path_factory.mktemp("dashboard"), nameserver) as served:
        yield Visitor(served).log_in()


def test_a_message_that_was_taken_back_waits_no_longer(nameserver: str, visitor: Visitor):
    with Producer(nameserver) as producer:
        gone = producer.send(Message("orders", b"recalled", deliver=timedelta(hours=1)))
        producer.send(Message("orders", b"kept", deliver=timedelta(hours=2)))
    assert gone.recall_handle is not None
    assert run("message", "recall", gone.recall_handle, nameserver=nameserver).returncode == 0
    page = text_of(visitor.get("/waiting", kind="time"))
    assert "kept" in page
    assert "recalled" not in page
    assert "_RECALL_TAG_" not in page
    (line,) = _listed(nameserver, "orders")
    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["dueMs"] / 1000))
    assert due in page, "the page and the command say the same time"


def test_levels_are_those_of_the_broker(nameserver: str, visitor: Visitor):
    with Producer(nameserver) as producer:
        producer.send(Message("levels", b"ten minutes", delay_level=1))
    page = text_of(visitor.get("/waiting", kind="level"))
    assert "ten minutes" in page
    assert "level 1" in page
    (line,) = _listed(nameserver, "levels")
    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["dueMs"] / 1000))
    assert due in page


def test_pages_go_from_the_next_that_is_due_to_the_last(nameserver: str, visitor: Visitor):
    with Producer(nameserver) as producer:
        for number in range(21):
            deliver = timedelta(minutes=10 + number)
            producer.send(Message("pages", b"number %d." % number, deliver=deliver))
    numbers = [
        int(found)
        for page in ("1", "2")
        for found in re.findall(
            r"number (\d+)\.", text_of(visitor.get("/waiting", kind="time", page=page))
        )
    ]
    assert numbers == list(range(21))


def _listed(nameserver: str, topic: str) -> list[dict]:
    done = run("message", "delayed", "--json", "--topic", topic, nameserver=nameserver)
    return [json.loads(line) for line in done.stdout.splitlines()]
