"""Which facts of a cluster are symptoms, and how bad: a table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cometmq import MessageQueue
from cometmq.admin import (
    BrokerState,
    ClientConnection,
    Conflict,
    ConflictSide,
    GroupConfig,
    GroupState,
    HaGroup,
    HaGroupMember,
    HaMaster,
    HaStatus,
    IgnoreList,
    QueueProgress,
    QueueState,
    Replica,
    RunningState,
    Symptom,
    grouped_symptoms,
)
from cometmq.client.admin.facts import CASES, ClusterFacts, StuckMember
from cometmq.client.admin.group_symptoms import stuck_members
from cometmq.client.admin.letters import DeadLetterCount
from cometmq.client.admin.symptoms import broker_now_ms, symptoms_of
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.errors import RequestTimeout, SettingsError
from cometmq.model.route import BrokerData
from tests.support.pages import ROOT

NAMES = "10.0.0.1:9876"
ADDRESS = "10.0.0.2:10911"
NOW_MS = 100_000
NOW, HOUR, DAY = 2_000_000_000_000, 3_600_000, 24 * 3_600_000
NUMBERS = {
    "bootTimestamp": "40000",
    "runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]",
    "commitLogDiskRatio": "0.31",
    "storeRefusal": "",
    "openFileDescriptors": "100",
    "maxFileDescriptors": "1024",
    "brokerVersionDesc": "V5_3_3",
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
    asked_ms={ADDRESS: NOW_MS},
    replicas=(Replica("a", 0, ADDRESS, HaStatus(is_master=True)),),
    groups=(GROUP,),
)
SLAVE = HaMaster(address=ADDRESS, max_offset=1, is_active=False)


def numbers(**changed: str) -> ClusterFacts:
    return replace(SOUND, brokers=(BROKER._replace(runtime=NUMBERS | changed),))


def broker(**changed: object) -> ClusterFacts:
    return replace(SOUND, brokers=(BROKER._replace(**changed),))  # type: ignore[arg-type]


def group(**changed: object) -> ClusterFacts:
    return replace(SOUND, groups=(replace(GROUP, **changed),))  # type: ignore[arg-type]


def waiting(age_ms: int, *, offset: int = 10, **changed: object) -> ClusterFacts:
    """The group, whose oldest message waits for so long."""
    progress = {QUEUE: QueueProgress(20, offset, oldest_ms=NOW - age_ms)}
    return replace(group(progress=progress, **changed), now_ms=NOW)


def certificate(end_ms: int) -> ClusterFacts:
    return replace(SOUND, now_ms=NOW, certificates={ADDRESS: end_ms})


def growing(*, hours: float, used: str, gib: int, kept: str = "72") -> ClusterFacts:
    """A log of so many GiB, whose first message is so old, on a disk of 100 GiB."""
    facts = numbers(
        commitLogMinOffset="0",
        commitLogMaxOffset=str(gib << 30),
        commitLogDiskRatio=used,
        commitLogDirCapacity="Total : 100.0 GiB, Free : 50.0 GiB.",
        earliestMessageTimeStamp=str(int(NOW - hours * HOUR)),
    )
    return replace(facts, now_ms=NOW, settings={ADDRESS: {"fileReservedTime": kept}})


def replica(status: HaStatus) -> ClusterFacts:
    return replace(SOUND, replicas=(Replica("a", 1, ADDRESS, status),))


def elected(*, leader: str = "n0", away: str) -> HaStatus:
    """A member n0 of a group of three, which does not lead if another one does or none."""
    members = tuple(
        HaGroupMember(
            member_id=name,
            address=ADDRESS,
            broker_id=number,
            is_connected=name not in away,
            error="refused" if name in away else None,
        )
        for number, name in enumerate(("n0", "n1", "n2"), 1)
    )
    role = "leader" if leader == "n0" else "candidate"
    group = HaGroup(name="a", own="n0", role=role, term=1, leader=leader, members=members)
    if role == "leader":
        return HaStatus(is_master=True, group=group)
    return HaStatus(is_master=False, master=SLAVE, group=group)


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
        (broker(is_writable=False), "drained", "a:0", "note", "drained"),
        (numbers(storeRefusal="the disk is full"), "disk", "a:0", "bad", "accepts no messages: the disk is full"),
        (numbers(commitLogDiskRatio="0.86"), "disk", "a:0", "bad", "86%"),
        (numbers(commitLogDiskRatio="0.80"), "disk", "a:0", "warning", "80%"),
        (numbers(openFileDescriptors="1000"), "descriptors", "a:0", "bad", "1000 of 1024"),
        (numbers(bootTimestamp="30000"), "clock", "a:0", "bad", "10 s behind"),
        (numbers(bootTimestamp="50000"), "clock", "a:0", "bad", "10 s ahead of"),
        (replica(HaStatus(is_master=False, master=SLAVE)), "replica", "a:1", "bad", "no connection to its master"),
        (replica(HaStatus(is_master=False, master=replace(SLAVE, error="logs differ"))), "replica", "a:1", "bad", "logs differ"),
        (replica(HaStatus(is_master=False, master=replace(SLAVE, is_active=True, metadata_error="slow"))), "replica", "a:1", "bad", "offsets are not replicated: slow"),
        (broker(error="answered 16 NO_PERMISSION", is_refused=True, runtime={}), "asking", "a:0", "note", "refuses to report its state"),
        (replace(SOUND, replicas=(Replica("a", 0, "y:1", HaStatus(is_master=True), owner="x:1"),)), "replica", "a:0", "bad", "two brokers run as the master of a: x:1 and y:1"),
        (replica(HaStatus(is_master=True, needed=2)), "replica", "a:1", "bad", "sends wait for 2 in-sync members"),
        (replica(elected(away="n1")), "replica", "a:2", "bad", "member n1 of its group is away: refused"),
        (group(progress={QUEUE: QueueProgress(10_101, 100)}), "group", "billing", "bad", "10001 messages wait"),
        (group(members=()), "abandoned", "billing", "bad", "it has no members, and 10 messages wait"),
        (waiting(2 * DAY, members=()), "abandoned", "billing", "warning", "no members"),
        (waiting(2 * DAY, members=(), offset=-20_000), "abandoned", "billing", "bad", "no members"),
        (waiting(HOUR, members=()), "abandoned", "billing", "bad", "no members"),
        (group(configs={"a": GroupConfig("billing", consume_enabled=False)}), "stopped", "billing", "bad", "may not consume at a, and 10"),
        (group(configs={"a": GroupConfig("billing", consume_enabled=False)}, progress={}), "stopped", "billing", "note", "may not consume at a$"),
        (waiting(HOUR, rate=2.5), "group", "billing", "warning", "10 messages wait for it, the oldest for 60 min, and it consumes 2.5"),
        (waiting(HOUR), "progress", "billing", "warning", "the oldest for 60 min, and its members consumed none"),
        (waiting(HOUR, offset=-20_000), "progress", "billing", "bad", "20020 messages wait"),
        (replace(waiting(HOUR), stuck={"billing": [StuckMember("x@1", 7, NOW - HOUR), StuckMember("y@1", 1, NOW)]}), "progress", "billing", "bad", r"members hold messages and have acknowledged none for 60 min: x@1 \(7\), y@1 \(1\); 10 messages wait"),
        (replace(SOUND, letters=(DeadLetterCount("billing", 21, NOW - HOUR, first_ms=NOW - DAY),)), "letters", "billing", "warning", "21 dead letters wait, the last since 20"),
        (replace(SOUND, perms={"orders": {"a": 4, "b": 6}}), "topic", "orders", "note", "producers may not send to it at a$"),
        (replace(SOUND, perms={"orders": {"a": 2, "b": 2}}), "topic", "orders", "warning", "consumers may not read it at a, b"),
        (replace(SOUND, perms={"orders": {"a": 0}}), "topic", "orders", "warning", "consumers may not read it and producers may not send to it at a"),
        (replace(numbers(openTransactions="3", oldestTransactionTimestamp=str(NOW - HOUR)), now_ms=NOW), "transactions", "a:0", "warning", "3 transactions are open, the first for 60 min"),
        (certificate(NOW + 20 * DAY), "certificate", "a:0", "warning", "expires in 20 days"),
        (certificate(NOW + 3 * DAY), "certificate", "a:0", "bad", "expires in 3 days"),
        (certificate(NOW - 3 * HOUR), "certificate", "a:0", "bad", "expired 3 h ago"),
        (growing(hours=10, used="0.50", gib=24), "disk", "a:0", "warning", r"85% full in about 14 h: its log grows by 57\.6 GiB a day and keeps messages for 72 h"),
        (replace(SOUND, brokers=(BROKER, BROKER._replace(broker_name="b", runtime={**NUMBERS, "cometmqVersion": "1.1"}), BROKER._replace(broker_name="d", runtime={**NUMBERS, "cometmqVersion": "1.0"}))), "version", "c", "note", r"CometMQ 1\.0: d:0; CometMQ 1\.1: b:0; V5_3_3: a:0"),
        (replace(SOUND, conflicts=(Conflict("billing", "SUBSCRIPTION", (ConflictSide(("x",), "a"), ConflictSide(("y",), "b"))),)), "members", "billing", "bad", "x: a; y: b"),
        (replace(SOUND, conflicts=(Conflict("billing", "CLIENT_ID", (ConflictSide(("x", "y"), "a"),)),)), "members", "billing", "bad", "the same client id"),
        (replace(SOUND, unread={"billing": [QUEUE] * 6}), "queues", "billing", "bad", "and 2 more"),
        (replace(SOUND, unknown=[("a", "it is silent")]), "asking", "a", "note", "it is silent"),
    ],
)  # fmt: skip
def test_each_fault_is_one_symptom_with_what_to_do(
    facts: ClusterFacts, check: str, subject: str, severity: str, says: str
) -> None:
    [found] = symptoms_of(facts)
    assert (found.check, found.subject, found.severity) == (check, subject, severity)
    assert re.search(says, found.text)
    assert found.advice
    assert found.see.startswith("docs/operate/when.md#")


@pytest.mark.parametrize(
    "facts",
    [
        numbers(commitLogDiskRatio="much", openFileDescriptors="", runtime="soon"),
        broker(runtime={}),  # A broker of another kind.
        numbers(bootTimestamp="42999"),
        numbers(bootTimestamp="36001"),
        group(members=(), progress={QUEUE: QueueProgress(10, 10)}),
        waiting(60_000),
        certificate(NOW + 60 * DAY),
        growing(hours=0.5, used="0.50", gib=24),
        growing(hours=80, used="0.50", gib=24),  # It is as large as it gets.
        growing(hours=10, used="0.50", gib=4),
        growing(hours=10, used="0.50", gib=24, kept="soon"),
        numbers(commitLogDirCapacity="Total : much", earliestMessageTimeStamp="-1"),
        replace(numbers(openTransactions="3", oldestTransactionTimestamp=str(NOW)), now_ms=NOW),
        numbers(openTransactions="inf", oldestTransactionTimestamp="nan"),
        replace(SOUND, perms={"orders": {"a": 6}}),
        *(
            numbers(messagesBehindReadQueues=each)
            for each in ("{}", "", "[1]", "no", '{"a": "b"}')
        ),
        SOUND,
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


def test_a_group_without_a_leader_is_no_group_whose_master_could_be_promoted() -> None:
    facts = replace(
        replica(elected(leader="", away="n1 n2")), brokers=(BROKER._replace(broker_id=1),)
    )
    found = [(each.check, each.subject, each.text) for each in symptoms_of(facts)]
    assert found == [
        ("replica", "a:1", "it does not replicate: its group has no leader and accepts no messages: it is connected to 0 of 2 other members that vote, and needs 1"),
        ("replica", "a:2", "member n1 of its group is away: refused"),
        ("replica", "a:3", "member n2 of its group is away: refused"),
    ]  # fmt: skip


def test_the_worst_comes_first() -> None:
    facts = replace(
        broker(is_writable=False),
        letters=(DeadLetterCount("billing", 1, 0),),
        missing=(MissingBroker("b", "c", 0, {}),),
    )
    assert [each.severity for each in symptoms_of(facts)] == ["bad", "warning", "note"]


@pytest.mark.parametrize(
    ("facts", "since_ms"),
    [
        (replace(SOUND, missing=(MissingBroker("b", "c", 5_000, {}),)), 5_000),
        (waiting(HOUR), NOW - HOUR),
        (waiting(HOUR, members=()), NOW - HOUR),
        (replace(waiting(HOUR), stuck={"billing": [StuckMember("x@1", 7, NOW - 9)]}), NOW - 9),
        (certificate(NOW - HOUR), NOW - HOUR),
        (certificate(NOW + HOUR), None),
        (group(members=()), None),
        (numbers(commitLogDiskRatio="0.86"), None),
    ],
)
def test_a_finding_says_since_when_if_that_is_known(
    facts: ClusterFacts, since_ms: int | None
) -> None:
    [found] = symptoms_of(facts)
    assert found.since_ms == since_ms


@pytest.mark.parametrize(
    ("cached", "consumed_ms", "oldest_ms", "since_ms"),
    [
        (3, NOW - HOUR, NOW - 2 * HOUR, NOW - HOUR),
        (3, NOW - 2 * HOUR, NOW - HOUR, NOW - HOUR),
        (3, 0, NOW - 2 * HOUR, NOW - HOUR),  # It has tried since its start.
        (0, NOW - HOUR, NOW - 2 * HOUR, None),
        (3, NOW, NOW - HOUR, None),
        (3, NOW - HOUR, NOW, None),  # Its queue was empty, and a message has just come.
        (3, NOW - HOUR, 0, None),  # A Java broker does not say since when it waits.
    ],
)
def test_a_member_is_stuck_that_holds_old_messages_and_consumes_none(
    cached: int, consumed_ms: int, oldest_ms: int, since_ms: int | None
) -> None:
    state = RunningState(
        {"PROP_CONSUMER_START_TIMESTAMP": str(NOW - HOUR)},
        queues={QUEUE: QueueState(cached_count=cached, consumed_ms=consumed_ms)},
    )
    behind = replace(GROUP, progress={QUEUE: QueueProgress(20, 10, oldest_ms=oldest_ms)})
    found = stuck_members(behind, {"x@1": state}, NOW - HOUR // 2)
    wanted = [] if since_ms is None else [StuckMember("x@1", cached, since_ms)]
    assert found == wanted


def symptom(check: str, subject: str, since_ms: int | None = None) -> Symptom:
    return Symptom(check, subject, "bad", "text", "advice", since_ms)


@pytest.mark.parametrize(
    ("entry", "is_ignored"),
    [
        ("abandoned", True),
        ("abandoned:test-1", True),
        ("  abandoned:test-*  ", True),
        ("abandoned:test", False),
        ("stopped", False),
        ("stopped:test-1", False),
        ("# abandoned", False),
        ("", False),
    ],
)
def test_an_entry_ignores_a_check_or_those_of_some_objects(
    entry: str, is_ignored: bool
) -> None:
    assert (symptom("abandoned", "test-1") in IgnoreList([entry])) is is_ignored


def test_an_address_in_an_entry_is_no_pattern() -> None:
    assert symptom("nameserver", "[::1]:9876") in IgnoreList(["nameserver:[::1]:9876"])


def test_an_entry_without_a_check_is_refused() -> None:
    with pytest.raises(SettingsError, match="'abandnd:x' ignores no finding of doctor"):
        IgnoreList(["abandnd:x"])


@pytest.mark.parametrize("content", [None, b"nothing", b"\xff", b"#" * (1 << 20) + b"#"])
def test_an_unusable_file_is_refused_by_its_name(tmp_path, content: bytes | None) -> None:
    path = tmp_path / "ignored"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=str(path)):
        IgnoreList.read(path)


def test_the_entries_of_a_file_and_others_count(tmp_path) -> None:
    path = tmp_path / "ignored"
    path.write_text("# ours\nabandoned:test-*\n\n")
    ignored = IgnoreList.read(path, ["stopped"])
    assert symptom("abandoned", "test-1") in ignored
    assert symptom("stopped", "x") in ignored
    assert symptom("abandoned", "billing") not in ignored


def test_many_of_one_check_are_one_group_the_oldest_first() -> None:
    many = [symptom("abandoned", f"g-{number}", 100 - number) for number in range(6)]
    few = [symptom("stopped", f"g-{number}") for number in range(5)]
    unknown = symptom("abandoned", "unknown")
    grouped = grouped_symptoms([*many, unknown, *few])
    assert [len(part) for part in grouped] == [7, 1, 1, 1, 1, 1]
    assert [each.subject for each in grouped[0]][::6] == ["g-5", "unknown"]


def test_each_check_has_its_section_on_the_page() -> None:
    page = (ROOT / "docs" / "operate" / "when.md").read_text()
    heads = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    anchors = {re.sub(r"[^a-z0-9]+", "-", head.lower()).strip("-") for head in heads}
    assert set(CASES.values()) <= anchors
    # What no server can tell: doctor says on the page that it does not look for these.
    assert anchors - set(CASES.values()) == {
        "a-message-was-not-consumed",
        "a-group-must-consume-again-from-yesterday",
        "a-broker-s-files-may-be-damaged",
    }
    commands = (ROOT / "docs" / "operate" / "commands.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", commands, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} >= set(CASES)


def test_the_time_of_a_broker_is_its_start_and_its_age() -> None:
    age = "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
    assert broker_now_ms({"bootTimestamp": "1000", "runtime": age}) == 93_785_000


def test_messages_that_no_consumer_finds_are_a_symptom_of_their_broker():
    facts = numbers(messagesBehindReadQueues='{"%RETRY%billing": 36, "orders": 40}')
    (found,) = symptoms_of(facts)
    assert (found.check, found.subject, found.severity) == ("queues", "a:0", "bad")
    assert "40 of orders, 36 of %RETRY%billing" in found.text
