"""Diagnosis of the facts of a cluster: finds problems and gives advice.

The severity of a symptom is "bad" or "note".
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from cometmq.client.admin.copies import judge_copies
from cometmq.client.admin.states import BrokerState, GroupState
from cometmq.client.results import Replica
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.conflicts import CLIENT_ID, Conflict
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import CometError
from cometmq.model.names import is_system_group
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID
from cometmq.model.text import plural

BAD, NOTE = "bad", "note"

DISK_NOTE, DISK_BAD = (
    0.75,
    0.85,
)  # RocketMQ deletes early above the first, and stops taking above 0.9.
DESCRIPTORS_BAD = 0.8
CLOCK_SECONDS_MAX = 3.0  # A broker reports its uptime in whole seconds.
LAG_DEFAULT = 10_000
_QUEUES_NAMED = 4


class Symptom(NamedTuple):
    """A problem or notable condition of a cluster.

    Attributes:
        check: The check: nameserver, broker, route, replica, disk, descriptors, clock, group, members, queues or asking.
        subject: The affected nameserver, broker or group, or what could not be queried.
        severity: BAD or NOTE.
        text: Description of the problem.
        advice: What to do.
    """

    check: str
    subject: str
    severity: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of a cluster that the doctor has queried.

    Attributes:
        nameservers: The brokers that each nameserver lists, or its error, by address of the nameserver.
        brokers: Each member of a broker group, with its runtime values or the reason why there are none.
        asked_ms: Local time when a broker reported its runtime values, ms since 1970, by address of the broker.
        replicas: Each member of a broker group, and each broker that claims a member's id, with its replication status.
        missing: Broker groups that left and have not returned, as far as a CometMQ nameserver remembers them.
        groups: Consumer groups of the brokers that answered.
        conflicts: Contradictions between members of a group, as CometMQ brokers report them.
        unread: Queues of subscribed topics that no member of a group reads, by group name.
        unknown: What could not be queried, as pairs of the subject and a description.
        lag_max: Largest acceptable lag of a group, messages.
        open_nameservers: Addresses of nameservers that answer unsigned requests.
        guarded_brokers: Addresses of brokers that refuse unsigned requests.
    """

    nameservers: Mapping[str, ClusterInfo | CometError]
    brokers: Sequence[BrokerState] = ()
    asked_ms: Mapping[str, float | None] = field(default_factory=dict)
    replicas: Sequence[Replica] = ()
    missing: Sequence[MissingBroker] = ()
    groups: Sequence[GroupState] = ()
    conflicts: Sequence[Conflict] = ()
    unread: Mapping[str, Sequence[MessageQueue]] = field(default_factory=dict)
    unknown: Sequence[tuple[str, str]] = ()
    lag_max: int = LAG_DEFAULT
    open_nameservers: Sequence[str] = ()
    guarded_brokers: Sequence[str] = ()


def symptoms_of(facts: ClusterFacts) -> list[Symptom]:
    """Return the problems that the facts of a cluster show, bad ones before notes."""
    found = [
        *_of_nameservers(facts),
        *_of_brokers(facts),
        *_of_numbers(facts),
        *_of_replicas(facts),
        *_of_groups(facts),
        *_of_members(facts),
        *(
            Symptom("asking", subject, NOTE, text, "read its log, or use mqadmin")
            for subject, text in facts.unknown
        ),
    ]
    return sorted(found, key=lambda symptom: symptom.severity != BAD)


def _of_nameservers(facts: ClusterFacts) -> Iterator[Symptom]:
    known = {
        address: set(answer.brokers)
        for address, answer in facts.nameservers.items()
        if isinstance(answer, ClusterInfo)
    }
    everybody = set().union(*known.values())
    for address, answer in facts.nameservers.items():
        if isinstance(answer, CometError):
            yield Symptom(
                "nameserver", address, BAD, f"it does not answer: {answer}",
                "start it, or take its address out of namesrvAddr everywhere",
            )  # fmt: skip
        elif not everybody:
            yield Symptom(
                "nameserver", address, BAD, "no broker is registered at it",
                "start a broker with this nameserver in namesrvAddr, and search its log for refused registrations",
            )  # fmt: skip
        elif lacking := sorted(everybody - known[address]):
            yield Symptom(
                "nameserver", address, BAD, f"{', '.join(lacking)} {plural(len(lacking), 'is', 'are')} not registered at it, but at other nameservers",
                "name every nameserver in the broker's namesrvAddr, and check that it can reach this one",
            )  # fmt: skip
    if facts.guarded_brokers:
        for address in facts.open_nameservers:
            yield Symptom(
                "nameserver", address, BAD,
                f"brokers require signed requests ({', '.join(facts.guarded_brokers[:_QUEUES_NAMED])}), this nameserver "
                "does not: every program that can reach it can register a broker and receive the messages of others",
                "set aclEnable=true or authenticationEnabled=true there, too (docs/operate/security.md), or "
                "restrict access to its port",
            )  # fmt: skip
    for broker in facts.missing:
        left = datetime.fromtimestamp(max(broker.left_ms, 0) / 1000).astimezone()
        yield Symptom(
            "broker", broker.name, BAD,
            f"it left at {left:%Y-%m-%d %H:%M:%S} and has not returned; it had queues of {len(broker.queues)} "
            f"{plural(len(broker.queues), 'topic')}",
            "start it again to consume its messages; after an orderly stop it is forgotten within an hour",
        )  # fmt: skip


def _of_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    masters = {each.broker_name for each in facts.brokers if each.broker_id == MASTER_ID}
    for name in sorted({each.broker_name for each in facts.brokers} - masters):
        yield Symptom(
            "route", name, BAD, "it has slaves but no master: it accepts no messages",
            "start its master, or promote a slave (docs/operate/replication.md)",
        )  # fmt: skip
    for each in facts.brokers:
        subject = f"{each.broker_name}:{each.broker_id}"
        if each.is_refused:
            yield Symptom(
                "asking", subject, NOTE, f"it refuses to report its state: {each.error}",
                "run this on its own machine, or as a user with that right (docs/operate/security.md)",
            )  # fmt: skip
        elif each.error is not None:
            yield Symptom(
                "route", subject, BAD, f"routes have the address {each.address}, where no broker answers: {each.error}",
                "start it, or find out why it hangs; if it was removed, the nameserver forgets it within 120 s",
            )  # fmt: skip
        if _is_own(each.address) and not all(map(_is_own, facts.nameservers)):
            yield Symptom(
                "route", subject, BAD, f"routes have the address {each.address}, which other machines cannot reach",
                "set brokerIP1 to an address that clients can reach",
            )  # fmt: skip
        if each.is_writable is False and each.broker_id == MASTER_ID and each.error is None:
            yield Symptom(
                "route", subject, NOTE, "it is drained: producers do not send to it",
                f"cometmq cluster undrain {each.broker_name} ends that",
            )  # fmt: skip


def _of_numbers(facts: ClusterFacts) -> Iterator[Symptom]:
    for each in facts.brokers:
        if each.error is None:
            subject = f"{each.broker_name}:{each.broker_id}"
            yield from _of_disk(subject, each.runtime)
            yield from _of_descriptors(subject, each.runtime)
            yield from _of_clock(subject, each.runtime, facts.asked_ms.get(each.address))
            if each.broker_id == MASTER_ID:
                yield from _of_unread_queues(subject, each.runtime)


def _of_disk(subject: str, numbers: Mapping[str, str]) -> Iterator[Symptom]:
    refusal = numbers.get("storeRefusal", "")
    if refusal:
        yield Symptom(
            "disk", subject, BAD, f"it accepts no messages: {refusal}",
            "free disk space, or find the failed write in its log; it continues without a restart as soon as "
            "writes succeed",
        )  # fmt: skip
    used = _number(numbers.get("commitLogDiskRatio"))
    if used is not None and used >= DISK_NOTE:
        yield Symptom(
            "disk", subject, BAD if used >= DISK_BAD else NOTE, f"{used:.0%} of the disk of its log is used",
            "add disk space, or keep messages for a shorter time (fileReservedTime)",
        )  # fmt: skip


def _of_descriptors(subject: str, numbers: Mapping[str, str]) -> Iterator[Symptom]:
    used, most = (
        _number(numbers.get(key)) for key in ("openFileDescriptors", "maxFileDescriptors")
    )
    if used is not None and most and used >= DESCRIPTORS_BAD * most:
        yield Symptom(
            "descriptors", subject, BAD, f"{used:.0f} of {most:.0f} file descriptors are open",
            "raise the limit (ulimit -n, LimitNOFILE=) and start it again, or find who opens so many connections",
        )  # fmt: skip


def _of_unread_queues(subject: str, numbers: Mapping[str, str]) -> Iterator[Symptom]:
    try:
        counts = json.loads(numbers.get("messagesBehindReadQueues", "{}"))
        pairs = sorted(
            ((int(count), str(topic)) for topic, count in counts.items()), reverse=True
        )
    except (ValueError, TypeError, AttributeError):
        return  # A broker of another implementation, or a malformed answer.
    if not pairs:
        return
    named = ", ".join(f"{count} of {topic}" for count, topic in pairs[:_QUEUES_NAMED])
    more = (
        f" and of {len(pairs) - _QUEUES_NAMED} more {plural(len(pairs) - _QUEUES_NAMED, 'topic')}"
        if len(pairs) > _QUEUES_NAMED
        else ""
    )
    yield Symptom(
        "queues", subject, BAD,
        f"messages are in queues beyond the read queues of their topic, where no consumer reads them: {named}{more}",
        "give the topic as many queues as before (cometmq topic create TOPIC --queues N) until these messages are "
        "consumed",
    )  # fmt: skip


def _of_clock(
    subject: str, numbers: Mapping[str, str], asked_ms: float | None
) -> Iterator[Symptom]:
    now_ms = broker_now_ms(numbers)
    if now_ms is None or asked_ms is None:
        return
    behind = (asked_ms - now_ms) / 1000
    # The uptime is truncated to whole seconds.
    if not -CLOCK_SECONDS_MAX <= behind <= CLOCK_SECONDS_MAX + 1:
        yield Symptom(
            "clock", subject, BAD, f"its clock is {abs(behind):.0f} s {'behind' if behind > 0 else 'ahead of'} this one",
            "synchronise all clocks with NTP: delays, retention and offset resets depend on them",
        )  # fmt: skip


def broker_now_ms(numbers: Mapping[str, str]) -> float | None:
    """Return the time by a broker's clock at its answer (start plus uptime), ms since 1970; None without valid values."""
    started = _number(numbers.get("bootTimestamp"))
    words = numbers.get("runtime", "").strip("[] ").replace(",", "").split()
    # As "[ 0 days, 6 hours, 0 minutes, 33 seconds ]".
    if started is None or len(words) != 8 or not all(word.isdecimal() for word in words[::2]):
        return None
    days, hours, minutes, seconds = map(int, words[::2])
    return started + 1000.0 * (((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _of_replicas(facts: ClusterFacts) -> Iterator[Symptom]:
    for copy in judge_copies(facts.replicas):
        if not copy.advice:
            continue  # There is no fault, or the member is unreachable, which is reported above.
        fault = (copy.fault or "no connection to its master").partition(STOPPED_WORDS)[0]
        if copy.state == "stopped":
            fault = f"it does not replicate: {fault}"
        elif copy.state == "alone" and copy.member.status is not None:
            fault += f", and {copy.member.status.in_sync_slaves + 1} {plural(copy.member.status.in_sync_slaves + 1, 'is', 'are')} in sync"
        elif copy.state == "copying":
            fault = f"topics, groups and offsets are not replicated: {fault}"
        subject = f"{copy.member.broker_name}:{copy.member.broker_id}"
        yield Symptom("replica", subject, BAD, fault, copy.advice)


def _of_groups(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        if is_system_group(group.name) or not group.lag.known:
            continue
        show = f"cometmq group show {group.name}"
        if group.stopped_at:
            yield Symptom(
                "group", group.name, BAD, f"it may not consume, and {group.lag} {plural(group.lag.known, 'message waits', 'messages wait')} for it",
                f"cometmq group set {group.name} --consume",
            )  # fmt: skip
        if not group.members:
            yield Symptom(
                "queues", group.name, BAD, f"it has no members, and {group.lag} {plural(group.lag.known, 'message waits', 'messages wait')} for it",
                f"start its members; if the group is not needed any more, delete it: cometmq group delete {group.name}",
            )  # fmt: skip
        elif group.lag.known > facts.lag_max:
            yield Symptom(
                "group", group.name, BAD,
                f"{group.lag} {plural(group.lag.known, 'message waits', 'messages wait')} for it, and it consumes "
                f"{group.rate:.1f} per second",
                f"check with {show} --running whether a listener is slow or one queue is far behind; add members, "
                "up to the number of queues",
            )  # fmt: skip


def _of_members(facts: ClusterFacts) -> Iterator[Symptom]:
    for conflict in facts.conflicts:
        sides = "; ".join(f"{', '.join(side.clients)}: {side.says}" for side in conflict.sides)
        is_id = conflict.kind == CLIENT_ID
        yield Symptom(
            "members", conflict.group, BAD,
            f"{'several members have the same client id' if is_id else 'members have different subscriptions'}: "
            f"{sides}",
            "give each process an instance name of its own" if is_id
            else "start all members with the same subscriptions: otherwise the group misses messages",
        )  # fmt: skip
    for group, queues in sorted(facts.unread.items()):
        named = ", ".join(map(str, queues[:_QUEUES_NAMED]))
        more = f" and {len(queues) - _QUEUES_NAMED} more" if len(queues) > _QUEUES_NAMED else ""
        yield Symptom(
            "queues", group, BAD, f"no member reads {named}{more}",
            f"cometmq group show {group} --running shows which member has which queue; restart the member that "
            "does not consume",
        )  # fmt: skip


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _is_own(address: str) -> bool:
    return address.startswith(("127.", "localhost:", "[::1]"))
