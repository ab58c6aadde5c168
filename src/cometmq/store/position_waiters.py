"""Waiters for an offset to be confirmed or flushed (group commit); this module does no I/O.

One flush serves all waiters whose records end at or before the offset up to which it goes. The broker usually adds one
waiter per batch of sends; its time limit is RocketMQ's syncFlushTimeout, for replicas slaveTimeout. Source:
CommitLog.GroupCommitService of RocketMQ 5.3.3, with one difference: there a failed flush is answered as a success
(docs/design/0004).
"""

from collections import deque
from collections.abc import Callable

from cometmq.store.positions import Durability, Positions

OnDone = Callable[[Durability], None]

# (physical offset to wait for, deadline in monotonic seconds, callback)
_Waiters = deque[tuple[int, float, OnDone]]


class PositionWaiters:
    """The waiters of a log, in log order.

    Invariant: offsets and deadlines do not decrease along each queue. All waiters have the same time limit; one that is
    added late, after a waiter for a later offset, waits for that offset.

    Attributes:
        replica_seconds: How much longer to wait for replicas than for the device, seconds; may be negative.
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
        """Whether a caller of `wait_flushed` waits, who needs a flush even with ASYNC_FLUSH."""
        return bool(self._flushed)

    def wait_confirmed(self, end_offset: int, *, deadline: float, on_done: OnDone) -> None:
        """Call back with OK when everything before `end_offset` is confirmed, or with the reason why it is not.

        If too few replicas are in sync, NO_REPLICA is reported as soon as this broker's part is done; NOT_COMMITTED in a group
        that elects its leader if this broker does not lead.

        Args:
            end_offset: Physical offset of the end of the last record.
            deadline: Monotonic time in seconds until which to wait for the device; for replicas plus `replica_seconds`.
            on_done: Called once with a `Durability`; within this call if that is known already.
        """
        positions = self._positions
        if self._is_vain and positions.confirmed < end_offset <= positions.local:
            on_done(positions.why_late(end_offset))
            return
        self._add(self._confirmed, positions.confirmed, end_offset, deadline, on_done)

    @property
    def _is_vain(self) -> bool:
        """Whether replicas are required but too few are in sync, so that waiting is in vain."""
        return self._positions.replicated is not None and not self._positions.replica_count

    def wait_flushed(self, end_offset: int, *, deadline: float, on_done: OnDone) -> None:
        """Call back once, as `wait_confirmed` does: OK when all before `end_offset` is flushed, else DISK_LATE."""
        self._add(self._flushed, self._positions.flushed, end_offset, deadline, on_done)

    def _add(
        self, waiters: _Waiters, reached: int, end_offset: int, deadline: float, on_done: OnDone
    ) -> None:
        if end_offset <= reached:
            # A caller that first waited for something else (the file of a new topic) comes late.
            on_done(Durability.OK)
        elif self._is_failed:
            on_done(Durability.DISK_LATE)
        else:
            if waiters and waiters[-1][0] > end_offset:
                end_offset = waiters[-1][0]
            waiters.append((end_offset, deadline, on_done))

    def advance(self) -> int:
        """Call back waiters whose offset has been reached, or that only wait, in vain, for replicas; return their number."""
        positions = self._positions
        told = _tell(self._confirmed, positions.confirmed) + _tell(
            self._flushed, positions.flushed
        )
        if self._is_vain:
            why = positions.why_late(positions.written + 1)
            told += _tell(self._confirmed, positions.local, why)
        return told

    def expire(self, now: float) -> None:
        """Call back the waiters whose time is over with the reason, in log order, up to the first with time left."""
        positions = self._positions
        while self._confirmed:
            end_offset, deadline, on_done = self._confirmed[0]
            if end_offset <= positions.local:
                deadline += self.replica_seconds  # Waits only for replicas.
            if deadline > now:
                break
            self._confirmed.popleft()
            positions.given_up = max(positions.given_up, end_offset)
            on_done(positions.why_late(end_offset))
        while self._flushed and self._flushed[0][1] <= now:
            self._flushed.popleft()[2](Durability.DISK_LATE)

    def fail(self) -> None:
        """Call back all waiters with DISK_LATE, because nothing is flushed any more.

        Later waiters are called back at once, with OK if their offset was reached, or the reason why it was not.
        """
        self._is_failed = True
        self._give_up(-1)

    def go_back(self, end: int) -> None:
        """Call back the waiters for offsets after the end of the truncated log with DISK_LATE."""
        self._give_up(end)

    def _give_up(self, end: int) -> None:
        waiters = [*self._confirmed, *self._flushed]
        self._confirmed, self._flushed = (
            deque(waiter for waiter in queue if waiter[0] <= end)
            for queue in (self._confirmed, self._flushed)
        )
        for end_offset, _, on_done in waiters:
            if end_offset > end:
                on_done(Durability.DISK_LATE)


def _tell(waiters: _Waiters, reached: int, outcome: Durability = Durability.OK) -> int:
    told = 0
    while waiters and waiters[0][0] <= reached:
        waiters.popleft()[2](outcome)
        told += 1
    return told
