"""The log of a member as its group sees it: offsets, terms and memberships, without its bytes."""

from bisect import bisect_right
from collections.abc import Iterable

from cometmq.replication.group.history import History, Row, Value, first_difference
from cometmq.replication.group.messages import Append, Membership


class GroupLog:
    """The offsets of a log, and the leaders' terms and the members of the group at each of them.

    Attributes:
        begin: Offset of the first byte.
        end: Offset at which the log ends.
        stable: Offset up to which it is stored as safely as an acknowledgement requires.
        commit: Offset up to which it is known to be committed: no later leader lacks it.
        generation: Number of truncations and restarts so far. A flush that began before the last one proves nothing.
        terms: Terms of the leaders that wrote the bytes; 0 before the first.
        memberships: Memberships. The last one applies, whether it is committed or not.
    """

    def __init__(
        self,
        begin: int,
        end: int,
        *,
        membership: Membership,
        terms: Iterable[Row[int]] = (),
        memberships: Iterable[Row[Membership]] = (),
    ) -> None:
        """Start from a stored log, all of it stable; drop rows from its end on, whose bytes a crash has removed."""
        self.begin = begin
        self.end = end
        self.stable = end
        self.commit = begin
        self.generation = 0
        self.terms = History(0, terms)
        self.memberships = History(membership, memberships)
        self.forget_unwritten()

    @property
    def last_term(self) -> int:
        """The term of the log's last byte."""
        return self.terms.before(self.end)

    @property
    def membership(self) -> Membership:
        """The membership that applies now: the last one, committed or not."""
        return self.memberships.last

    def may_stand(self, member: str) -> bool:
        """Return whether a member may stand for election: it is a voter, or it was until a change that may not be committed.

        A leader that removed itself may be the only one with the newest log, so that the others cannot elect anybody
        without it (Raft thesis, 4.2.2).
        """
        if member in self.membership.voters:
            return True
        start = self.memberships.start_of_last()
        return start >= self.commit and member in self.memberships.before(start).voters

    def is_covered_by(self, last_term: int, end: int) -> bool:
        """Return whether a log with this last term and end is at least as new; the term decides first (Raft 5.4.1)."""
        return (last_term, end) >= (self.last_term, self.end)

    def matches(self, append: Append) -> bool:
        """Return whether a leader's part starts within this log or at its end, after a byte of the same term.

        A part that starts with this log's first byte always matches.
        """
        if append.begin > self.end or append.begin < self.begin:
            return False
        return append.begin == self.begin or self.terms.before(append.begin) == append.before

    def difference(self, append: Append) -> int:
        """Return the offset from which on a part that matches is not in this log; the part's end if all of it is."""
        overlap = min(append.end, self.end)
        ours = self.terms.between(append.begin, overlap)
        return first_difference(ours, append.terms, overlap)

    def truncate(self, end: int) -> None:
        """Remove everything from `end` on, which must not be committed."""
        assert end >= self.commit, f"committed up to {self.commit}, to be cut at {end}"
        self.end = end
        self.stable = min(self.stable, end)
        self.generation += 1
        self.forget_unwritten()

    def forget_unwritten(self) -> None:
        """Remove the rows of terms and memberships that begin at the log's end or after it."""
        self.terms.cut(self.end)
        self.memberships.cut(self.end)

    def extend(self, append: Append) -> bool:
        """Extend the log to the end of a matching part; return whether a term or membership starts in the new bytes."""
        has_new = _add_from(self.end, append.terms, self.terms)
        has_new |= _add_from(self.end, append.memberships, self.memberships)
        self.end = append.end
        return has_new

    def restart(
        self, begin: int, terms: Iterable[Row[int]], memberships: Iterable[Row[Membership]]
    ) -> None:
        """Become an empty log that starts at `begin`; everything before that is committed."""
        assert begin >= self.commit, f"committed up to {self.commit}, to begin at {begin}"
        self.begin = self.end = self.stable = self.commit = begin
        self.generation += 1
        self.terms = History(0, terms)
        self.memberships = History(self.membership, memberships)

    def drop_before(self, begin: int) -> None:
        """Note that retention has deleted the log before `begin`."""
        assert self.begin <= begin <= self.commit
        self.begin = begin
        self.terms.drop_before(begin)
        self.memberships.drop_before(begin)


def _add_from(start: int, rows: tuple[Row[Value], ...], history: History[Value]) -> bool:
    """Add to a history, which ends at `start`, the rows that apply from there on; return whether there are new ones."""
    first = max(bisect_right(rows, start, key=lambda row: row.start) - 1, 0)
    added = [history.add(max(row.start, start), row.value) for row in rows[first:]]
    return any(added)
