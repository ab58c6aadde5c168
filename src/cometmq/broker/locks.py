"""Queues that one client of a group has for itself, for consumption in order.

A lock lives 60 s and clients renew it every 20 s (RebalanceLockManager of RocketMQ 5.3.3), so a client
that died gives its queues up by itself. Locks are not kept over a restart.
"""

from collections.abc import Iterable

from cometmq.model.clock import Clock
from cometmq.model.queue import MessageQueue

LOCK_SECONDS = 60  # rocketmq.broker.rebalance.lockMaxLiveTime.

# A broker's queues times the groups that consume them in order; beyond it nothing more is locked.
LOCKS_MAX = 1_000_000


class QueueLocks:
    """The locks of all groups."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: dict[tuple[str, MessageQueue], tuple[str, float]] = {}

    def lock(
        self, queues: Iterable[MessageQueue], *, group: str, client_id: str
    ) -> list[MessageQueue]:
        """Lock or renew what is free or already this client's; those it has now."""
        now = self._clock.monotonic()
        obtained = []
        for queue in queues:
            holder, until = self._locks.get((group, queue), ("", 0.0))
            if not holder and len(self._locks) >= LOCKS_MAX:
                continue
            if holder == client_id or until <= now:
                self._locks[group, queue] = (client_id, now + LOCK_SECONDS)
                obtained.append(queue)
        return obtained

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Give back what this client holds."""
        for queue in queues:
            if self._locks.get((group, queue), ("", 0.0))[0] == client_id:
                del self._locks[group, queue]

    def is_group_ordered(self, group: str) -> bool:
        """Whether some client of a group holds a lock at present (isLockAllExpired)."""
        now = self._clock.monotonic()
        return any(
            name == group and until > now for (name, _), (_, until) in self._locks.items()
        )

    def expire(self) -> None:
        """Forget locks that nobody renewed."""
        now = self._clock.monotonic()
        for key in [key for key, (_, until) in self._locks.items() if until <= now]:
            del self._locks[key]
