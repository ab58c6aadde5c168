"""Producers die with transactions open: whoever is left of their group is asked, though it has sent nothing."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq import (
    AsyncProducer,
    Message,
    Producer,
    ProducerSettings,
    StoredMessage,
    TransactionState,
)
from cometmq.client.sync.portal import portal
from tests.support import processes
from tests.support.good_client import late_seconds
from tests.support.load import read_queue
from tests.support.processes import Program

GROUP = "books"
TOPIC = "Decided"
OPEN = 30
CHECK_SECONDS = 1.0
SETTINGS = {
    "transactionTimeOut": 0,
    "transactionCheckInterval": int(CHECK_SECONDS * 1000),
    "defaultTopicQueueNums": 1,
}
# What a busy machine takes besides: to start a round, to ask, to store.
SLACK_SECONDS = 2.0

DOOMED = f"""
import sys, time
from cometmq import Message, Producer
with Producer(sys.argv[1], group={GROUP!r}) as producer:
    for text in sys.argv[2:]:
        producer.transaction(Message({TOPIC!r}, text.encode())).__enter__()
    print("open", flush=True)
    time.sleep(600)
"""


class Books:
    """What was decided, in books that outlive each producer: even numbers count."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        raise AssertionError("not used here")

    def check(self, message: StoredMessage) -> TransactionState:
        is_good = int(message.body) % 2 == 0
        return TransactionState.COMMIT if is_good else TransactionState.ROLLBACK


def leave_open(names: str, numbers: Sequence[int]) -> None:
    """A producer begins transactions and is killed before it ends them."""
    doomed = subprocess.Popen(
        [sys.executable, "-c", DOOMED, names, *map(str, numbers)], stdout=subprocess.PIPE
    )
    try:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == b"open\n"
    finally:
        doomed.kill()
        doomed.communicate()


@contextmanager
def heir(kind: type, names: str, settings: ProducerSettings | None = None) -> Iterator[None]:
    """Another producer of the group, which sends nothing."""
    producer = kind(names, group=GROUP, settings=settings, transaction_listener=Books())
    if isinstance(producer, AsyncProducer):
        portal().call(producer.start)
        try:
            yield
        finally:
            portal().call(producer.close)
    else:
        with producer:
            yield


def delivered(address: str) -> list[int]:
    return sorted(int(body) for _, body in read_queue(address, TOPIC, 0, start=0))


def check_delivered(broker: Program, wanted: Sequence[int], *, since: float) -> None:
    """All that was decided is there within two intervals that the machine gave us, once, and nothing else."""
    address, pid = broker.address, broker.pid
    good = [number for number in wanted if number % 2 == 0]
    late = late_seconds(pid)
    while delivered(address) != good:
        waited = time.monotonic() - since - (late_seconds(pid) - late)
        assert waited < 2 * CHECK_SECONDS + SLACK_SECONDS, delivered(address)
        time.sleep(0.05)


@pytest.fixture
def broker(tmp_path, nameserver):
    with processes.broker(
        tmp_path / "broker", nameserver.address, settings=SETTINGS
    ) as program:
        yield program


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_who_has_sent_nothing_is_asked_about_the_dead(nameserver, broker, kind):
    numbers = range(OPEN)
    leave_open(nameserver.address, numbers)
    began = time.monotonic()
    with heir(kind, nameserver.address):
        check_delivered(broker, numbers, since=began)


def test_a_broker_that_was_killed_is_found_again_without_a_send(nameserver, broker):
    """The heir is idle when its broker dies; heartbeats come each 30 s, and a round each second."""
    with heir(Producer, nameserver.address):
        leave_open(nameserver.address, range(OPEN))
        broker.kill()
        broker.process = None
        broker.start()
        check_delivered(broker, range(OPEN), since=time.monotonic())


def test_a_broker_that_comes_later_asks_too(tmp_path, nameserver, broker):
    settings = ProducerSettings(route_interval_ms=200)
    second = {**SETTINGS, "brokerName": "broker-b"}
    with (
        heir(Producer, nameserver.address, settings),
        processes.broker(tmp_path / "b", nameserver.address, settings=second) as late,
    ):
        broker.stop()
        leave_open(nameserver.address, range(OPEN))
        check_delivered(late, range(OPEN), since=time.monotonic())


def test_who_closes_is_asked_no_more(nameserver, broker):
    """It unregisters where it was known; the next one is asked about what it would have been asked."""
    with heir(Producer, nameserver.address):
        pass
    leave_open(nameserver.address, range(OPEN))
    log = Path(broker.log)
    processes.wait_until(
        lambda: "no producer of group books that may send" in log.read_text(),
        seconds=10,
        what="a round",
    )
    began = time.monotonic()
    with heir(Producer, nameserver.address):
        check_delivered(broker, range(OPEN), since=began)
