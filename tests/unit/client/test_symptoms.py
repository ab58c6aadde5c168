"""Which facts of a cluster are symptoms, and how bad: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cometmq.client import (
    BrokerState,
    ClientConnection,
    Conflict,
    ConflictSide,
    GroupConfig,
    GroupState,
    HaMaster,
    HaStatus,
    MessageQueue,
    QueueProgress,
    Replica,
)
from cometmq.client.admin.symptoms import ClusterFacts, broker_now_ms, symptoms_of
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.errors import RequestTimeout
from cometmq.model.route import BrokerData

NAMES = "10.0.0.1:9876"
ADDRESS = "10.0.0.2:10911"
NOW_MS = 100_000.0
NUMBERS = {
    "bootTimestamp": "40000",
    "runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]",
    "commitLogDiskRatio": "0.31",
    "storeRefusal": "",
    "openFileDescriptors": "100",
    "maxFileDescriptors": "1024",
}
KNOWN = ClusterInfo({"a": BrokerData("c", "a", {0: ADDRESS})}, {"c": ("a",)})
BROKER = BrokerState("c", "a", 0, ADDRESS, is_writable=True, runtime=NUMBERS)
MEMBER = ClientConnection("10.0.0.3@1", "10.0.0.3:5000")
QUEUE = MessageQueue("orders", "a", 1)
GROUP = GroupState(
    "billing",
    {"a": GroupConfig("billing")},
    {QUEUE: QueueProgress(20, 10)},
    members=(MEMBER,),
)
SOUND = ClusterFacts(
    {NAMES: KNOWN},
    (BROKER,),
    {ADDRESS: NOW_MS},
    (Replica("a", 0, ADDRESS, HaStatus(is_master=True)),),
    groups=(GROUP,),
)
SLAVE = HaMaster(address=ADDRESS, max_offset=1, is_active=False)


def numbers(**changed: str) -> ClusterFacts:
    return replace(SOUND, brokers=(BROKER._replace(runtime=NUMBERS | changed),))


def broker(**changed: object) -> ClusterFacts:
    return replace(SOUND, brokers=(BROKER._replace(**changed),))  # type: ignore[arg-type]


def group(**changed: object) -> ClusterFacts:
    return replace(SOUND, groups=(replace(GROUP, **changed),))  # type: ignore[arg-type]


def replica(status: HaStatus) -> ClusterFacts:
    return replace(SOUND, replicas=(Replica("a", 1, ADDRESS, status),))


def test_of_a_sound_cluster_nothing_is_said() -> None:
    assert symptoms_of(SOUND) == []


@pytest.mark.parametrize(
    ("facts", "check", "subject", "severity", "says"),
    [
        (replace(SOUND, nameservers={NAMES: KNOWN, "10.0.0.9:9876": RequestTimeout("silent")}), "nameserver", "10.0.0.9:9876", "bad", "does not answer: silent"),
        (replace(SOUND, nameservers={NAMES: KNOWN, "10.0.0.9:9876": ClusterInfo()}), "nameserver", "10.0.0.9:9876", "bad", "a is not registered at it"),
        (ClusterFacts({NAMES: ClusterInfo()}), "nameserver", NAMES, "bad", "no broker is registered at it"),
        (replace(SOUND, missing=(MissingBroker("b", "c", 5_000, {"orders": 4}),)), "broker", "b", "bad", "left at .* and has not returned; it had queues of 1 topic"),
        (broker(broker_id=1), "route", "a", "bad", "no master"),
        (broker(error="silent", runtime={}), "route", "a:0", "bad", "no broker answers: silent"),
        (broker(address="127.0.0.1:10911"), "route", "a:0", "bad", "other machines cannot reach"),
        (broker(is_writable=False), "route", "a:0", "note", "drained"),
        (numbers(storeRefusal="the disk is full"), "disk", "a:0", "bad", "accepts no messages: the disk is full"),
        (numbers(commitLogDiskRatio="0.86"), "disk", "a:0", "bad", "86%"),
        (numbers(commitLogDiskRatio="0.80"), "disk", "a:0", "note", "80%"),
        (numbers(openFileDescriptors="1000"), "descriptors", "a:0", "bad", "1000 of 1024"),
        (numbers(bootTimestamp="30000"), "clock", "a:0", "bad", "10 s behind"),
        (numbers(bootTimestamp="50000"), "clock", "a:0", "bad", "10 s ahead of"),
        (replica(HaStatus(is_master=False, master=SLAVE)), "replica", "a:1", "bad", "no connection to its master"),
        (replica(HaStatus(is_master=False, master=replace(SLAVE, error="logs differ"))), "replica", "a:1", "bad", "logs differ"),
        (replica(HaStatus(is_master=False, master=replace(SLAVE, is_active=True, metadata_error="slow"))), "replica", "a:1", "bad", "offsets are not replicated: slow"),
        (broker(error="answered 16 NO_PERMISSION", is_refused=True, runtime={}), "asking", "a:0", "note", "refuses to report its state"),
        (replace(SOUND, replicas=(Replica("a", 0, "y:1", HaStatus(is_master=True), owner="x:1"),)), "replica", "a:0", "bad", "two brokers run as the master of a: x:1 and y:1"),
        (replica(HaStatus(is_master=True, needed=2)), "replica", "a:1", "bad", "sends wait for 2 in-sync members"),
        (group(progress={QUEUE: QueueProgress(10_101, 100)}), "group", "billing", "bad", "10001 messages wait"),
        (group(members=()), "queues", "billing", "bad", "it has no members"),
        (group(configs={"a": GroupConfig("billing", consume_enabled=False)}), "group", "billing", "bad", "may not consume"),
        (replace(SOUND, conflicts=(Conflict("billing", "SUBSCRIPTION", (ConflictSide(("x",), "a"), ConflictSide(("y",), "b"))),)), "members", "billing", "bad", "x: a; y: b"),
        (replace(SOUND, conflicts=(Conflict("billing", "CLIENT_ID", (ConflictSide(("x", "y"), "a"),)),)), "members", "billing", "bad", "the same client id"),
        (replace(SOUND, unread={"billing": [QUEUE] * 6}), "queues", "billing", "bad", "and 2 more"),
        (replace(SOUND, unknown=[("a", "it is silent")]), "asking", "a", "note", "it is silent"),
    ],
)  # fmt: skip
def test_each_fault_is_one_symptom_with_what_to_do(
    facts: ClusterFacts, check: str, subject: str, severity: str, says: str
) -> None:
    import re

    [found] = symptoms_of(facts)
    assert (found.check, found.subject, found.severity) == (check, subject, severity)
    assert re.search(says, found.text)
    assert found.advice


@pytest.mark.parametrize(
    "facts",
    [
        numbers(commitLogDiskRatio="much", openFileDescriptors="", runtime="soon"),
        broker(runtime={}),  # A broker of another kind.
        numbers(bootTimestamp="42999"),
        numbers(bootTimestamp="36001"),
        group(members=(), progress={QUEUE: QueueProgress(10, 10)}),
    ],
)
def test_what_is_not_known_or_within_bounds_is_no_symptom(facts: ClusterFacts) -> None:
    assert symptoms_of(facts) == []


def test_a_stopped_slave_has_the_advice_of_its_own_reason() -> None:
    error = f"behind: this log ends at 1{STOPPED_WORDS}Start it empty"
    facts = replica(HaStatus(is_master=False, master=replace(SLAVE, error=error)))
    [found] = symptoms_of(facts)
    assert (found.text, found.advice) == (
        "it does not replicate: behind: this log ends at 1",
        "Start it empty",
    )


def test_the_worst_comes_first() -> None:
    facts = replace(broker(is_writable=False), missing=(MissingBroker("b", "c", 0, {}),))
    assert [each.severity for each in symptoms_of(facts)] == ["bad", "note"]


def test_the_time_of_a_broker_is_its_start_and_its_age() -> None:
    age = "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
    assert broker_now_ms({"bootTimestamp": "1000", "runtime": age}) == 93_785_000


def test_messages_that_no_consumer_finds_are_a_symptom_of_their_broker():
    facts = numbers(messagesBehindReadQueues='{"%RETRY%billing": 36, "orders": 40}')
    (found,) = symptoms_of(facts)
    assert (found.check, found.subject, found.severity) == ("queues", "a:0", "bad")
    assert "40 of orders, 36 of %RETRY%billing" in found.text


@pytest.mark.parametrize("text", ["{}", "", "[1]", "no", '{"a": "b"}'])
def test_a_broker_without_such_messages_or_that_does_not_count_them_is_well(text):
    assert symptoms_of(numbers(messagesBehindReadQueues=text)) == []
