"""The facts that the doctor knows of a cluster, and the symptoms that it reports: the data without the diagnosis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cometmq.client.admin.letters import DeadLetterCount
from cometmq.client.admin.states import BrokerState, GroupState
from cometmq.client.results import Replica
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import time_text

BAD, WARNING, NOTE = "bad", "warning", "note"
WORST_FIRST = (BAD, WARNING, NOTE)
LAG_DEFAULT = 10_000
WAIT_MS_DEFAULT = 300_000
NAMED_MAX = 4
_PAGE = "docs/operate/when.md"

# The checks, and the section of docs/operate/when.md about each.
CASES: Mapping[str, str] = {
    "nameserver": "a-nameserver-does-not-answer-or-knows-too-little",
    "broker": "a-broker-left-or-does-not-answer",
    "route": "a-broker-left-or-does-not-answer",
    "drained": "a-broker-must-be-stopped-for-a-while",
    "replica": "a-slave-does-not-follow-its-master",
    "disk": "a-disk-fills",
    "descriptors": "a-broker-runs-out-of-file-descriptors",
    "clock": "a-clock-is-wrong",
    "certificate": "a-certificate-expires",
    "version": "brokers-have-different-versions",
    "group": "a-group-falls-behind",
    "progress": "a-group-falls-behind",
    "abandoned": "a-group-has-no-members",
    "stopped": "consumers-do-harm-and-must-stop-at-once",
    "members": "members-get-only-some-of-the-messages",
    "queues": "members-get-only-some-of-the-messages",
    "letters": "messages-became-dead-letters",
    "topic": "producers-must-not-send-to-a-topic-any-more",
    "transactions": "a-transaction-stays-open",
    "asking": "the-doctor-cannot-see-everything",
}


class Symptom(NamedTuple):
    """A problem or notable condition of a cluster.

    Attributes:
        check: The check, a key of `CASES`, for example "disk" or "abandoned".
        subject: The affected nameserver, broker, topic, group or cluster, or what could not be queried.
        severity: "bad", "warning" or "note".
        text: Description of the problem.
        advice: What to do.
        since_ms: Time since when the problem exists, ms since 1970; of waiting messages that of the oldest; None if unknown.
    """

    check: str
    subject: str
    severity: str
    text: str
    advice: str
    since_ms: int | None = None

    @property
    def since(self) -> str:
        """The time `since_ms` in this machine's time zone; empty if it is None."""
        return "" if self.since_ms is None else time_text(self.since_ms)

    @property
    def see(self) -> str:
        """The page and section of the documentation about this problem."""
        return f"{_PAGE}#{CASES[self.check]}"


class StuckMember(NamedTuple):
    """A member that holds messages of some queues and has consumed none of these queues for long.

    Attributes:
        client_id: Its client id.
        held: Number of messages of these queues that it holds.
        since_ms: Earliest time since when one of them stands still, ms since 1970: the member's last consumption of it (its
            start if there was none), or the store time of the first waiting message if that is later.
    """

    client_id: str
    held: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of a cluster that the doctor has queried.

    Attributes:
        nameservers: The brokers that each nameserver lists, or its error, by address of the nameserver.
        brokers: Each member of a broker group, with its runtime values or the reason why there are none.
        now_ms: Local time of the examination, ms since 1970.
        asked_ms: Local time when a broker reported its runtime values, ms since 1970, by address of the broker.
        replicas: Each member of a broker group, and each broker that claims a member's id, with its replication status.
        missing: Broker groups that left and have not returned, as far as a CometMQ nameserver remembers them.
        groups: Consumer groups of the brokers that answered.
        conflicts: Contradictions between members of a group, as CometMQ brokers report them.
        unread: Queues of subscribed topics that no member of a group reads, by group name.
        stuck: Members that hold messages and acknowledge none, by group name.
        letters: Dead letters that were not replayed, by group.
        perms: Permission bits of topics at each broker, by topic and broker name; without topics of the system.
        settings: Settings of brokers, by address, as far as they permit to read them.
        certificates: End of the validity of the certificate that a server shows, ms since 1970, by address.
        unknown: What could not be queried, as pairs of the subject and a description.
        lag_max: Largest acceptable lag of a group, messages.
        wait_ms: Time that a message may wait for a member, for its acknowledgement or for the end of its transaction, ms.
        open_nameservers: Addresses of nameservers that answer unsigned requests.
        guarded_brokers: Addresses of brokers that refuse unsigned requests.
    """

    nameservers: Mapping[str, ClusterInfo | CometError]
    brokers: Sequence[BrokerState] = ()
    now_ms: int = 0
    asked_ms: Mapping[str, float | None] = field(default_factory=dict)
    replicas: Sequence[Replica] = ()
    missing: Sequence[MissingBroker] = ()
    groups: Sequence[GroupState] = ()
    conflicts: Sequence[Conflict] = ()
    unread: Mapping[str, Sequence[MessageQueue]] = field(default_factory=dict)
    stuck: Mapping[str, Sequence[StuckMember]] = field(default_factory=dict)
    letters: Sequence[DeadLetterCount] = ()
    perms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    certificates: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[tuple[str, str]] = ()
    lag_max: int = LAG_DEFAULT
    wait_ms: int = WAIT_MS_DEFAULT
    open_nameservers: Sequence[str] = ()
    guarded_brokers: Sequence[str] = ()


def some(names: Sequence[str]) -> str:
    """Return up to four names in a sentence, and the number of the others."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def duration(ms: float) -> str:
    """Return a duration in whole units, the largest of which it has at least two, for example "90 min"."""
    seconds = max(ms, 0) / 1000
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number_of(text: str | None) -> float | None:
    """Return the finite number that a server reported as text; None without one."""
    try:
        number = None if text is None else float(text)
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
