"""Diagnosis of the facts of a cluster: finds problems of its servers, adds those of its groups, and gives advice."""

import json
import re
from collections.abc import Iterator, Mapping

from cometmq.client.admin.copies import judge_copies
from cometmq.client.admin.facts import (
    BAD,
    NAMED_MAX,
    NOTE,
    WARNING,
    WORST_FIRST,
    ClusterFacts,
    Symptom,
    duration,
    number_of,
    some,
)
from cometmq.client.admin.group_symptoms import group_symptoms
from cometmq.client.admin.states import BrokerState
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.model.errors import CometError
from cometmq.model.route import MASTER_ID
from cometmq.model.text import plural, time_text

DISK_WARNING, DISK_BAD = (
    0.75,
    0.85,
)  # RocketMQ deletes early above the first, and stops taking above 0.9.
DESCRIPTORS_BAD = 0.8
CLOCK_SECONDS_MAX = 3.0  # A broker reports its uptime in whole seconds.
CERTIFICATE_WARNING_DAYS, CERTIFICATE_BAD_DAYS = 30, 7
# A log must be so old before its growth is extrapolated.
_TREND_HOURS_MIN = 1.0
_HOUR_MS, _DAY_MS = 3600 * 1000, 24 * 3600 * 1000


def symptoms_of(facts: ClusterFacts) -> list[Symptom]:
    """Return the problems that the facts of a cluster show: bad ones, then warnings, then notes."""
    found = [
        *_of_nameservers(facts),
        *_of_brokers(facts),
        *_of_versions(facts),
        *_of_numbers(facts),
        *_of_certificates(facts),
        *_of_replicas(facts),
        *group_symptoms(facts),
        *(
            Symptom("asking", subject, NOTE, text, "read its log, or use mqadmin")
            for subject, text in facts.unknown
        ),
    ]
    return sorted(found, key=lambda symptom: WORST_FIRST.index(symptom.severity))


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
                f"brokers require signed requests ({', '.join(facts.guarded_brokers[:NAMED_MAX])}), this nameserver "
                "does not: every program that can reach it can register a broker and receive the messages of others",
                "set aclEnable=true or authenticationEnabled=true there, too (docs/operate/security.md), or "
                "restrict access to its port",
            )  # fmt: skip
    for broker in facts.missing:
        yield Symptom(
            "broker", broker.name, BAD,
            f"it left at {time_text(broker.left_ms)} and has not returned; it had queues of {len(broker.queues)} "
            f"{plural(len(broker.queues), 'topic')}",
            "start it again to consume its messages; after an orderly stop it is forgotten within an hour",
            broker.left_ms if broker.left_ms > 0 else None,
        )  # fmt: skip


def _of_brokers(facts: ClusterFacts) -> Iterator[Symptom]:
    masters = {each.broker_name for each in facts.brokers if each.broker_id == MASTER_ID}
    # `_of_replicas` reports a group without a leader.
    elected = {each.broker_name for each in facts.replicas if each.status and each.status.group}
    for name in sorted({each.broker_name for each in facts.brokers} - masters - elected):
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
                "drained", subject, NOTE, "it is drained: producers do not send to it",
                f"cometmq cluster undrain {each.broker_name} ends that",
            )  # fmt: skip


def _of_versions(facts: ClusterFacts) -> Iterator[Symptom]:
    clusters: dict[str, dict[str, list[str]]] = {}
    for each in facts.brokers:
        if each.runtime:
            own = each.runtime.get("cometmqVersion")
            version = (
                f"CometMQ {own}" if own else each.runtime.get("brokerVersionDesc", "unknown")
            )
            of_version = clusters.setdefault(each.cluster, {}).setdefault(version, [])
            of_version.append(f"{each.broker_name}:{each.broker_id}")
    for cluster, versions in sorted(clusters.items()):
        if len(versions) > 1:
            named = "; ".join(
                f"{version}: {some(members)}" for version, members in sorted(versions.items())
            )
            yield Symptom(
                "version", cluster, NOTE, f"its brokers have different versions: {named}",
                "complete the upgrade: bring all brokers to the same version",
            )  # fmt: skip


def _of_numbers(facts: ClusterFacts) -> Iterator[Symptom]:
    for each in facts.brokers:
        if each.error is None:
            subject = f"{each.broker_name}:{each.broker_id}"
            yield from _of_disk(subject, each.runtime)
            yield from _of_disk_trend(subject, each, facts)
            if each.broker_id == MASTER_ID:
                yield from _of_transactions(subject, each.runtime, facts)
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
    used = number_of(numbers.get("commitLogDiskRatio"))
    if used is not None and used >= DISK_WARNING:
        yield Symptom(
            "disk", subject, BAD if used >= DISK_BAD else WARNING, f"{used:.0%} of the disk of its log is used",
            "add disk space, or keep messages for a shorter time (fileReservedTime)",
        )  # fmt: skip


def _of_disk_trend(subject: str, broker: BrokerState, facts: ClusterFacts) -> Iterator[Symptom]:
    """Warn if a log, at its growth so far, will fill 85 % of the disk before its first messages reach the age of deletion."""
    numbers = broker.runtime
    total = _capacity(numbers.get("commitLogDirCapacity", ""))
    known = (
        numbers.get("commitLogDiskRatio"),
        numbers.get("commitLogMinOffset"),
        numbers.get("commitLogMaxOffset"),
        numbers.get("earliestMessageTimeStamp"),
        facts.settings.get(broker.address, {}).get("fileReservedTime"),
    )
    values = [value for text in known if (value := number_of(text)) is not None]
    if total is None or len(values) < len(known):
        return
    used, first, end, oldest_ms, hours = values
    age_hours = (facts.now_ms - oldest_ms) / _HOUR_MS
    if oldest_ms <= 0 or not _TREND_HOURS_MIN <= age_hours < hours or used >= DISK_BAD:
        return
    per_hour = (end - first) / age_hours
    room = (DISK_BAD - used) * total
    if per_hour * (hours - age_hours) > room:
        yield Symptom(
            "disk", subject, WARNING,
            f"its disk will be {DISK_BAD:.0%} full in about {duration(room / per_hour * _HOUR_MS)}: its log grows by "
            f"{per_hour * 24 / 2**30:.1f} GiB a day and keeps messages for {hours:.0f} h",
            "add disk space, or keep messages for a shorter time (fileReservedTime)",
        )  # fmt: skip


def _capacity(text: str) -> float | None:
    """Return the bytes of a disk from commitLogDirCapacity, "Total : 437.4 GiB, Free : 103.5 GiB."; None if malformed."""
    found = re.match(r"Total : (\d{1,9}(?:\.\d{1,9})?) ([KMGTPE]?)i?B", text)
    if found is None:
        return None
    return float(found[1]) * 1024.0 ** " KMGTPE".index(found[2] or " ")


def _of_transactions(
    subject: str, numbers: Mapping[str, str], facts: ClusterFacts
) -> Iterator[Symptom]:
    count, oldest_ms = (
        number_of(numbers.get(key))
        for key in ("openTransactions", "oldestTransactionTimestamp")
    )
    if count and oldest_ms and oldest_ms <= facts.now_ms - facts.wait_ms:
        yield Symptom(
            "transactions", subject, WARNING,
            f"{count:.0f} {plural(int(count), 'transaction is', 'transactions are')} open, the first for "
            f"{duration(facts.now_ms - oldest_ms)}: consumers do not get {plural(int(count), 'its message', 'their messages')}",
            "check that a producer of the group runs and answers checks; cometmq transactions list shows those that "
            "were given up",
            int(oldest_ms),
        )  # fmt: skip


def _of_certificates(facts: ClusterFacts) -> Iterator[Symptom]:
    names = {each.address: f"{each.broker_name}:{each.broker_id}" for each in facts.brokers}
    for address, end_ms in sorted(facts.certificates.items()):
        left = end_ms - facts.now_ms
        if left > CERTIFICATE_WARNING_DAYS * _DAY_MS:
            continue
        when = f"in {duration(left)}" if left > 0 else f"{duration(-left)} ago"
        yield Symptom(
            "certificate", names.get(address, address),
            BAD if left <= CERTIFICATE_BAD_DAYS * _DAY_MS else WARNING,
            f"its certificate {'expires' if left > 0 else 'expired'} {when}, at {time_text(end_ms)}",
            "replace the files of tls.server.certPath and tls.server.keyPath; they are used without a restart",
            end_ms if left <= 0 else None,
        )  # fmt: skip


def _of_descriptors(subject: str, numbers: Mapping[str, str]) -> Iterator[Symptom]:
    used, most = (
        number_of(numbers.get(key)) for key in ("openFileDescriptors", "maxFileDescriptors")
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
    named = ", ".join(f"{count} of {topic}" for count, topic in pairs[:NAMED_MAX])
    more = (
        f" and of {len(pairs) - NAMED_MAX} more {plural(len(pairs) - NAMED_MAX, 'topic')}"
        if len(pairs) > NAMED_MAX
        else ""
    )
    yield Symptom(
        "queues", subject, BAD,
        f"messages are in queues beyond the read queues of their topic, where no consumer reads them: {named}{more}",
        "give the topic as many queues as before (cometmq topic set TOPIC --queues N) until these messages are "
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
    started = number_of(numbers.get("bootTimestamp"))
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
        elif copy.state == "away" and copy.elected is not None:
            fault = f"member {copy.elected.member_id} of its group is away: {fault}"
        elif copy.state == "copying":
            fault = f"topics, groups and offsets are not replicated: {fault}"
        subject = f"{copy.member.broker_name}:{copy.member.broker_id}"
        yield Symptom("replica", subject, BAD, fault, copy.advice)


def _is_own(address: str) -> bool:
    return address.startswith(("127.", "localhost:", "[::1]"))
