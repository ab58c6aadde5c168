"""A leader's view of the other members: their logs, the next parts to send, the commit offset and the lease."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from cometmq.replication.far_slave_rate import FAR_SIZE, FarSlaveRate
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.history import History, shared_end
from cometmq.replication.group.messages import Append, AppendAnswer, Membership, Restart
from cometmq.replication.group.timing import GroupTiming
from cometmq.replication.pace import Pace, limited

# After this time bytes that were being read are asked for again.
_READ_SECONDS = 0.005
# Term that no log has: the value before the first row of a shortened history.
_NEVER = -1


@dataclass(slots=True)
class FollowerProgress:
    """A leader's knowledge of a follower.

    Attributes:
        next: Offset of the next byte to send.
        matched: Offset up to which its log is known to equal the leader's.
        stable: Offset up to which it has acknowledged the log.
        is_probing: Whether it is unknown up to where the two logs are equal, so that only empty parts are sent.
        sent_stamp: Stamp of the last part that was sent with bytes.
        run: Largest run number (number of starts) in its answers; 0 without any.
        is_sure: Whether it has reported that it still has everything that it acknowledged.
        echoed_stamp: Largest stamp that it has returned; None if it has not answered.
        pace: Limits when it may be sent more of the log; None for no limit.
        send_at: Time (ms) from which on the pace allows the next part; None if it does not wait for that.
    """

    next: int
    matched: int = 0
    stable: int = 0
    is_probing: bool = True
    sent_stamp: int = 0
    run: int = 0
    is_sure: bool = False
    echoed_stamp: int | None = None
    pace: Pace | None = None
    send_at: int | None = None


class Followers:
    """A leader's knowledge of the other members, from which it chooses what it sends to them next.

    Args:
        own: Id of the leader.
        term: Its term.
        log: Its log.
        timing: Periods and sizes.
        rate: The limits for the bytes that each member is sent per second.
        cut: Returns the end of the last whole record between two offsets, or of the first record if it is longer; the
            first offset while the bytes there are being read from the disk.
    """

    def __init__(
        self,
        own: str,
        term: int,
        log: GroupLog,
        timing: GroupTiming,
        rate: FarSlaveRate,
        cut: Callable[[int, int], int],
    ) -> None:
        self._own = own
        self._term = term
        self._log = log
        self._timing = timing
        self._rate = rate
        self._cut = cut
        self._all: dict[str, FollowerProgress] = {}

    def __getitem__(self, member: str) -> FollowerProgress:
        """Return the state of a member; a new one is probed first, from the log's present end back."""
        if member not in self._all:
            self._all[member] = FollowerProgress(next=self._log.end)
        return self._all[member]

    @property
    def others(self) -> tuple[str, ...]:
        """The other members, learners included, to which the leader sends its log."""
        return tuple(each for each in self._log.membership.everyone if each != self._own)

    def committed(self) -> int:
        """Return the offset up to which a majority has the log, if that includes a record of this term; otherwise 0.

        Records of earlier terms are committed only together with one of this term (Raft 5.4.2).
        """
        stable = [
            self._log.stable if each == self._own else self[each].stable
            for each in self._voters
        ]
        end = _majority_has(stable, self._membership)
        return end if self._log.terms.before(end) == self._term else 0

    def lease_until(self, now: int) -> int:
        """Return the time (ms) until which no other leader can be elected.

        That is `lease_ms` after the latest beat that a majority has answered.
        """
        return self._answered_at(now) + self._timing.lease_ms

    def has_quorum(self, now: int, since: int) -> bool:
        """Return whether a majority answered beats of the last `election_ms`; True for that long after `since`, too."""
        return max(self._answered_at(now), since) + self._timing.election_ms > now

    def _answered_at(self, now: int) -> int:
        stamps = [
            now if each == self._own else self[each].echoed_stamp for each in self._voters
        ]
        return _majority_has(
            [-(1 << 62) if each is None else each for each in stamps], self._membership
        )

    @property
    def _membership(self) -> Membership:
        return self._log.membership

    @property
    def _voters(self) -> tuple[str, ...]:
        return self._log.membership.voters

    def answered(self, answer: AppendAnswer) -> None:
        """Update the state of a member from its answer in this term; ignore answers of an earlier run."""
        progress = self[answer.sender]
        if answer.run < progress.run:
            return
        if answer.run > progress.run:
            progress.run, progress.stable = answer.run, 0
        progress.is_sure = answer.is_sure
        is_newest = progress.echoed_stamp is None or answer.stamp >= progress.echoed_stamp
        progress.echoed_stamp = max(answer.stamp, progress.echoed_stamp or 0)
        if not answer.is_matching:
            if is_newest:
                self._rewind(progress, answer)
            return
        progress.matched = max(progress.matched, answer.matched)
        progress.stable = max(progress.stable, answer.stable)
        if progress.is_probing:
            progress.is_probing, progress.next = False, progress.matched
        elif answer.stamp > progress.sent_stamp:
            # Parts that were sent before the answered beat and are missing got lost.
            progress.next = progress.matched
        progress.next = max(progress.next, progress.matched)

    def _rewind(self, progress: FollowerProgress, answer: AppendAnswer) -> None:
        theirs = History(_NEVER, answer.terms)
        point = shared_end(self._log.terms, theirs, min(self._log.end, answer.end))
        progress.next = progress.matched = point
        # A member that restarted without bytes which it had acknowledged does not have them now.
        progress.stable = min(progress.stable, point)
        progress.is_probing = True

    def set_paces(self, now: int) -> None:
        """Limit the rates of the members, so that one that is far behind leaves most of the leader to producers.

        Called with each beat.
        """
        self._rate.look(self._log.end, now / 1000)
        for each in self.others:
            progress = self[each]
            gap = self._log.end - progress.next
            rate = self._rate.rate(gap, is_awaited=self._is_awaited(each, now))
            progress.pace = limited(progress.pace, rate)

    def _is_awaited(self, member: str, now: int) -> bool:
        """Return whether producers wait for a member, because the others that keep up are no majority."""
        near = [each for each in self._voters if each != member and self._keeps_up(each, now)]
        return member in self._voters and len(near) < self._membership.majority

    def _keeps_up(self, member: str, now: int) -> bool:
        return member == self._own or (
            self.hears(member, now) and self._log.end - self[member].stable <= FAR_SIZE
        )

    def hears(self, member: str, now: int) -> bool:
        """Return whether a member has answered a beat that was sent within the last `election_ms`."""
        answered = self[member].echoed_stamp
        return answered is not None and now < answered + self._timing.election_ms

    def send_at(self) -> int | None:
        """Return the time (ms) from which on a part may be sent that waits for its pace; None if none waits."""
        times = (self[each].send_at for each in self.others)
        return min((at for at in times if at is not None), default=None)

    def parts(self, member: str, now: int, *, is_beat: bool) -> Iterator[Append | Restart]:
        """Yield the messages for a member: parts of the log up to its window, and for a beat at least an empty part.

        If the leader's log no longer has the next byte, the only message is a `Restart`, and only for a beat.
        """
        progress = self[member]
        progress.send_at = None
        if progress.next < self._log.begin:
            if is_beat:
                yield self._restart(now)
            return
        if not progress.is_probing:
            window_end = progress.matched + self._timing.window_size
            while progress.next < min(self._log.end, window_end):
                begin, progress.next = progress.next, self._end_of_next(progress, now)
                if progress.next == begin:
                    break
                progress.sent_stamp = now
                is_beat = False
                yield self._append(progress, begin, progress.next, now)
        if is_beat:
            is_kept = not progress.is_probing and progress.matched >= self._log.begin
            place = progress.matched if is_kept else progress.next
            yield self._append(progress, place, place, now)

    def _end_of_next(self, progress: FollowerProgress, now: int) -> int:
        """Return where the next part for a member ends; where it begins if nothing can be sent before `send_at`."""
        begin, pace = progress.next, progress.pace
        size = min(self._log.end - begin, self._timing.part_size)
        seconds = 0.0
        if pace is not None:
            size = min(size, pace.size_max)
            seconds = pace.wait(size, now / 1000)
        if not seconds:
            end = self._cut(begin, begin + size)
            if end > begin:
                if pace is not None:
                    pace.sent(end - begin, now / 1000)
                return end
            seconds = _READ_SECONDS
        progress.send_at = now + ceil(seconds * 1000)
        return begin

    def _append(self, progress: FollowerProgress, begin: int, end: int, now: int) -> Append:
        log = self._log
        return Append(
            self._own, self._term, now, begin, end, log.terms.before(begin), log.commit, progress.run,
            log.terms.between(begin, end), log.memberships.between(begin, end),
        )  # fmt: skip

    def _restart(self, now: int) -> Restart:
        log = self._log
        rows = log.terms.rows, log.memberships.rows
        terms, memberships = (tuple(row for row in of if row.start < log.begin) for of in rows)
        return Restart(self._own, self._term, now, log.begin, terms, memberships)  # type: ignore[arg-type]


def _majority_has(values: list[int], membership: Membership) -> int:
    """Return the largest value that a majority of voters has reached."""
    return sorted(values, reverse=True)[membership.majority - 1]
