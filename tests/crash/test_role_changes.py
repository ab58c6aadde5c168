"""The roles of a SYNC_MASTER and its slave change under load, and one of them is killed in the middle of a change.

Every message that two members had acknowledged is read in the end, and a consumer of a group is given it. A broker that was
killed starts again in the role that its conf file has: before the change or after it.
"""

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    SendStatus,
    StoredMessage,
)
from cometmq.codec.java_properties import decode_java_properties
from cometmq.model.errors import CometError
from tests.support import processes, topics
from tests.support.command_line import run
from tests.support.load import read_queue

# `SWAPS=100 make crash` is the long run; a round takes some 3 s.
SWAPS = int(os.environ.get("SWAPS", "10"))
# `ROLE_KILLS=50 make crash` likewise; a round takes some 12 s.
KILLS = int(os.environ.get("ROLE_KILLS", "4"))
TOPIC, QUEUES = "orders", 8
SENDERS = 3
LIVE_SECONDS = (0.3, 1.0)
# A change takes some 0.3 s, most of it before and after the file is written.
KILLED_AFTER_SECONDS = (0.0, 0.6)


class Load:
    """Producers that send all the time, whoever is the master.

    Attributes:
        acknowledged: Bodies that two members have.
    """

    def __init__(self, names: str) -> None:
        self.acknowledged: set[bytes] = set()
        self._names = names
        self._numbers = itertools.count()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(SENDERS)]

    def _send(self) -> None:
        settings = ProducerSettings(send_timeout_ms=2_000, route_interval_ms=500)
        with Producer(self._names, settings=settings) as producer:
            while not self._is_over.is_set():
                body = b"%d" % next(self._numbers)
                try:
                    sent = producer.send(Message(TOPIC, body))
                except CometError:
                    time.sleep(0.02)
                    continue
                if sent.status is SendStatus.OK:
                    self.acknowledged.add(body)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def consumed(names: str) -> Iterator[set[bytes]]:
    """What a push consumer is given, whoever is the master."""
    got: set[bytes] = set()

    def listen(message: StoredMessage) -> None:
        got.add(message.body)

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, route_interval_ms=500)
    with PushConsumer(
        names, group="billing", listener=listen, subscriptions=[TOPIC], settings=settings
    ):
        yield got


SYNC = {"inSyncReplicas": 2, "slaveReadEnable": "true", "defaultTopicQueueNums": QUEUES}


@contextmanager
def group(
    folder: Path, role: str, queues: int, **settings: object
) -> Iterator[tuple[str, list[processes.Program]]]:
    """The nameserver's address, and a master in this role with its slave, which are in sync and have the topic."""
    with processes.nameserver(folder) as nameserver:
        names = nameserver.address
        both = [
            processes.broker(
                folder / name,
                names,
                settings={
                    "brokerRole": each,
                    "brokerId": number,
                    "autoCreateTopicEnable": "false",
                    **settings,
                },
            )
            for number, (name, each) in enumerate([("one", role), ("two", "SLAVE")])
        ]
        with both[0], both[1]:
            topics.make(names, TOPIC, queues=queues)
            wait_in_sync(names)
            yield names, both


def master_of(names: str) -> str | None:
    with Admin(names) as admin:
        group = admin.brokers.cluster().brokers.get("broker-a")
    return None if group is None else group.addresses.get(0)


def wait_in_sync(names: str) -> None:
    """Wait until the slave copies and has all tables, so that it may be promoted."""

    def is_well() -> bool:
        done = run("cluster", "replicas", "--json", nameserver=names)
        return done.returncode == 0 and done.stdout.count(b'"copying"') == 1

    processes.wait_until(is_well, seconds=60, what="a slave in sync")


def promote(names: str, *more: str) -> None:
    """Promote, again where the slave has not copied the tables of its new master yet."""
    refusals = []

    def is_done() -> bool:
        done = run("cluster", "promote", "broker-a", *more, nameserver=names)
        refusals.append(done.stderr.decode())
        return done.returncode == 0

    try:
        processes.wait_until(is_done, seconds=40, what="a promotion")
    except TimeoutError:
        pytest.fail("\n".join(refusals[-2:]))


def all_bodies(address: str) -> list[bytes]:
    return [body for number in range(QUEUES) for _, body in read_queue(address, TOPIC, number)]


def check(names: str, load: Load, got: set[bytes], what: str) -> None:
    master = master_of(names)
    assert master is not None
    found = all_bodies(master)
    lost = load.acknowledged - set(found)
    print(
        f"{what}: {len(load.acknowledged)} acknowledged, {len(lost)} lost, "
        f"{len(found) - len(set(found))} stored twice"
    )
    assert load.acknowledged
    assert not lost
    processes.wait_until(
        lambda: load.acknowledged <= got, seconds=90, what="all of them at a consumer"
    )


def test_master_and_slave_change_places_under_load_and_nothing_is_lost(tmp_path: Path):
    pauses = []
    with group(tmp_path, "SYNC_MASTER", QUEUES, **SYNC) as (names, _), consumed(names) as got:
        with Load(names) as load:
            for _ in range(SWAPS):
                before, count = master_of(names), len(load.acknowledged)
                began = time.monotonic()
                promote(names)
                assert master_of(names) not in (None, before)
                goes_on(load, count)
                pauses.append(time.monotonic() - began)
                wait_in_sync(names)
        check(names, load, got, f"{SWAPS} changes, {max(pauses):.1f} s at most")


def goes_on(load: Load, count: int) -> None:
    """Wait until more than `count` messages are acknowledged."""
    processes.wait_until(lambda: len(load.acknowledged) > count, seconds=60, what="sends go on")


def kept_role(folder: Path) -> tuple[str, str]:
    """The role that the next start has."""
    values = decode_java_properties((folder / "broker.conf").read_bytes())
    overlay = folder / "broker.conf.overlay"
    if overlay.exists():
        values |= decode_java_properties(overlay.read_bytes())
    return values["brokerRole"], values["brokerId"]


def role_of(program: processes.Program, names: str) -> str:
    with Admin(names) as admin:
        members = {each.address: each for each in admin.brokers.replicas()}
    status = members[program.address].status
    assert status is not None
    return "master" if status.is_master else "slave"


@pytest.mark.parametrize("number", range(KILLS))
def test_a_member_that_is_killed_in_a_change_has_one_role_and_nothing_is_lost(
    tmp_path: Path, number: int
):
    seed = os.environ.get("ROLE_SEED") or f"{time.time_ns()}"
    chance = random.Random(seed)
    with (
        group(tmp_path, "SYNC_MASTER", QUEUES, **SYNC) as (names, both),
        consumed(names) as got,
    ):
        with Load(names) as load:
            time.sleep(chance.uniform(*LIVE_SECONDS))
            change = threading.Thread(target=try_to_promote, args=(names,))
            change.start()
            victim = both[number % 2]
            processes.wait_until(
                lambda: b"the change to the role" in victim.log.read_bytes() or not change.is_alive(),
                seconds=30,
                what="the change",
            )  # fmt: skip
            time.sleep(chance.uniform(*KILLED_AFTER_SECONDS))
            victim.kill()
            change.join()
            role, kept_id = kept_role(tmp_path / ("one", "two")[number % 2])
            victim.start()
            assert role_of(victim, names) == ("slave" if role == "SLAVE" else "master"), kept_id
            if master_of(names) is None:
                promote(names, "--yes", "--role", "SYNC_MASTER")
            wait_in_sync(names)
            goes_on(load, len(load.acknowledged))
        check(names, load, got, f"seed {seed}, member {number % 2} killed, then {role}")


def try_to_promote(names: str) -> None:
    """One of the two may be killed meanwhile."""
    with Admin(names) as admin:
        try:
            admin.brokers.promote("broker-a")
        except CometError as error:
            print(f"the promotion failed: {error}")
