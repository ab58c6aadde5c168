"""Counts how much of a master's log each member has, and how far sends may be acknowledged.

A member counts once, however many connections it has, and the master counts as a member. `CopyRule` states the
requirement, `CopyCount` the result for a log that ends at an offset.
"""

from typing import NamedTuple

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CopyRule:
    """The rule how many members, including the master, must have acknowledged messages.

    Attributes:
        needed: Required number (inSyncReplicas); with 1, sends wait for no copy.
        least: If fewer members are in sync, sends that need copies are not stored (minInSyncReplicas).
        is_adapted: Whether `needed` drops to the number in sync, but not below `least` (enableAutoInSyncReplicas).
        gap_max: A member that lacks this many bytes is not in sync (haMaxGapNotInSync).
    """

    needed: int = 1
    least: int = 1
    is_adapted: bool = False
    gap_max: int = 256 << 20


class CopyCount(NamedTuple):
    """The state of the copies of a log that ends at an offset.

    Attributes:
        in_sync: Number of members in sync, including the master.
        needed: Number of members that must have acknowledged messages.
        end: Physical offset up to which that many have acknowledged the log, 0 if fewer are in sync; None if sends do
            not wait for copies.
    """

    in_sync: int
    needed: int
    end: int | None

    @property
    def is_enough(self) -> bool:
        """Whether at least `needed` members are in sync."""
        return self.in_sync >= self.needed


class Copies:
    """The connected slaves, and up to which physical offset each has acknowledged the log."""

    def __init__(self, rule: CopyRule) -> None:
        self.rule = rule
        self._acked: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}

    def acked(self, member: str, offset: int, *, is_compared: bool = True) -> None:
        """Record that a member has the log up to a physical offset; the largest one counts.

        A log that was not compared yet may be a different one: it may count as in sync, but confirms nothing.
        """
        self._acked[member] = max(offset, self._acked.get(member, -1))
        if is_compared:
            self._confirmed[member] = self._acked[member]

    def gone(self, member: str) -> None:
        """Remove a member that is no longer connected from the count of copies."""
        self._acked.pop(member, None)
        self._confirmed.pop(member, None)

    def is_in_sync(self, offset: int, end: int) -> bool:
        """Return whether a member that has the log up to `offset` is in sync with a log that ends at `end`."""
        return offset >= 0 and end - offset < self.rule.gap_max

    def count(self, end: int) -> CopyCount:
        """Return how many members are in sync with a log that ends at an offset, and how far sends may be acknowledged."""
        rule = self.rule
        acked = [
            self._confirmed.get(member, 0)
            for member, offset in self._acked.items()
            if self.is_in_sync(offset, end)
        ]
        in_sync = 1 + len(acked)
        needed = rule.needed
        if rule.is_adapted:
            needed = max(min(needed, in_sync), rule.least)
        if rule.needed <= 1:
            return CopyCount(in_sync, needed, None)
        if needed <= 1:
            return CopyCount(in_sync, needed, end)
        if in_sync < needed:
            return CopyCount(in_sync, needed, 0)
        acked.sort(reverse=True)
        return CopyCount(in_sync, needed, acked[needed - 2])
