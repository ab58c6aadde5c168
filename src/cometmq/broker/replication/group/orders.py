"""Requests to a group's leader, by operators, preferredLeaderId or a full disk: to hand over, or to change members.

| request | steps |
| --- | --- |
| another leader | accept no messages; wait until the successor has the whole log; follow; let it start an election; wait for a leader |
| a new member | add it as a learner, which only copies the log; once it has caught up, the leader of that time lets it vote |
| removal | remove the member |

Each change of members is a record in the log, which applies when it is appended; the next one waits until a majority has it.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from cometmq.broker.replication.group.running_member import RunningMember
from cometmq.broker.settings.group_keys import split_peer
from cometmq.codec.headers.replication import GroupMembers
from cometmq.model.address import join_address
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.text import as_given
from cometmq.replication.group.changes import (
    with_learner,
    with_places,
    with_vote,
    without,
)
from cometmq.replication.group.member import NotAllowed, RaftMember, RaftRole
from cometmq.replication.group.messages import MemberPlace, Membership
from cometmq.steps.runner import StepsRun, World
from cometmq.steps.steps import Done, Steps, called_back

_log = logging.getLogger(__name__)

# Maximum number of bytes of the log that a member may lack if it is to lead or to vote.
LAG_MAX = 1 << 20
# Maximum time in which a leader accepts no messages while its successor copies the rest of the log.
_COPY_SECONDS = 1.0
# Maximum time that a request waits for members that do not answer yet: the leader or they may have just been started.
_ANSWER_SECONDS = 1.0
_ELECTION_SECONDS = 10.0
_COMMIT_SECONDS = 5.0
# Maximum time that the answer to `add` waits until the new member votes.
_VOTE_SECONDS = 10.0
# Time that a leader must have served before it hands over to a better leader; also the pause between attempts.
_PREFER_MS = 10_000
# Pause between attempts to let a learner vote.
_LET_VOTE_MS = 200


class GroupOrders:
    """Handles requests to change the leader or the members of a group, one at a time."""

    def __init__(
        self,
        running: RunningMember,
        world: World,
        *,
        places: Callable[[], tuple[MemberPlace, ...]],
        error_of: Callable[[str], str | None],
    ) -> None:
        """`places` returns the addresses and ids of all members; `error_of` returns why one is not connected, or None."""
        self._running = running
        self._member = running.member
        self._world = world
        self._places = places
        self._error_of = error_of
        self._is_busy = False
        self._awaited: tuple[Callable[[], bool], Done] | None = None
        self._let_vote_at = self._preferred_at = 0  # Time of the last attempt, ms.

    # --- requests

    def transfer(self, to: str) -> Steps[GroupMembers]:
        """Hand the lead over to another member; return the group; its leader may still be this member, or a third one.

        Raises:
            RequestError: This member does not lead, or is handling another request; the other one is unknown, does not
                answer, lacks more than 1 MiB or does not get the rest within 1 s; or no member leads after 10 s.
        """
        return (yield from self._alone(lambda: self._transfer(to)))

    def add(self, text: str) -> Steps[GroupMembers]:
        """Add a member, `ID-HOST:PORT`, as a learner; it votes once it has caught up, for which this waits up to 10 s.

        Raises:
            RequestError: The text is malformed, the member already belongs to the group, another change is not complete, or this
                member does not lead; or a majority did not get the change in time, so that it may be undone.
        """
        try:
            member, address = split_peer(text)
        except ValueError as error:
            raise invalid_parameter(
                f"{as_given(text, 80)} is not ID-HOST:PORT: {error}"
            ) from None
        return (yield from self._alone(lambda: self._add(member, join_address(*address))))

    def remove(self, member: str) -> Steps[GroupMembers]:
        """Remove a member; if it is this one, it leads until the change is committed.

        Raises:
            RequestError: There is no such member, the others would have no majority that answers, another change is not
                complete, or this member does not lead; or a majority did not get the change in time.
        """
        return (yield from self._alone(lambda: self._remove(member)))

    def _alone(self, make: Callable[[], Steps[GroupMembers]]) -> Steps[GroupMembers]:
        """Handle a request to its end, even if the client goes away; refuse it during another one."""
        if self._is_busy:
            raise _refused(
                "another change of the leader or of the members is in progress; wait for it"
            )
        self._check_leads()

        def begin(done: Done) -> None:
            def ended(result: GroupMembers | None, error: BaseException | None) -> None:
                self._is_busy = False
                done(result, error)

            self._is_busy = True
            StepsRun(self._world, make(), ended).go_on()

        members: GroupMembers = yield from called_back(begin)
        return members

    def _check_leads(self) -> None:
        running, own, leader = self._running, self._member.own, self._member.leader
        if running.is_serving and running.accepts_puts:
            return
        remark = f"member {own} does not lead its group; {leader or 'no member'} does"
        if leader == own:
            remark = f"member {own} has just begun to lead its group, or is changing; try again in a second"
        raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _members(self) -> GroupMembers:
        member, membership, waits_for = self._member, self._member.log.membership, None
        if membership.learners:
            learner = membership.learners[0]
            trouble = self._trouble_of(learner) if self._leads(member.term) else None
            waits_for = f"{learner} {trouble or 'is about to vote'}"
        return GroupMembers(member.leader, member.term, ",".join(membership.voters), waits_for)

    # --- another leader

    def _transfer(self, to: str) -> Steps[GroupMembers]:
        running, member = self._running, self._member
        if to == member.own:
            return self._members()
        if to not in member.log.membership.voters:
            raise invalid_parameter(
                f"{as_given(to, 80)} cannot lead; the members that vote are {', '.join(member.log.membership.voters)}"
            )
        yield from self._wait_for_answers((to,))
        term, trouble = member.term, self._trouble_of(to)
        if trouble:
            raise _refused(f"{to} {trouble}; {member.own} still leads")
        _log.info("member %s is asked to lead", to)
        running.pause_puts()
        yield from self._until(
            lambda: not self._leads(term) or self._has_all(to), _COPY_SECONDS
        )
        if self._leads(term) and self._has_all(to):
            # A member that fails drops its events.
            with suppress(TimeoutError):
                yield from called_back(
                    lambda done: self._put_hand_over(to, term, done), _COPY_SECONDS
                )
        if self._leads(term):
            member.stay()
            running.accept_puts(term)
            raise _refused(
                f"{to} did not copy the rest of the log in time; {member.own} still leads"
            )
        if not (
            yield from self._until(
                lambda: member.term > term and member.leader != "", _ELECTION_SECONDS
            )
        ):
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"{member.own} handed over to {to}, but no member leads yet; cometmq cluster replicas shows them",
            )
        return self._members()

    def _leads(self, term: int) -> bool:
        return (
            not self._running.has_ended
            and self._member.role is RaftRole.LEADER
            and self._member.term == term
        )

    def _has_all(self, to: str) -> bool:
        return self._running.has_published() and not self._member.lag_of(to)

    def _put_hand_over(self, to: str, term: int, done: Done) -> None:
        def hand_over(member: RaftMember, now: int) -> None:
            is_asked = not self._running.accepts_puts  # The time is not over yet.
            if is_asked and self._leads(term) and self._has_all(to):
                member.hand_over(to, now)
            done(None, None)

        self._running.put(hand_over)

    def _trouble_of(self, other: str) -> str | None:
        """Return why a member cannot lead or vote now; None if it can."""
        why = self._why_silent(other)
        if why is not None:
            return f"does not answer: {why}"
        lag = self._member.lag_of(other)
        return f"lacks {lag} bytes of the log" if lag > LAG_MAX else None

    def _why_silent(self, other: str) -> str | None:
        """Return why a member does not answer, or None. A member whose process died loses its connection at once."""
        why = self._error_of(other)
        if why is None and not self._member.hears(other, self._running.now()):
            why = "it is connected, but silent"
        return why

    def _wait_for_answers(self, voters: tuple[str, ...]) -> Steps[None]:
        """Wait a moment for members of which not all answer; raise RequestError if this one lost the lead meanwhile."""
        others = [each for each in voters if each != self._member.own]

        def have_all_answered() -> bool:
            return all(self._why_silent(each) is None for each in others)

        if not have_all_answered():
            term = self._member.term
            yield from self._until(
                lambda: not self._leads(term) or have_all_answered(), _ANSWER_SECONDS
            )
            self._check_leads()

    # --- changes of members

    def _add(self, member: str, address: str) -> Steps[GroupMembers]:
        term = self._member.term
        yield from self._change(lambda old: with_learner(old, member, address))
        yield from self._until(
            lambda: not self._leads(term) or not self._is_learner(member), _VOTE_SECONDS
        )
        return self._members()

    def _is_learner(self, member: str) -> bool:
        return member in self._member.log.membership.learners or not self._member.is_settled

    def _remove(self, gone: str) -> Steps[GroupMembers]:
        voters, own = self._member.log.membership.voters, self._member.own
        yield from self._wait_for_answers(tuple(each for each in voters if each != gone))
        answering = {each for each in voters if each == own or self._why_silent(each) is None}
        yield from self._change(lambda old: without(old, gone, answering))
        return self._members()

    def _change(self, make: Callable[[Membership], Membership]) -> Steps[None]:
        """Change the members, and wait until the change is committed."""
        term, log, is_committed = self._member.term, self._member.log, False
        # A member that fails drops its events.
        with suppress(TimeoutError):
            yield from called_back(lambda done: self._put_change(make, done), _COMMIT_SECONDS)
            start = log.memberships.start_of_last()
            yield from self._until(
                lambda: log.commit > start or not self._leads(term), _COMMIT_SECONDS
            )
            is_committed = log.commit > start
        if not is_committed:
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "no majority of the members got the change in time, so it may be made or not; cometmq cluster replicas "
                "shows the members",
            )
        _log.warning(
            "the members of the group are now %s",
            ", ".join(self._member.log.membership.everyone),
        )

    def _put_change(self, make: Callable[[Membership], Membership], done: Done) -> None:
        def change(member: RaftMember, _now: int) -> None:
            try:
                old = with_places(member.log.membership, self._places())
                self._running.change_members(make(old))
            except NotAllowed as error:
                done(None, _refused(str(error)))
            else:
                done(None, None)

        self._running.put(change)

    # --- after each event

    def _until(self, is_met: Callable[[], bool], seconds: float) -> Steps[bool]:
        """Wait until a condition is met or this member has ended, for at most `seconds`; return whether it is met."""

        def begin(done: Done) -> None:
            self._awaited = is_met, done
            self.look()

        try:
            yield from called_back(begin, seconds)
        except TimeoutError:
            self._awaited = None
        return is_met()

    def look(self) -> None:
        """Go on with the requests that wait, let a learner vote, and hand over to a better leader; called after each event."""
        if self._awaited is not None:
            is_met, done = self._awaited
            if self._running.has_ended or is_met():
                self._awaited = None
                done(None, None)
        if self._running.is_serving and self._running.accepts_puts:
            membership = self._member.log.membership
            better = self._better_leader(membership.voters)
            if better is not None:
                self._prefer(better, self._running.now())
            if membership.learners:
                self._let_vote(membership.learners[0], self._running.now())

    def _let_vote(self, learner: str, now: int) -> None:
        """Let a learner vote if it has caught up and the last change of members is committed."""
        if now < self._let_vote_at + _LET_VOTE_MS or not self._member.is_settled:
            return
        # The vote of a member that is not sure of its log would only count together with the votes of all others.
        if self._trouble_of(learner) is None and self._member.is_sure_of(learner):
            self._let_vote_at = now
            self._put_change(lambda old: with_vote(old, learner), _ignore)

    def _better_leader(self, voters: tuple[str, ...]) -> str | None:
        """Return the preferred leader or, while the disk of this leader takes nothing, the follower with the most of the log."""
        if not self._running.refuses_for_its_disk:
            preferred = self._running.place.preferred
            return preferred if preferred in voters and preferred != self._member.own else None
        able = [
            each
            for each in voters
            if each != self._member.own and self._trouble_of(each) is None
        ]
        return min(able, key=self._member.lag_of, default=None)

    def _prefer(self, to: str, now: int) -> None:
        """Hand the lead to a better leader after serving for 10 s, if it has caught up; try again after 10 s."""
        if (
            self._is_busy
            or now < max(self._running.serving_since, self._preferred_at) + _PREFER_MS
        ):
            return
        if self._trouble_of(to) is None:
            self._preferred_at = now
            StepsRun(self._world, self.transfer(to), _note_failure).go_on()


def _note_failure(_members: GroupMembers | None, error: BaseException | None) -> None:
    if error is not None:
        _log.warning("a better leader does not lead: %s", error)


def _ignore(_result: object, _error: BaseException | None) -> None:
    """Do nothing: the present leader tries again."""


def _refused(why: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"nothing was changed: {why}")
