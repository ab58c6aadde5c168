"""All client classes x ways to fail x ways to leave: nothing hangs, nothing is lost, and what was not finished comes again."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    AsyncAdmin,
    ClientSettings,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    SimpleConsumer,
    SimpleConsumerSettings,
)
from cometmq.admin import AsyncUserAdmin, GroupConfig
from tests.support import processes
from tests.support.accounts import NO_SLAVES
from tests.support.auth_users import ROOT as SUPER_USER
from tests.support.auth_users import auth_settings
from tests.support.leaving import CASES, IN_ORDER, SECONDS_MAX, WAYS, topic_of
from tests.support.refused_calls import WORKER

ROOT = Path(__file__).parents[2]


class Cluster:
    """A nameserver and a broker, each a process.

    Attributes:
        topics: Those of the cases that run.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.topics: list[str] = []
        self.nameserver = processes.nameserver(folder / "nameserver").start()
        self.broker = processes.broker(
            folder / "broker", self.nameserver.address, settings=settings
        )
        self.broker.start()

    def admin(self) -> Admin:
        return Admin(self.nameserver.address, settings=ClientSettings(credentials=SUPER_USER))

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

    def make(self) -> None:
        """Make the topics of the cases, and all that a broker without auto-creation does not make."""
        with self.admin() as admin:
            for topic in self.topics:
                admin.topics.create(topic, queues=1)
                admin.topics.create(f"{topic}_sent", queues=1)
        self.make_groups()

    def make_groups(self) -> None:
        with self.admin() as admin:
            for topic in self.topics:
                for kind in KINDS:
                    admin.groups.create(GroupConfig(f"{topic}_{kind}"))

    def delete_groups(self) -> None:
        with self.admin() as admin:
            for topic in self.topics:
                for kind in KINDS:
                    admin.groups.delete(f"{topic}_{kind}")

    def make_user(self) -> None:
        self.users(
            lambda users: users.create(WORKER.access_key, WORKER.secret_key, is_super=False)
        )
        self.allow()

    def deny(self) -> None:
        """Take all rights from the clients' user."""
        for resource in RESOURCES:
            self.users(
                partial(AsyncUserAdmin.delete_entry, name=WORKER.access_key, resource=resource)
            )

    def allow(self) -> None:
        for resource in RESOURCES:
            self.users(
                partial(
                    AsyncUserAdmin.put_entry, name=WORKER.access_key, resource=resource,
                    actions=["All"], sources=[], is_allowed=True,
                )
            )  # fmt: skip

    def users(self, change: Callable[[AsyncUserAdmin], Awaitable[object]]) -> None:
        async def run() -> None:
            names, settings = self.nameserver.address, ClientSettings(credentials=SUPER_USER)
            async with AsyncAdmin(names, settings=settings) as admin:
                await change(admin.users)

        asyncio.run(run())


# How the cluster fails while every client works, and how it comes back.
FAILURES = {
    "nothing fails": (Cluster.well, Cluster.well),
    "the broker hangs": (Cluster.hang_broker, Cluster.wake_broker),
    "the nameserver is away": (Cluster.kill_nameserver, Cluster.restart_nameserver),
    "the broker is killed": (Cluster.kill_broker, Cluster.restart_broker),
    "denied": (Cluster.deny, Cluster.allow),
    "a name that does not exist": (Cluster.delete_groups, Cluster.make_groups),
}
REFUSALS = {"denied": WORKER.access_key, "a name that does not exist": "_push"}
RESOURCES = ("Topic:*", "Group:*", "Cluster:*")
KINDS = ("push", "pull", "simple")
STRICT = {"autoCreateTopicEnable": False, "autoCreateSubscriptionGroup": False}


def running(folder: Path, settings: Mapping[str, object]) -> Iterator[Cluster]:
    made = Cluster(folder, settings)
    try:
        yield made
    finally:
        made.wake_broker()
        made.broker.stop()
        made.nameserver.stop()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from running(tmp_path_factory.mktemp("ways"), {})


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """It asks who asks, and makes nothing by itself."""
    settings = auth_settings(**NO_SLAVES, **STRICT)
    for made in running(tmp_path_factory.mktemp("strict"), settings):
        made.make_user()
        yield made


@pytest.fixture
def cluster(request: pytest.FixtureRequest, failure: str) -> Cluster:
    made: Cluster = request.getfixturevalue("strict" if failure in REFUSALS else "plain")
    return made


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
            program.stdin.write(f"{failure if failure in REFUSALS else 'go'}\n")
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
    cluster.topics = topics
    cluster.make()
    settings = ProducerSettings(credentials=WORKER)
    with Producer(names, settings=settings) as producer:
        for topic in topics:
            for body in (b"0", b"1"):
                producer.send(Message(topic, body), timeout_ms=30_000)
    ended = leave_all(cluster, failure, tmp_path, prefix)
    for number, (face, way) in enumerate(CASES):
        status, error = ended[str(number)]
        assert status == WAYS[way], f"{face}, {way}: {status}\n{error}"
        assert "never" not in error, f"{face}, {way}:\n{error}"  # Awaited, or retrieved.
        assert "ClientClosed" not in error, f"{face}, {way}:\n{error}"
        assert "COMPLAINT" not in error, f"{face}, {way}:\n{error}"
        if failure in REFUSALS and way in IN_ORDER:
            # Nobody calls a push consumer.
            line = rf"storing the offsets of {topics[number]}_push fails: .*{REFUSALS[failure]}"
            assert re.search(line, error), f"{face}, {way}:\n{error}"
    with cluster.admin() as admin:
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
        (committed,) = admin.offsets.committed(f"{topic}_{group}", topic).values()
        what = f"{case}, {group}: {committed} of {done}"
        assert (committed or 0) <= done, what
        if case[1] in IN_ORDER and failure in ("nothing fails", "the nameserver is away"):
            assert committed == done, what


def check_comes_again(names: str, topic: str) -> None:
    """The message that was received and not acknowledged comes when its time is over."""
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    settings = SimpleConsumerSettings(consume_from=ConsumeFrom.FIRST, credentials=WORKER)
    with SimpleConsumer(
        names, group=f"{topic}_simple", subscriptions=[topic], settings=settings
    ) as consumer:
        while b"1" not in found and time.monotonic() < deadline:
            found += [message.body for message in consumer.receive(wait_ms=5_000)]
    assert b"1" in found, topic
