"""One member of a group: it follows, stands for election or leads. A state machine without I/O, clock or randomness.

It is Raft (Ongaro's thesis) with pre-votes, a leader's lease and changes of one member at a time. Its log index is the
byte offset in the commit log, so that the log stays an ordinary RocketMQ store. The caller steps the machine with
messages and times, and then executes the requests that `ready` returns, in the order of the fields of `Ready`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.followers import Followers
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.messages import (
    Append,
    AppendAnswer,
    Membership,
    Message,
    Restart,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from cometmq.replication.group.timing import GroupTiming

# Rows of terms in an answer that did not match. If the logs part earlier, the next answer has the rows before.
_TERMS_MAX = 256


class RaftRole(Enum):
    """Role of a member in its term; ASKING: pre-vote, which finds out whether an election would succeed."""

    FOLLOWER = auto()
    ASKING = auto()  # Asks if an election would succeed.
    CANDIDATE = auto()
    LEADER = auto()


class NotAllowed(Exception):
    """A member cannot fulfil a request of its caller now; the text has the reason."""


class HardState(NamedTuple):
    """State that a member must not forget: it is flushed before any message that depends on it.

    Attributes:
        term: Latest term that it knows.
        voted_for: Id of the member that it voted for in this term; empty if none.
        run: Number of times that it was started.
        is_sure: False after a crash of the machine that may have removed acknowledged bytes, until it has all committed
            ones again or leads.
    """

    term: int = 0
    voted_for: str = ""
    run: int = 0
    is_sure: bool = True


class Write(NamedTuple):
    """Bytes to append to the log.

    Attributes:
        offset: Physical offset to write them to: the end of the log.
        skip: Number of bytes at the part's start that the log already has.
        part: The leader's part that contains the bytes.
    """

    offset: int
    skip: int
    part: Append


@dataclass(slots=True)
class Ready:
    """Actions for the caller, in this order.

    Attributes:
        hard: State to flush; None if it has not changed.
        truncate_to: Offset to truncate the log to, and flush it; None to keep it.
        restart_at: Offset at which the log begins anew after it was emptied; None to keep it.
        has_new_rows: Whether to flush the terms and memberships of `RaftMember.log`.
        writes: Bytes to append to the log. Once they are stable, call `RaftMember.stored`.
        record: Term and membership to append to the leader's log as a record of the group's own; then call
            `RaftMember.appended`. None if there is nothing to record.
        messages: (receiver, message) pairs to send.
    """

    hard: HardState | None = None
    truncate_to: int | None = None
    restart_at: int | None = None
    has_new_rows: bool = False
    writes: list[Write] = field(default_factory=list)
    record: tuple[int, Membership] | None = None
    messages: list[tuple[str, Message]] = field(default_factory=list)


class RaftMember:
    """A member of a group.

    Args:
        own: Its id.
        log: Its log as it is stored.
        hard: Its state as it was stored, with a `run` that is larger than ever before.
        timing: Periods and sizes, which all members share.
        is_flushed: Whether bytes of the log are stable only when they are flushed; if not, they are when they are written.
        rate: The limits for the bytes that this member, as leader, sends to each other one per second.
        cut: Returns where a part of the log ends; see `Followers`.
        chance: Returns a random number from 0 to 1.
        now: Time in ms, by a clock that goes on while the machine or this process is suspended.

    Attributes:
        role: Its role in the term.
        leader: Id of the leader of its term; empty if unknown.
        log: Its log.
        hard: Its state that survives a crash, maybe not flushed yet.
    """

    def __init__(
        self,
        own: str,
        log: GroupLog,
        hard: HardState,
        *,
        timing: GroupTiming,
        is_flushed: bool,
        rate: FarSlaveRate,
        cut: Callable[[int, int], int],
        chance: Callable[[], float],
        now: int,
    ) -> None:
        self.own = own
        self.log = log
        self.hard = hard
        self.role = RaftRole.FOLLOWER
        self.leader = ""
        self._timing = timing
        self._is_flushed = is_flushed
        self._rate = rate
        self._cut = cut
        self._chance = chance
        self._ready = Ready(hard=hard)
        # It may have heard a leader before it was started, unless there has been none.
        self._heard_at = now if hard.term else None
        self._led_since = 0
        self._elect_at = self._next_election(now) if hard.term else self._soon(now)
        self._beat_at = 0
        self._last_stamp = 0  # Of the leader's latest part.
        self._matched = 0  # Offset up to which the log is known to be the leader's.
        self._votes: dict[str, bool] = {}  # Who granted, and whether the vote is sure.
        self._followers = self._new_followers()
        self._successor = ""

    # Read by the caller.

    @property
    def term(self) -> int:
        """The latest term that this member knows."""
        return self.hard.term

    @property
    def has_begun(self) -> bool:
        """True if this member leads and has committed a record of its term, so that it knows the log's committed end."""
        return self.role is RaftRole.LEADER and self._has_committed_own

    @property
    def may_append(self) -> bool:
        """Whether the caller may append records: this member leads, does not hand over, and `ready` has no `record`."""
        return self.role is RaftRole.LEADER and not self._successor and not self._ready.record

    def may_answer(self, now: int) -> bool:
        """Return whether this member may acknowledge committed records: it `has_begun`, and holds the leader's lease.

        During the lease no other leader can be elected. Call it after everything that an acknowledgement waits for,
        flushes included, with the time of that moment.
        """
        return self.has_begun and now < self._followers.lease_until(now)

    def lease_left(self, now: int) -> int:
        """Return for how many ms this member may still acknowledge records if no other member answers it; 0: it may not."""
        return max(self._followers.lease_until(now) - now, 0) if self.has_begun else 0

    def acknowledged_by(self, other: str) -> int | None:
        """Return the offset up to which another member has acknowledged this leader's log; None without an answer in its term."""
        progress = self._followers[other]
        return None if progress.echoed_stamp is None else progress.stable

    def lag_of(self, other: str) -> int:
        """Return the number of bytes of this leader's log that another member has not acknowledged."""
        return self.log.end - self._followers[other].stable

    def hears(self, other: str, now: int) -> bool:
        """Return whether another member has answered a beat that this leader sent within the last `election_ms`."""
        return self._followers.hears(other, now)

    def is_sure_of(self, other: str) -> bool:
        """Return whether another member has reported that it still has everything that it acknowledged."""
        return self._followers[other].is_sure

    @property
    def is_settled(self) -> bool:
        """Whether the last change of members is committed."""
        return self.log.memberships.start_of_last() < max(self.log.commit, 1)

    def wake_at(self) -> int:
        """Return the time (ms) at which `tick` must be called next."""
        if self.role is not RaftRole.LEADER:
            return self._elect_at
        return min(self._beat_at, self._followers.send_at() or self._beat_at)

    def ready(self) -> Ready:
        """Return the actions since the last call. The caller does them before it reports another event."""
        ready, self._ready = self._ready, Ready()
        return ready

    # Events.

    def tick(self, now: int) -> None:
        """Do what is due: as leader, send heartbeats or step down without a quorum; otherwise ask for an election."""
        if self.role is RaftRole.LEADER:
            if not self._followers.has_quorum(now, self._led_since):
                self._follow(self.term, "", now)
            elif now >= self._beat_at:
                self._beat(now)
            else:
                self._send_parts(now)
        elif now >= self._elect_at:
            self._ask(now)

    def leader_is_gone(self, now: int) -> None:
        """Ask for an election soon, if this is a follower: the leader's process has ended, as its port refuses connections."""
        if self.role is RaftRole.FOLLOWER and self.leader:
            self.leader = ""
            self._heard_at = None
            self._elect_at = self._soon(now)

    def step(self, message: Message, now: int) -> None:
        """Handle a message of another member; `ready` has the answers."""
        match message:
            case VoteRequest():
                self._vote(message, now)
            case VoteAnswer():
                self._take_vote(message, now)
            case Append() | Restart():
                self._take_part(message, now)
            case AppendAnswer():
                self._take_answer(message, now)
            case TakeOver():
                if message.term == self.term and self.role is RaftRole.FOLLOWER:
                    self._stand(now, is_forced=True)

    def appended(self, end: int, now: int) -> None:
        """Note that this leader's log ends at `end` now, as records were appended; prepare parts for the others."""
        assert self.role is RaftRole.LEADER
        assert end >= self.log.end
        self.log.end = end
        self._send_parts(now)

    def stored(self, end: int, generation: int, now: int) -> None:
        """Note that the log is stable up to `end`; a leader may then commit, a follower acknowledges.

        `generation` is that of the log when the flush began; without effect if the log has another one now.
        """
        if generation != self.log.generation or end <= self.log.stable:
            return
        assert end <= self.log.end
        self.log.stable = end
        if self.role is RaftRole.LEADER:
            self._commit(now)
        elif self.leader:
            self._answer(self.leader, is_matching=True)

    def hand_over(self, to: str, now: int) -> None:
        """Hand the lead over to another voter, once it has the whole log. Until then nothing may be appended.

        Raises:
            NotAllowed: This member does not lead, or `to` is not another voter.
        """
        if self.role is not RaftRole.LEADER:
            raise NotAllowed(f"{self.own} is not the leader, {self.leader or 'nobody'} is")
        if to == self.own or to not in self.log.membership.voters:
            raise NotAllowed(
                f"{to} cannot lead, the other voters are "
                f"{', '.join(each for each in self.log.membership.voters if each != self.own)}"
            )
        self._successor = to
        self._hand_over_if_ready(now)

    def stay(self) -> None:
        """Give up handing over, for example because it takes too long."""
        self._successor = ""

    def change(self, membership: Membership) -> None:
        """Change the members; this applies at once, and `ready` has the record of it to append.

        Raises:
            NotAllowed: This member does not lead or hands over, its first record or the last change is not committed,
                more than one voter changes, or none is left.
        """
        if not self.has_begun or not self.may_append:
            raise NotAllowed(f"{self.own} does not lead the group, or not long enough")
        if not self.is_settled:
            raise NotAllowed("the last change of members is not committed yet; try again")
        if len(set(membership.voters) ^ set(self.log.membership.voters)) > 1:
            raise NotAllowed("members change one at a time")
        if not membership.voters:
            raise NotAllowed("the last voter cannot leave")
        self._write_record(membership)

    # Elections.

    def _next_election(self, now: int) -> int:
        spread = int(self._chance() * self._timing.election_spread_ms)
        return now + self._timing.election_ms + spread

    def _soon(self, now: int) -> int:
        return now + int(self._chance() * self._timing.beat_ms)

    def _ask(self, now: int) -> None:
        """Ask the other voters if an election would succeed, if this member may stand for one; soon again without answers.

        The link to a voter that was just started may not be open yet.
        """
        self._elect_at = self._soon(now) + 2 * self._timing.beat_ms
        if not self.log.may_stand(self.own):
            return
        self.role, self.leader, self._heard_at = RaftRole.ASKING, "", None
        self._campaign(VoteRequest(self.own, self.term + 1, *self._position, is_pre=True), now)

    def _stand(self, now: int, *, is_forced: bool) -> None:
        """Begin a term as its candidate and ask the other voters for their votes."""
        self._elect_at = self._next_election(now)
        self.role, self.leader, self._heard_at = RaftRole.CANDIDATE, "", None
        self._keep(self.hard._replace(term=self.term + 1, voted_for=self.own))
        self._campaign(
            VoteRequest(self.own, self.term, *self._position, is_forced=is_forced), now
        )

    @property
    def _position(self) -> tuple[int, int]:
        return self.log.last_term, self.log.end

    def _campaign(self, request: VoteRequest, now: int) -> None:
        self._votes = {self.own: self.hard.is_sure}
        for each in self.log.membership.voters:
            if each != self.own:
                self._send(each, request)
        self._count(now)

    def _vote(self, request: VoteRequest, now: int) -> None:
        # Once a later term has had a leader, that of this one holds no lease any more.
        is_bound = request.last_term <= self.term and self._hears_leader(now)
        if is_bound and not request.is_forced:
            self._send(request.sender, self._refusal(request))
            return
        if request.term > self.term and not request.is_pre:
            self._follow(request.term, "", now)
        is_free = request.is_pre or self.hard.voted_for in ("", request.sender)
        is_granted = (
            request.term >= self.term + request.is_pre
            and is_free
            and self.role is not RaftRole.LEADER
            and self.log.is_covered_by(request.last_term, request.end)
        )
        if not is_granted:
            self._send(request.sender, self._refusal(request))
            return
        if request.is_pre:
            self._give_way(request.sender, now)
        else:
            self._keep(self.hard._replace(voted_for=request.sender))
            self._elect_at = self._next_election(now)
        answer = VoteAnswer(
            self.own, request.term, request.is_pre, is_granted=True, is_sure=self.hard.is_sure
        )
        self._send(request.sender, answer)

    def _give_way(self, other: str, now: int) -> None:
        """Ask for no election while another member may win one; of two that ask, the one with the larger id waits."""
        if self.role is RaftRole.ASKING and other < self.own:
            self.role = RaftRole.FOLLOWER
        if self.role is RaftRole.FOLLOWER:
            self._elect_at = max(self._elect_at, self._soon(now) + 2 * self._timing.beat_ms)

    def _hears_leader(self, now: int) -> bool:
        if self.role is RaftRole.LEADER:
            return self._followers.has_quorum(now, self._led_since)
        return self._heard_at is not None and now < self._heard_at + self._timing.election_ms

    def _refusal(self, request: VoteRequest) -> VoteAnswer:
        return VoteAnswer(
            self.own, self.term, request.is_pre, is_granted=False, is_sure=self.hard.is_sure
        )

    def _take_vote(self, answer: VoteAnswer, now: int) -> None:
        if not answer.is_granted:
            if answer.term > self.term:
                self._follow(answer.term, "", now)
            elif answer.is_pre and self.role is RaftRole.ASKING:
                # The voter may only have heard the leader a little later.
                again = self._soon(now) + self._timing.beat_ms
                self._elect_at = min(self._elect_at, again)
            return
        asked = {
            RaftRole.ASKING: (True, self.term + 1),
            RaftRole.CANDIDATE: (False, self.term),
        }
        if asked.get(self.role) == (answer.is_pre, answer.term):
            self._votes[answer.sender] = answer.is_sure
            self._count(now)

    def _count(self, now: int) -> None:
        """Stand for election, or lead, if enough voters have granted: a majority that is sure of its logs, or all."""
        voters = self.log.membership.voters
        sure = sum(self._votes.get(each, False) for each in voters)
        if sure < self.log.membership.majority and not self._votes.keys() >= set(voters):
            return
        if self.role is RaftRole.ASKING:
            self._stand(now, is_forced=False)
        else:
            self._lead(now)

    # Leading.

    def _lead(self, now: int) -> None:
        self.role, self.leader = RaftRole.LEADER, self.own
        self._led_since = now
        self._successor = ""
        self._followers = self._new_followers()
        self._matched = self.log.end
        if not self.hard.is_sure:
            self._keep(self.hard._replace(is_sure=True))
        self.log.terms.add(self.log.end, self.term)
        self._write_record(self.log.membership)
        self._beat(now)

    def _new_followers(self) -> Followers:
        return Followers(self.own, self.term, self.log, self._timing, self._rate, self._cut)

    def _write_record(self, membership: Membership) -> None:
        self.log.memberships.add(self.log.end, membership)
        self._ready.has_new_rows = True
        self._ready.record = self.term, membership

    def _beat(self, now: int) -> None:
        self._beat_at = now + self._timing.beat_ms
        self._followers.set_paces(now)
        for each in self._followers.others:
            self._send_to(each, now, is_beat=True)

    def _send_parts(self, now: int) -> None:
        for each in self._followers.others:
            self._send_to(each, now, is_beat=False)

    def _send_to(self, member: str, now: int, *, is_beat: bool) -> None:
        for part in self._followers.parts(member, now, is_beat=is_beat):
            self._send(member, part)

    def _take_answer(self, answer: AppendAnswer, now: int) -> None:
        if answer.term > self.term:
            self._follow(answer.term, "", now)
        if self.role is not RaftRole.LEADER or answer.term != self.term or not answer.stamp:
            return
        self._followers.answered(answer)
        self._commit(now)
        if self.role is RaftRole.LEADER:
            self._send_to(answer.sender, now, is_beat=not answer.is_matching)
            self._hand_over_if_ready(now)

    def _commit(self, now: int) -> None:
        end = self._followers.committed()
        if end <= self.log.commit:
            return
        self.log.commit = end
        if self.own not in self.log.membership.voters and self.is_settled:
            self._beat(now)  # The others learn that they are committed.
            self._follow(self.term, "", now)

    @property
    def _has_committed_own(self) -> bool:
        return self.log.terms.before(self.log.commit) == self.term

    def _hand_over_if_ready(self, now: int) -> None:
        to = self._successor
        if to and self.has_begun and self._followers[to].stable == self.log.end:
            # From here on its lease is worth nothing, as voters do not wait for it. So it never leads in this term again.
            self._follow(self.term, "", now)
            self._heard_at = None
            self._send(to, TakeOver(self.own, self.term))

    # Following.

    def _follow(self, term: int, leader: str, now: int) -> None:
        if self.role is RaftRole.LEADER or leader != self.leader or term != self.term:
            self._matched = self.log.commit
            self._last_stamp = 0
        if self.role is not RaftRole.FOLLOWER:
            self._elect_at = self._next_election(now)
        if self.role is RaftRole.LEADER:
            self.log.forget_unwritten()
            self._ready.has_new_rows, self._ready.record = True, None
        if term > self.term:
            self._keep(self.hard._replace(term=term, voted_for=""))
        self.role, self.leader = RaftRole.FOLLOWER, leader
        self._successor = ""

    def _take_part(self, part: Append | Restart, now: int) -> None:
        if part.term < self.term:
            self._answer(part.sender, is_matching=False, stamp=0)
            return
        assert self.role is not RaftRole.LEADER or part.term > self.term, (
            "two leaders of one term"
        )
        self._follow(part.term, part.sender, now)
        self._heard_at = now
        self._elect_at = self._next_election(now)
        self._last_stamp = max(self._last_stamp, part.stamp)
        if isinstance(part, Restart):
            self._restart(part)
        elif not self.log.matches(part):
            self._answer(part.sender, is_matching=False, stamp=part.stamp, before=part.begin)
            return
        else:
            self._accept(part)
        self._answer(part.sender, is_matching=True, stamp=part.stamp)

    def _accept(self, part: Append) -> None:
        log = self.log
        start = log.difference(part)
        if start < part.end:
            if start < log.end:
                assert not self._ready.writes, "the caller has not taken what is ready"
                log.truncate(start)
                self._drop_parts()
                self._ready.has_new_rows = True
                self._ready.truncate_to = start
                self._matched = min(self._matched, start)
            self._ready.writes.append(Write(start, start - part.begin, part))
            self._ready.has_new_rows |= log.extend(part)
            if not self._is_flushed:  # The answer is sent after the write.
                log.stable = log.end
        self._matched = max(self._matched, part.end)
        log.commit = max(log.commit, min(part.commit, self._matched))
        has_committed = part.commit > 0 and log.terms.before(log.commit) == part.term
        if (
            not self.hard.is_sure
            and has_committed
            and self._matched >= part.commit
            and part.seen_run == self.hard.run
        ):
            self._keep(self.hard._replace(is_sure=True))

    def _drop_parts(self) -> None:
        """Send no part that was prepared before this member lost the lead: its bytes would be read from the changed log."""
        self._ready.messages = [
            each for each in self._ready.messages if not isinstance(each[1], Append)
        ]

    def _restart(self, part: Restart) -> None:
        if part.begin <= self.log.commit:
            return
        self.log.restart(part.begin, part.terms, part.memberships)
        self._matched = part.begin
        self._ready.restart_at = part.begin
        self._ready.has_new_rows = True

    def _answer(
        self, to: str, *, is_matching: bool, stamp: int | None = None, before: int = 0
    ) -> None:
        answer = AppendAnswer(
            self.own, self.term, self._last_stamp if stamp is None else stamp, is_matching,
            self._matched, min(self._matched, self.log.stable), self.hard.run, is_sure=self.hard.is_sure,
        )  # fmt: skip
        if not is_matching and stamp:
            rows = tuple(row for row in self.log.terms.rows if row.start < before)[-_TERMS_MAX:]
            answer = replace(answer, end=self.log.end, terms=rows)
        self._send(to, answer)

    def _keep(self, hard: HardState) -> None:
        self.hard = self._ready.hard = hard

    def _send(self, to: str, message: Message) -> None:
        self._ready.messages.append((to, message))
