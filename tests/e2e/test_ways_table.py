"""All client classes x ways to fail x ways to leave: nothing hangs, nothing is lost, and what was not finished comes again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.client import Admin, ConsumeFrom, Message, Producer, SimpleConsumer, SimpleSettings
from tests.support import processes
from tests.support.leaving import CASES, IN_ORDER, SECONDS_MAX, WAYS, topic_of

ROOT = Path(__file__).parents[2]


class Cluster:
    """A nameserver and a broker, each a process."""

    def __init__(self, folder: Path) -> None:
        self.nameserver = processes.nameserver(folder / "nameserver").start()
        self.broker = processes.broker(folder / "broker", self.nameserver.address).start()

    def well(self) -> None:
        """Leave both as they are."""

    def kill_broker(self) -> None:
        self.broker.kill()

    def restart_broker(self) -> None:
        self.broker.start()

    def hang_broker(self) -> None:
        assert self.broker.process is not None
        self.broker.process.send_signal(signal.SIGSTOP)

    def wake_broker(self) -> None:
        assert self.broker.process is not None
        self.broker.process.send_signal(signal.SIGCONT)

    def kill_nameserver(self) -> None:
        self.nameserver.kill()

    def restart_nameserver(self) -> None:
        self.nameserver.start()
        processes.wait_until(self.broker.is_ready, seconds=60, what="the broker registers")


# How the cluster fails while every client works, and how it comes back.
FAILURES = {
    "nothing fails": (Cluster.well, Cluster.well),
    "the broker hangs": (Cluster.hang_broker, Cluster.wake_broker),
    "the nameserver is away": (Cluster.kill_nameserver, Cluster.restart_nameserver),
    "the broker is killed": (Cluster.kill_broker, Cluster.restart_broker),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("ways"))
    try:
        yield made
    finally:
        made.wake_broker()
        made.broker.stop()
        made.nameserver.stop()


def leave_all(
    cluster: Cluster, failure: str, folder: Path, prefix: str
) -> dict[str, tuple[int, str]]:
    """Run a process for each way to leave, while the cluster fails."""
    names = cluster.nameserver.address
    fail, heal = FAILURES[failure]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.leaving", names, str(folder), prefix],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        fail(cluster)
        try:
            program.stdin.write("go\n")
            program.stdin.flush()
            ended: dict[str, tuple[int, str]] = json.loads(program.stdout.readline())
        finally:
            heal(cluster)
    return ended


@pytest.mark.parametrize("failure", FAILURES)
def test_every_client_leaves_in_every_way_and_loses_nothing(cluster, failure, tmp_path):
    prefix = f"ways_{list(FAILURES).index(failure)}"
    names = cluster.nameserver.address
    topics = [topic_of(prefix, number) for number in range(len(CASES))]
    with Admin(names) as admin, Producer(names) as producer:
        for topic in topics:
            admin.create_topic(topic, queues=1)
            for body in (b"0", b"1"):
                producer.send(Message(topic, body), timeout_ms=30_000)
    ended = leave_all(cluster, failure, tmp_path, prefix)
    for number, (face, way) in enumerate(CASES):
        status, error = ended[str(number)]
        assert status == WAYS[way], f"{face}, {way}: {status}\n{error}"
        assert "never" not in error, f"{face}, {way}:\n{error}"  # Awaited, or retrieved.
        assert "ClientClosed" not in error, f"{face}, {way}:\n{error}"
    with Admin(names) as admin:
        for number, topic in enumerate(topics):
            check_offsets(admin, failure, CASES[number], topic, (tmp_path / topic).read_bytes())
    for topic in topics:
        check_comes_again(names, topic)


def check_offsets(
    admin: Admin, failure: str, case: tuple[str, str], topic: str, finished: bytes
) -> None:
    """Nothing is committed that was not finished; what was finished is, if a broker was there and the clients were closed."""
    # Leaving by no exception is the end of the work with what was received.
    pulled = 2 if case[1] in ("the end of the block", "SIGTERM", "SIGINT", "fork") else 1
    for group, done in (("push", len(finished)), ("pull", pulled)):
        (committed,) = admin.group_offsets(f"{topic}_{group}", topic).values()
        what = f"{case}, {group}: {committed} of {done}"
        assert (committed or 0) <= done, what
        if case[1] in IN_ORDER and failure in ("nothing fails", "the nameserver is away"):
            assert committed == done, what


def check_comes_again(names: str, topic: str) -> None:
    """The message that was received and not acknowledged comes when its time is over."""
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    settings = SimpleSettings(consume_from=ConsumeFrom.FIRST)
    with SimpleConsumer(
        names, group=f"{topic}_simple", subscriptions=[topic], settings=settings
    ) as consumer:
        while b"1" not in found and time.monotonic() < deadline:
            found += [message.body for message in consumer.receive(wait_ms=5_000)]
    assert b"1" in found, topic
