"""`cometmq doctor`: faults planted in real clusters are found, and nothing is on a sound one."""

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    Tag,
)
from cometmq.admin import GroupConfig, Symptom
from cometmq.client.admin.facts import CASES
from cometmq.codec.bodies.cluster import ClusterInfo, encode_cluster_info
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.remoting import Command
from cometmq.connect import FixedQueues
from cometmq.embedded import Embedded
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.flags import PERM_READ, PERM_WRITE
from cometmq.model.route import BrokerData
from cometmq.model.subscription import parse_subscription
from cometmq.net.answer import Answer
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.support import certificates, processes
from tests.support.command_line import run
from tests.support.processes import wait_until
from tests.support.programs import halted, small_cluster
from tests.support.scripted import Scripted

PROGRAMS: dict[str, dict[str, object]] = {
    "full": {"brokerName": "full", "diskSpaceWarningLevelRatio": 1},
    "still": {"brokerName": "still"},
    "killed": {"brokerName": "killed"},
    "alone": {"brokerName": "alone", "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "minInSyncReplicas": 2},
    "headless": {"brokerName": "headless", "brokerRole": "SLAVE", "brokerId": 1},
}  # fmt: skip
Found = dict[tuple[str, str], dict[str, Any]]


def examined(
    nameserver: str, *options: str, status: int | None = None, is_disk_ours: bool = False
) -> Found:
    """What the doctor finds, by what and whose; no two of one kind are planted at one place.

    How full the disk of this machine is was planted by nobody, unless the broker's numbers are scripted (`is_disk_ours`).
    Without a `status` it is that of what was found: other tests of a cluster plant more.
    """
    done = run("doctor", "--json", *options, nameserver=nameserver)
    bad = [each for each in orjson.loads(done.stdout) if each["severity"] == "bad"]
    assert done.returncode == (bool(bad) if status is None else status), done.stderr
    found = orjson.loads(done.stdout)
    assert all(each["advice"] for each in found)
    assert all(each["see"].startswith("docs/operate/when.md#") for each in found)
    if not is_disk_ours:
        found = [each for each in found if "of the disk of its log is used" not in each["text"]]
    return {(each["check"], each["subject"]): each for each in found}


def seen(nameserver: str, *, wait_ms: int = 300_000) -> dict[tuple[str, str], Symptom]:
    """What a program finds that asks as the command does."""
    with Admin(nameserver) as admin:
        found = admin.health.check(wait_ms=wait_ms)
    return {(each.check, each.subject): each for each in found}


def wanted_of(
    nameserver: str, group: str, topic: str, listener: Any, **more: Any
) -> PushConsumer:
    settings = PushConsumerSettings(**more)
    subscriptions = {topic: Tag("a")} if group == "odd" else [topic]
    return PushConsumer(
        nameserver,
        group=group,
        listener=listener,
        subscriptions=subscriptions,
        settings=settings,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    with Embedded(settings={"transactionCheckInterval": 1_000}) as cluster:
        with Admin(cluster.nameserver) as admin:
            for topic in ("quick", "slow", "partly", "nobody", "closed"):
                admin.topics.create(topic, queues=2)
        yield cluster


def send(cluster: Embedded, topic: str, count: int) -> None:
    with Producer(cluster.nameserver) as producer:
        for number in range(count):
            queue = MessageQueue(topic, "broker-a", number % 2)
            producer.send(Message(topic, b"x"), queue=queue)


def test_nothing_is_found_on_a_sound_cluster(tmp_path) -> None:
    with processes.nameserver(tmp_path) as names:
        slave = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}
        with (
            processes.broker(tmp_path / "a", names.address),
            processes.broker(tmp_path / "b", names.address, settings=slave),
        ):
            with Admin(names.address) as admin:
                admin.topics.create("sound", queues=4)
            got: list[object] = []
            with (
                Producer(names.address) as producer,
                wanted_of(
                    names.address, "reads", "sound", got.append, consume_from=ConsumeFrom.FIRST
                ),
            ):
                for _ in range(20):
                    producer.send(Message("sound", b"x"))
                wait_until(lambda: len(got) == 20, seconds=60, what="all consumed")
                wait_until(
                    lambda: run("doctor", nameserver=names.address).returncode == 0,
                    seconds=30,
                    what="offsets and the copy follow",
                )
                assert examined(names.address, status=0) == {}


def test_what_is_wrong_with_groups_is_found(cluster: Embedded) -> None:
    names = cluster.nameserver
    half = FixedQueues([MessageQueue("partly", "broker-a", 0)])
    with contextlib.ExitStack() as members, Admin(names) as admin:
        for topic, count in (("slow", 30), ("nobody", 3), ("closed", 4)):
            send(cluster, topic, count)
        for group, consume in (("alone", True), ("shut", False)):
            admin.groups.create(GroupConfig(group, consume_enabled=consume))
        admin.offsets.set("alone", admin.offsets.at("nobody", 0))
        admin.offsets.set("shut", admin.offsets.at("closed", 0))
        admin.offsets.set("late", admin.offsets.at("slow", 0))
        members.enter_context(wanted_of(names, "late", "slow", lambda _: time.sleep(60), close_timeout_ms=100))  # fmt: skip
        members.enter_context(wanted_of(names, "half", "partly", print, allocation=half))
        members.enter_context(wanted_of(names, "odd", "quick", print))
        other = PushConsumer(names, group="odd", listener=print, subscriptions=["quick"])
        members.enter_context(other)
        found = examined(names, "--lag", "20", status=1)
    assert "30 messages wait" in found["group", "late"]["text"]
    assert "it has no members, and 3 messages" in found["abandoned", "alone"]["text"]
    assert "may not consume at broker-a, and 4 messages" in found["stopped", "shut"]["text"]
    assert "no member reads partly@broker-a:1" in found["queues", "half"]["text"]
    assert "have different subscriptions" in found["members", "odd"]["text"]
    assert {each["severity"] for each in found.values()} == {"bad"}
    expected = {"late", "alone", "shut", "half", "odd"}
    assert {subject for _, subject in found} == expected
    now_ms = time.time() * 1000
    for place in (("group", "late"), ("abandoned", "alone")):
        assert 0 < now_ms - found[place]["since_ms"] < 300_000
    for place in (("members", "odd"), ("stopped", "shut")):
        assert found[place]["since_ms"] is None


def test_members_that_acknowledge_nothing_are_found_until_they_go_on(cluster: Embedded) -> None:
    names, go_on = cluster.nameserver, threading.Event()
    with Admin(names) as admin:
        admin.topics.create("held", queues=2)
    send(cluster, "held", 6)
    settings = {"consume_from": ConsumeFrom.FIRST, "close_timeout_ms": 1_000}
    with wanted_of(names, "holding", "held", lambda _: go_on.wait(60), **settings):
        time.sleep(2)
        found = seen(names, wait_ms=1_000)["progress", "holding"]
        assert found.severity == "bad"
        assert "a member holds messages and has acknowledged none for" in found.text
        assert "(6); 6 messages wait for it" in found.text
        assert abs(time.time() * 1000 - (found.since_ms or 0)) < 60_000
        # It may take its time, if the operator says so.
        assert ("progress", "holding") not in seen(names, wait_ms=60_000)
        go_on.set()
        wait_until(
            lambda: ("progress", "holding") not in seen(names, wait_ms=1_000),
            seconds=30,
            what="the group goes on",
        )


def test_dead_letters_are_found_until_they_are_replayed(cluster: Embedded) -> None:
    names = cluster.nameserver
    with Admin(names) as admin:
        admin.topics.create("%DLQ%mailing", queues=1)
    with Producer(names) as producer:
        for _ in range(3):
            producer.send(Message("%DLQ%mailing", b"x"))
    found = seen(names)["letters", "mailing"]
    assert found.severity == "warning"
    assert "3 dead letters wait, the last since" in found.text
    assert 0 <= time.time() * 1000 - (found.since_ms or 0) < 300_000
    assert (
        run("dlq", "replay", "mailing", "--to-topic", "quick", nameserver=names).returncode == 0
    )
    assert ("letters", "mailing") not in seen(names)
    with Producer(names) as producer:
        producer.send(Message("%DLQ%mailing", b"one more"))
    found = seen(names)["letters", "mailing"]
    assert "1 dead letter waits" in found.text
    assert found.since_ms is None, "the first letter was replayed"


def test_what_is_switched_off_is_found_until_it_is_switched_on(cluster: Embedded) -> None:
    names = cluster.nameserver
    with Admin(names) as admin:
        admin.topics.create("off", queues=1)
        admin.groups.create(GroupConfig("off", consume_enabled=False))
        for perm, severity, says in (
            (PERM_READ, "note", "producers may not send to it at broker-a"),
            (0, "warning", "consumers may not read it and producers may not send"),
            (PERM_WRITE, "warning", "consumers may not read it at broker-a"),
        ):
            admin.topics.set("off", {"perm": perm})
            found = seen(names)["topic", "off"]
            assert found.severity == severity
            assert says in found.text
        assert seen(names)["stopped", "off"].severity == "note", "no message waits for it"
        admin.topics.set("off", {"perm": PERM_READ | PERM_WRITE})
        admin.groups.set("off", {"consume_enabled": True})
    assert not [subject for _, subject in seen(names) if subject == "off"]


def test_a_transaction_is_found_while_it_is_open(cluster: Embedded) -> None:
    names, place = cluster.nameserver, ("transactions", "broker-a:0")
    with (
        Producer(names, group="shop") as producer,
        producer.transaction(Message("quick", b"half")) as transaction,
    ):
        # The broker reads half messages with its next round of checks.
        found = wait_until(
            lambda: seen(names, wait_ms=1_000).get(place), seconds=30, what="the transaction"
        )
        assert found is not None
        assert found.severity == "warning"
        assert "1 transaction is open, the first for" in found.text
        assert 0 < time.time() * 1000 - (found.since_ms or 0) < 60_000
        assert place not in seen(names)
        transaction.rollback()
    wait_until(lambda: place not in seen(names, wait_ms=1_000), seconds=20, what="its end")


def test_many_of_one_kind_are_one_entry_and_can_be_ignored(
    cluster: Embedded, tmp_path: Path
) -> None:
    names = cluster.nameserver
    send(cluster, "nobody", 1)
    with Admin(names) as admin:
        (queue, offset), *_ = admin.offsets.at("nobody", 0).items()
        for number in range(300):
            admin.offsets.set(f"many-{number:03d}", {queue: offset})
    began = time.monotonic()
    done = run("doctor", nameserver=names)
    print(f"doctor of 300 groups without members: {time.monotonic() - began:.1f} s")
    said = done.stdout.decode()
    assert done.returncode == 1
    assert re.search(r"bad     abandoned: 30\d findings, of ", said), said
    assert said.count("it has no members") == 1
    listed = run("doctor", "--all", nameserver=names).stdout.decode()
    assert listed.count("it has no members") >= 300
    assert re.search(r"since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d: start its members", listed)
    done = run("doctor", "--json", "--sort=-subject", "--limit", "2", nameserver=names)
    shown = [each["subject"] for each in orjson.loads(done.stdout)]
    assert (done.returncode, len(shown)) == (1, 2)
    assert shown == sorted(shown, reverse=True)
    ignored = tmp_path / "ignored"
    ignored.write_text("# of a test\nabandoned:many-*\n")
    done = run("doctor", "--ignore-file", str(ignored), nameserver=names)
    assert "many-" not in done.stdout.decode()
    assert "300 findings are ignored" in done.stderr.decode()
    # What is ignored does not count for the status.
    every = [part for check in CASES for part in ("--ignore", check)]
    done = run("doctor", *every, nameserver=names)
    assert (done.returncode, done.stdout) == (0, b"")
    done = run("doctor", "--ignore", "abandnd", nameserver=names)
    assert done.returncode == 2
    assert "'abandnd' ignores no finding of doctor: write CHECK" in done.stderr.decode()


def test_a_certificate_that_ends_is_found_until_it_is_replaced(tmp_path: Path) -> None:
    ca = certificates.authority(tmp_path / "ca")
    shown = certificates.server_keys(ca, "soon", days=20)
    place = ("certificate", "broker-a:0")
    with small_cluster(tmp_path, **shown, **{"tls.server.mode": "permissive"}) as (
        names,
        broker,
    ):
        found = seen(names.address)[place]
        assert found.severity == "warning"
        assert "its certificate expires in 19 days, at 20" in found.text
        later = certificates.signed(ca, "later", days=90)
        for new, old in zip(later, shown.values(), strict=True):
            new.replace(old)
        wait_until(
            lambda: place not in seen(names.address), seconds=30, what="the new certificate"
        )
        assert "Traceback" not in broker.log.read_text()


async def test_one_client_id_of_two_is_found() -> None:
    cluster = await asyncio.to_thread(Embedded().__enter__)
    both = [Channels(loop_clock()), Channels(loop_clock())]
    part = ConsumerPart("twins", (parse_subscription("T", "*", version=1),))
    body = encode_heartbeat(Heartbeat("one@id", (), (part,)))
    try:
        for channels in (
            *both,
            both[0],
        ):  # Who is heard again is no leftover of a reconnection.
            command = Command(RequestCode.HEART_BEAT, body=body)
            await channels.call(cluster.broker, command, timeout_ms=5_000)
        found = await asyncio.to_thread(examined, cluster.nameserver, status=1)
        assert "several members have the same client id" in found["members", "twins"]["text"]
    finally:
        for channels in both:
            await channels.close()
        await asyncio.to_thread(cluster.__exit__, None, None, None)


def test_what_is_wrong_with_programs_is_found(tmp_path) -> None:
    with (
        processes.nameserver(tmp_path / "one") as names,
        processes.nameserver(tmp_path / "two") as stranger,
        contextlib.ExitStack() as programs,
    ):
        started = {
            name: programs.enter_context(
                processes.broker(tmp_path / name, names.address, settings=settings)
            )
            for name, settings in PROGRAMS.items()
        }
        started["killed"].kill()
        away = f"127.0.0.1:{processes.free_port()}"
        # A client begins with any of them: here nearly always with one that knows no broker.
        named = [names.address, away, *[stranger.address] * 20]
        with halted(started["still"]):
            found = examined(";".join(named), status=1)
    assert "it does not answer" in found["nameserver", away]["text"]
    assert "no broker is registered at it" in found["nameserver", stranger.address]["text"] or (
        "registered at it, but at other nameservers"
        in found["nameserver", stranger.address]["text"]
    )
    assert "accepts no messages" in found["disk", "full:0"]["text"]
    assert "did not answer in time" in found["route", "still:0"]["text"]
    assert "left at" in found["broker", "killed"]["text"]
    assert (
        "sends wait for 2 in-sync members, and 1 is in sync"
        in found["replica", "alone:0"]["text"]
    )
    assert "no master" in found["route", "headless"]["text"]


NO_TOPIC = Answer(ResponseCode.TOPIC_NOT_EXIST, "none")
NOT_KNOWN = Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "none")


def script(names: Scripted, **brokers: Scripted) -> None:
    """The nameserver knows these brokers of cluster c and no topic, and they know no request."""
    known = ClusterInfo(
        {name: BrokerData("c", name, {0: each.address}) for name, each in brokers.items()},
        {"c": tuple(brokers)},
    )
    names.scripts = {
        RequestCode.GET_BROKER_CLUSTER_INFO: lambda *_: Answer(body=encode_cluster_info(known)),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda *_: NO_TOPIC,
    }
    for each in brokers.values():
        each.scripts = dict.fromkeys(RequestCode, lambda *_: NOT_KNOWN)


async def test_a_clock_a_disk_and_descriptors_are_found_by_what_a_broker_tells() -> None:
    numbers = {
        "bootTimestamp": str(int(time.time() * 1000) - 3_600_000),
        "runtime": "[ 0 days, 0 hours, 58 minutes, 0 seconds ]",
        "commitLogDiskRatio": "0.91",
        "openFileDescriptors": "950",
        "maxFileDescriptors": "1024",
    }
    async with Scripted() as names, Scripted() as broker:
        script(names, odd=broker)
        broker.scripts[RequestCode.GET_BROKER_RUNTIME_INFO] = lambda *_: Answer(
            body=encode_kv_table(numbers)
        )
        found = await asyncio.to_thread(examined, names.address, status=1, is_disk_ours=True)
    assert "s behind this one" in found["clock", "odd:0"]["text"]
    assert "91% of the disk" in found["disk", "odd:0"]["text"]
    assert "950 of 1024" in found["descriptors", "odd:0"]["text"]
    # It answers nothing about groups: that is said, and no more.
    assert found["asking", "groups"]["severity"] == "note"


GROWING = {
    "commitLogMinOffset": "0",
    "commitLogMaxOffset": str(24 << 30),
    "commitLogDiskRatio": "0.5",
    "commitLogDirCapacity": "Total : 100.0 GiB, Free : 50.0 GiB.",
    "earliestMessageTimeStamp": str(int(time.time() * 1000) - 10 * 3_600_000),
}


async def test_a_disk_that_will_fill_and_different_versions_are_found_until_they_are_not() -> (
    None
):
    kept, versions = ["72"], {"one": "1.0", "two": "1.1"}
    async with Scripted() as names, Scripted() as one, Scripted() as two:
        brokers = {"one": one, "two": two}
        script(names, **brokers)
        for name, each in brokers.items():
            each.scripts[RequestCode.GET_BROKER_RUNTIME_INFO] = lambda *_, name=name: Answer(
                body=encode_kv_table({**GROWING, "cometmqVersion": versions[name]})
            )
            each.scripts[RequestCode.GET_BROKER_CONFIG] = lambda *_: Answer(
                body=f"fileReservedTime={kept[0]}\n".encode()
            )
        found = await asyncio.to_thread(examined, names.address, is_disk_ours=True)
        assert found["version", "c"]["severity"] == "note"
        assert "CometMQ 1.0: one:0; CometMQ 1.1: two:0" in found["version", "c"]["text"]
        assert found["disk", "one:0"]["severity"] == "warning"
        assert "85% full in about 14 h" in found["disk", "one:0"]["text"]
        kept[0], versions["two"] = "12", "1.0"
        found = await asyncio.to_thread(examined, names.address, is_disk_ours=True)
    assert not {check for check, _ in found} & {"disk", "version"}


async def test_a_clock_is_right_though_another_broker_hangs() -> None:
    def runtime(*_: object) -> Answer:
        started, words = int(time.time() * 1000), "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
        return Answer(body=encode_kv_table({"bootTimestamp": str(started), "runtime": words}))

    async with Scripted() as names, Scripted() as fine, Scripted() as hung:
        script(names, fine=fine, hung=hung)
        fine.scripts[RequestCode.GET_BROKER_RUNTIME_INFO] = runtime
        hung.scripts = dict.fromkeys(RequestCode, lambda *_: None)
        found = await asyncio.to_thread(examined, names.address, status=1)
    assert ("route", "hung:0") in found
    assert not [each for each in found if each[0] == "clock"]
