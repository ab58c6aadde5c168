"""Queues that one client of a group has for itself, for consumption in order.

A lock lives 60 s and clients renew it every 20 s (RebalanceLockManager of RocketMQ 5.3.3), so a client
that died gives its queues up by itself. Differs: who holds what is kept in queueLocks.json, since
the owner of a queue goes on consuming while its broker starts anew (docs/design/0012).

Next: cometmq.broker.handlers.client
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor

from cometmq.broker.saving import Saver
from cometmq.codec.bodies.lock import Holders, decode_locks_file, encode_locks_file
from cometmq.model.clock import Clock
from cometmq.model.queue import MessageQueue
from cometmq.store.config_file import ConfigFile

LOCK_SECONDS = 60  # rocketmq.broker.rebalance.lockMaxLiveTime.
# For so long a client believes in a lock (rocketmq.client.rebalance.lockMaxLiveTime); after a start
# nobody else may have its queues before that is over.
BELIEF_SECONDS = 30

# A broker's queues times the groups that consume them in order; beyond it nothing more is locked.
LOCKS_MAX = 1_000_000

_Held = tuple[str, float]  # (client id, monotonic seconds until which)


class QueueLocks:
    """The locks of all groups."""

    def __init__(self, file: ConfigFile, *, clock: Clock, pool: Executor) -> None:
        """Nothing is locked until `load`."""
        self._file = file
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Held]] = {}
        self._count = 0
        self._saver = Saver(file, self._snapshot, pool)

    def load(self) -> None:
        """Read the file: what was locked before the start is locked, as long as its owner thinks so.

        Raises:
            CodecError: the file means nothing; the message names it.
        """
        until = self._clock.monotonic() + BELIEF_SECONDS
        for (group, queue), client_id in (self._file.load(decode_locks_file) or {}).items():
            self._groups.setdefault(group, {})[queue] = (client_id, until)
            self._count += 1

    # --- reading

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Who has a queue now."""
        held = self._groups.get(group, {}).get(queue)
        return held[0] if held is not None and held[1] > self._clock.monotonic() else None

    def holders(self) -> Holders:
        """Who has which queues now."""
        now = self._clock.monotonic()
        return {
            (group, queue): who for group, queue, (who, until) in self._all() if until > now
        }

    def is_group_ordered(self, group: str) -> bool:
        """Whether some client of a group holds a lock at present (isLockAllExpired)."""
        now = self._clock.monotonic()
        return any(until > now for _, until in self._groups.get(group, {}).values())

    # --- changing

    def lock(
        self, queues: Iterable[MessageQueue], *, group: str, client_id: str
    ) -> tuple[list[MessageQueue], asyncio.Future[None] | None]:
        """Lock or renew what is free or already this client's.

        Returns:
            Those it has now; and what must be awaited before it is told, None for a mere renewal.
        """
        now = self._clock.monotonic()
        locks = self._groups.get(group, {})
        obtained = []
        is_changed = False
        for queue in queues:
            holder, until = locks.get(queue, ("", 0.0))
            if not holder and self._count >= LOCKS_MAX:
                continue
            if holder == client_id or until <= now:
                self._count += not holder
                is_changed |= holder != client_id
                locks[queue] = (client_id, now + LOCK_SECONDS)
                obtained.append(queue)
        if locks:
            self._groups[group] = locks
        return obtained, self._saver.save_soon() if is_changed else None

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Give back what this client holds."""
        locks = self._groups.get(group, {})
        # A set: who names a queue twice gives it back once.
        given = [
            queue for queue in {*queues} if queue in locks and locks[queue][0] == client_id
        ]
        self._drop([(group, queue) for queue in given])

    def expire(self) -> None:
        """Forget locks that nobody renewed."""
        now = self._clock.monotonic()
        self._drop([(group, queue) for group, queue, (_, until) in self._all() if until <= now])

    def _drop(self, gone: list[tuple[str, MessageQueue]]) -> None:
        for group, queue in gone:
            del self._groups[group][queue]
            if not self._groups[group]:
                del self._groups[group]
            self._count -= 1
        if gone:
            self._saver.save_soon()

    def _all(self) -> Iterator[tuple[str, MessageQueue, _Held]]:
        for group, locks in self._groups.items():
            for queue, held in locks.items():
                yield group, queue, held

    # --- the file

    async def close(self) -> None:
        """Bring everything to disk."""
        await self._saver.close()

    def _snapshot(self) -> Callable[[], str]:
        holders = {(group, queue): client_id for group, queue, (client_id, _) in self._all()}
        return lambda: encode_locks_file(holders)
