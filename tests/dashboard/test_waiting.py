"""What the page of waiting messages shows: what the command shows, of each broker by its own levels."""

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from cometmq import Admin, Message, Producer
from tests.dashboard.test_commands import ELSEWHERE, check_page, printed
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.dashboard.world import place
from tests.support.command_line import run
from tests.support.processes import wait_until
from tests.support.programs import small_cluster

# Half messages are checked once, and discarded.
DISCARDS = {
    "transactionTimeOut": 0, "transactionCheckInterval": 50, "transactionCheckMax": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("waiting")
    settings = {"recallMessageEnable": "true", "messageDelayLevel": "10m 20m 30m", **DISCARDS}
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
    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["due_ms"] / 1000))
    assert due in page, "the page and the command say the same time"


def test_levels_are_those_of_the_broker(nameserver: str, visitor: Visitor):
    with Producer(nameserver) as producer:
        producer.send(Message("levels", b"ten minutes", delay_level=1))
    page = text_of(visitor.get("/waiting", kind="level"))
    assert "ten minutes" in page
    assert "level 1" in page
    (line,) = _listed(nameserver, "levels")
    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["due_ms"] / 1000))
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


def test_a_discarded_transaction_is_shown_and_checked_again(nameserver: str, visitor: Visitor):
    with Producer(nameserver, group="forgets") as producer, Admin(nameserver) as asked:
        lost = producer.send(Message("orders", b"no transaction"))
        producer.transaction(Message("orders", b"given up")).__enter__()
        wait_for(visitor, "/waiting", "given up", kind="discarded")
        walk = ELSEWHERE["transactions list"]
        check_page(
            "transactions list", walk, printed("transactions list", walk, nameserver), visitor
        )
        [half] = asked.transactions.discarded()
        address = place(half.queue, half.queue_offset)
        assert "Check the transaction again" in text_of(visitor.get("/message", **address))
        said = visitor.post("/message/resume", **address)
        assert "The broker will check this transaction again." in text_of(said)
        # Checked from the start, and given up once more.
        wait_until(
            lambda: len(asked.transactions.discarded()) == 2, seconds=20, what="the half again"
        )
    assert f"resume transaction {half.offset_message_id} done" in text_of(visitor.get("/audit"))
    said = visitor.post("/message/resume", **place(lost.queue, lost.queue_offset))
    assert said.status_code == 400
    assert "Only a half message that a broker discarded" in text_of(said)


def _listed(nameserver: str, topic: str) -> list[dict]:
    done = run("message", "delayed", "--json", "--topic", topic, nameserver=nameserver)
    return [json.loads(line) for line in done.stdout.splitlines()]
