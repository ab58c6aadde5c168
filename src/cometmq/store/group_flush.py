"""Who waits for which offset to be on disk: group commit, without a disk.

One fdatasync serves everybody whose records end at or before what was written when it began.
The broker adds one waiter a batch of sends; the deadline is RocketMQ's syncFlushTimeout.
Source: CommitLog.GroupCommitService of RocketMQ 5.3.3, which differs: there a failed flush is
answered as a success (docs/design/0004).

Next: cometmq.store.dispatch
"""

from collections import deque
from collections.abc import Callable

OnDone = Callable[[bool], None]


class GroupFlush:
    """The waiters, in the order of the log.

    Invariant: offsets and deadlines both grow along the queue. All wait equally long; who is
    added late, behind a waiter for a later offset, waits with that one.
    """

    def __init__(self) -> None:
        self._waiters: deque[tuple[int, float, OnDone]] = deque()
        self._is_failed = False

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, end_offset: int, *, deadline: float, on_done: OnDone) -> None:
        """Wait until everything before `end_offset` is on disk.

        Args:
            end_offset: physical offset behind the last record waited for.
            deadline: monotonic seconds at which waiting ends.
            on_done: called once, with whether it is on disk.
        """
        if self._is_failed:
            on_done(False)  # noqa: FBT003  # the callback's one argument
            return
        if self._waiters and self._waiters[-1][0] > end_offset:
            end_offset = self._waiters[-1][0]
        self._waiters.append((end_offset, deadline, on_done))

    def advance(self, flushed: int) -> int:
        """Everything before `flushed` is on disk: tell who waited for it; gives how many did."""
        waiters, told = self._waiters, 0
        while waiters and waiters[0][0] <= flushed:
            waiters.popleft()[2](True)  # noqa: FBT003
            told += 1
        return told

    def expire(self, now: float) -> None:
        """Tell who has waited too long."""
        waiters = self._waiters
        while waiters and waiters[0][1] <= now:
            waiters.popleft()[2](False)  # noqa: FBT003

    def fail(self) -> None:
        """A flush failed, which is final: tell everybody, and whoever is still to come."""
        self._is_failed = True
        waiters, self._waiters = self._waiters, deque()
        for _, _, on_done in waiters:
            on_done(False)  # noqa: FBT003
