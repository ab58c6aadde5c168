"""Waiters for an offset to be confirmed or flushed: group commit, without a disk.

One fdatasync serves everybody whose records end at or before what was written when it began.
The broker adds one waiter a batch of sends; the deadline is RocketMQ's syncFlushTimeout.
Source: CommitLog.GroupCommitService of RocketMQ 5.3.3, which differs: there a failed flush is
answered as a success (docs/design/0004).
"""

from collections import deque
from collections.abc import Callable

from cometmq.store.positions import Durability, Positions

OnDone = Callable[[Durability], None]

# (physical offset behind what is waited for, monotonic seconds at which waiting ends, who is told)
_Waiters = deque[tuple[int, float, OnDone]]


class PositionWaiters:
    """The waiters of a log, in its order.

    Attributes:
        replica_seconds: how much later than the device replicas may be; less than 0: sooner.

    Invariant: offsets and deadlines both grow along each queue. All wait equally long; who is
    added late, behind a waiter for a later offset, waits with that one.
    """

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self.replica_seconds = 0.0
        self._confirmed: _Waiters = deque()
        self._flushed: _Waiters = deque()
        self._is_failed = False

    def __len__(self) -> int:
        return len(self._confirmed) + len(self._flushed)

    @property
    def wants_flush(self) -> bool:
        """Whether somebody waits for the device itself, whatever confirms a message."""
        return bool(self._flushed)

    def wait_confirmed(self, end_offset: int, *, deadline: float, on_done: OnDone) -> None:
        """Tell when everything before `end_offset` is confirmed.

        Where too few replicas are in sync, nobody waits for them: that is told once it is on the device.

        Args:
            end_offset: physical offset behind the last record waited for.
            deadline: monotonic seconds at which waiting for the device ends.
            on_done: called once, with what came of it.
        """
        positions = self._positions
        if self._is_vain and positions.confirmed < end_offset <= positions.local:
            on_done(Durability.NO_REPLICA)
            return
        self._add(self._confirmed, positions.confirmed, end_offset, deadline, on_done)

    @property
    def _is_vain(self) -> bool:
        """Whether replicas are wanted and too few are in sync."""
        return self._positions.replicated is not None and not self._positions.replica_count

    def wait_flushed(self, end_offset: int, *, deadline: float, on_done: OnDone) -> None:
        """Tell when everything before `end_offset` is on the device; arguments as above."""
        self._add(self._flushed, self._positions.flushed, end_offset, deadline, on_done)

    def _add(
        self, waiters: _Waiters, reached: int, end_offset: int, deadline: float, on_done: OnDone
    ) -> None:
        if end_offset <= reached:
            # Whoever waited for something else first (the file of a new topic) comes late.
            on_done(Durability.OK)
        elif self._is_failed:
            on_done(Durability.DISK_LATE)
        else:
            if waiters and waiters[-1][0] > end_offset:
                end_offset = waiters[-1][0]
            waiters.append((end_offset, deadline, on_done))

    def advance(self) -> int:
        """Tell whose position has been reached; gives how many were told."""
        positions = self._positions
        told = _tell(self._confirmed, positions.confirmed) + _tell(
            self._flushed, positions.flushed
        )
        if self._is_vain:
            told += _tell(self._confirmed, positions.local, Durability.NO_REPLICA)
        return told

    def expire(self, now: float) -> None:
        """Tell who has waited too long."""
        positions = self._positions
        while self._confirmed:
            end_offset, deadline, on_done = self._confirmed[0]
            if end_offset <= positions.local:
                deadline += self.replica_seconds  # Only replicas are waited for.
            if deadline > now:
                break
            self._confirmed.popleft()
            positions.given_up = max(positions.given_up, end_offset)
            on_done(positions.why_late(end_offset))
        while self._flushed and self._flushed[0][1] <= now:
            self._flushed.popleft()[2](Durability.DISK_LATE)

    def fail(self) -> None:
        """A flush failed, which is final: tell everybody, and whoever is still to come."""
        self._is_failed = True
        self._give_up(-1)

    def go_back(self, end: int) -> None:
        """The log was truncated to here: tell who waits for what is gone."""
        self._give_up(end)

    def _give_up(self, end: int) -> None:
        """Tell everybody who waits for an offset behind `end` that it will not be reached."""
        waiters = [*self._confirmed, *self._flushed]
        self._confirmed, self._flushed = (
            deque(waiter for waiter in queue if waiter[0] <= end)
            for queue in (self._confirmed, self._flushed)
        )
        for end_offset, _, on_done in waiters:
            if end_offset > end:
                on_done(Durability.DISK_LATE)


def _tell(waiters: _Waiters, reached: int, outcome: Durability = Durability.OK) -> int:
    """Tell who waited for an offset up to here; gives how many did."""
    told = 0
    while waiters and waiters[0][0] <= reached:
        waiters.popleft()[2](outcome)
        told += 1
    return told
