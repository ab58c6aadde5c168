"""Counts how much of a master's log each member has, and what a send may be promised for it.

A member is counted once, however many connections it has, and the master is one of them. What is
needed stands in `CopyRule`; what comes of it for a log that ends somewhere is a `CopyCount`.
"""

from typing import NamedTuple

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CopyRule:
    """The rule that says how many members must have what is acknowledged, the master counted.

    Attributes:
        needed: so many (inSyncReplicas); 1: nobody waits.
        least: with fewer in sync nothing is stored (minInSyncReplicas).
        is_adapted: `needed` falls to who is in sync, not below `least` (enableAutoInSyncReplicas).
        gap_max: who lacks so many bytes is not in sync (haMaxGapNotInSync).
    """

    needed: int = 1
    least: int = 1
    is_adapted: bool = False
    gap_max: int = 256 << 20


class CopyCount(NamedTuple):
    """The count of copies of a log that ends at an offset.

    Attributes:
        in_sync: members that are, the master counted.
        needed: how many must have what is acknowledged.
        end: physical offset up to which so many have it; None: nobody waits for copies.
    """

    in_sync: int
    needed: int
    end: int | None

    @property
    def is_enough(self) -> bool:
        """Whether as many are in sync as must be."""
        return self.in_sync >= self.needed


class Copies:
    """The slaves that are connected, and what each acknowledged."""

    def __init__(self, rule: CopyRule) -> None:
        self.rule = rule
        self._acked: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}

    def acked(self, member: str, offset: int, *, is_compared: bool = True) -> None:
        """A member has the log up to a physical offset; the most that it said counts.

        Where that log is not compared with this one yet it may be another's: it is in sync, and confirms nothing.
        """
        self._acked[member] = max(offset, self._acked.get(member, -1))
        if is_compared:
            self._confirmed[member] = self._acked[member]

    def gone(self, member: str) -> None:
        """A member is not connected any more."""
        self._acked.pop(member, None)
        self._confirmed.pop(member, None)

    def is_in_sync(self, offset: int, end: int) -> bool:
        """Whether who has the log up to `offset` is in sync with one that ends at `end`."""
        return offset >= 0 and end - offset < self.rule.gap_max

    def count(self, end: int) -> CopyCount:
        """Count the copies of a log that ends at a physical offset."""
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
