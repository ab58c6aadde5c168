"""Messages between members of a group. The network may lose, delay, repeat and reorder them."""

from dataclasses import dataclass
from typing import NamedTuple

from cometmq.model.address import split_address
from cometmq.replication.group.history import Row

VOTERS_MAX = 9
MEMBER_ID_SIZE_MAX = 64
HOST_SIZE_MAX = 253  # Of a name in the DNS (RFC 1035).


class MemberPlace(NamedTuple):
    """The place of a member: its id, the broker id with which it registers unless it leads, and "host:port" for members."""

    member: str
    broker_id: int
    address: str


def split_place(member: str, address: str) -> tuple[str, int]:
    """Return host and port of a member; raise ValueError if its id or its address cannot be used.

    A greeting has the places of all members in 4 KiB, so they are short and in ASCII.
    """
    if not 0 < len(member) <= MEMBER_ID_SIZE_MAX:
        raise ValueError(f"the id of a member has 1 to {MEMBER_ID_SIZE_MAX} characters")
    both = member + address
    if not (both.isascii() and both.isprintable() and set(both).isdisjoint(';, "\\')):
        raise ValueError(
            'ids and hosts have printable ASCII characters, without ; , " \\ and spaces (a host as xn--NAME)'
        )
    host, port = split_address(address)
    try:
        is_name = len(host.encode("idna")) <= HOST_SIZE_MAX
    except UnicodeError:
        is_name = False
    if not is_name:
        raise ValueError(
            f"a host has at most {HOST_SIZE_MAX} characters, with 1 to 63 between two dots"
        )
    return host, port


@dataclass(frozen=True, slots=True)
class Membership:
    """Members of a group, by dLegerSelfId.

    Attributes:
        voters: Members whose majority elects leaders and acknowledges records.
        learners: Members that only copy the log: new ones, until they have caught up.
        places: Broker ids and addresses of all members; the machine ignores them. Empty before the first change, when
            dLegerPeers applies.
    """

    voters: tuple[str, ...]
    learners: tuple[str, ...] = ()
    places: tuple[MemberPlace, ...] = ()

    @property
    def majority(self) -> int:
        """Least number of voters that is a majority."""
        return len(self.voters) // 2 + 1

    @property
    def everyone(self) -> tuple[str, ...]:
        """Voters and learners."""
        return self.voters + self.learners


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks for a vote. A voter grants it only if the candidate's log is not behind its own.

    Attributes:
        term: Term that the candidate wants to lead; with `is_pre`, it has not begun it yet.
        last_term: Term of the last byte of its log, which is compared first.
        end: End of its log, as an offset.
        is_pre: Whether it only asks if an election would succeed (Raft thesis, 9.6).
        is_forced: Whether the leader handed over, so that having heard it recently is no reason to refuse.
    """

    sender: str
    term: int
    last_term: int
    end: int
    is_pre: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    """The answer to a `VoteRequest`.

    Attributes:
        term: If granted, the term of the request, otherwise the voter's.
        is_sure: False if the voter may have lost records that it acknowledged; its vote counts only if all are granted.
    """

    sender: str
    term: int
    is_pre: bool
    is_granted: bool
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Append:
    """A leader sends a part of its log, or only a heartbeat if `begin` is `end`.

    Attributes:
        term: Term of the leader.
        stamp: The leader's clock in ms when it sent this; the answer returns it, which extends the leader's lease.
        begin: Offset of the part's first byte, which is the first of a record.
        end: Offset at which it ends.
        before: Term of the byte before `begin`. A follower's log with another term there differs from the leader's.
        commit: The leader's commit offset.
        seen_run: The receiver's run that has answered the leader; 0 if none has.
        terms: The terms of the part's bytes, as `History.between` returns them.
        memberships: The memberships of the part's bytes, in the same form.
        content: The part's bytes; the machine does not look at them.
    """

    sender: str
    term: int
    stamp: int
    begin: int
    end: int
    before: int
    commit: int
    seen_run: int
    terms: tuple[Row[int], ...] = ()
    memberships: tuple[Row[Membership], ...] = ()
    content: object = None


@dataclass(frozen=True, slots=True)
class Restart:
    """A leader's notice that its log no longer has the bytes which the follower needs next.

    Attributes:
        term: Term of the leader.
        stamp: The leader's clock in ms, as in an `Append`.
        begin: Offset at which the leader's log starts; the follower restarts its log there, empty.
        terms: The leader's terms up to there.
        memberships: Its memberships up to there.
    """

    sender: str
    term: int
    stamp: int
    begin: int
    terms: tuple[Row[int], ...]
    memberships: tuple[Row[Membership], ...]


@dataclass(frozen=True, slots=True)
class AppendAnswer:
    """The answer to an `Append` or a `Restart`.

    Attributes:
        term: Term of the follower; a higher one ends the leader's.
        stamp: That of the request, 0 if its term was over; if sent because records became stable, the latest received.
        is_matching: Whether the part fitted the follower's log.
        matched: Offset up to which the follower's log is known to equal the leader's.
        stable: Offset up to which it is also stored as safely as an acknowledgement requires.
        run: Number of the follower's run. The leader ignores answers of an earlier run, because records that it
            acknowledged may be lost.
        end: If it did not match, the end of the follower's log.
        terms: If it did not match, the last terms of the follower's log before the part.
        is_sure: False if the follower may lack records that it acknowledged, so that its vote would hardly count.
    """

    sender: str
    term: int
    stamp: int
    is_matching: bool
    matched: int
    stable: int
    run: int
    end: int = 0
    terms: tuple[Row[int], ...] = ()
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A leader that has stepped down asks a follower with its whole log to stand for election at once.

    Attributes:
        term: The term that the leader led; the request is void in any other.
    """

    sender: str
    term: int


Message = VoteRequest | VoteAnswer | Append | AppendAnswer | Restart | TakeOver
