"""Locks of queues for orderly consumption: each is held by one client of a group.

A lock lasts 60 s (30 s after a start or an election) and clients renew it every 20 s (RebalanceLockManager of RocketMQ
5.3.3), so a dead client's locks expire. Differs: locks are saved in queueLocks.json, and in the log of a group that elects
its leader, because their owners go on consuming while the broker restarts or another one is elected (docs/design/0012).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor

from cometmq.broker.tables.logged_table import place_key
from cometmq.broker.tables.saving import Saver
from cometmq.codec.bodies.lock import Holders, decode_locks_file, encode_locks_file
from cometmq.model.clock import Clock
from cometmq.model.queue import MessageQueue
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

LOCK_SECONDS = 60  # rocketmq.broker.rebalance.lockMaxLiveTime.
# How long a client relies on a lock (rocketmq.client.rebalance.lockMaxLiveTime); a start gives it to no other before.
BELIEF_SECONDS = 30

# Estimated size limit of all locks in bytes: some 90,000. A group may have a quarter of what the others leave, so that
# many groups that lock all they can still leave room for one with a few.
LOCKS_SIZE_MAX = 32 << 20
_GROUP_SHARE = 4
_LOCK_SIZE = 250
# A larger file is not read; it cannot be one that this version wrote.
_FILE_SIZE_MAX = 2 * LOCKS_SIZE_MAX

_Held = tuple[str, float]  # (client id, monotonic seconds until which)


class QueueLocks:
    """The locks of all consumer groups on queues.

    Attributes:
        on_change: Called with the `place_key` of each queue that another client holds now, or nobody.
    """

    def __init__(self, file: ConfigFile, *, clock: Clock, pool: Executor) -> None:
        self._file = file
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Held]] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._blind_until = -math.inf
        # No lock expires before this time; it is infinite while this broker follows a leader.
        self._all_valid_until = -math.inf
        self.on_change: list[Callable[[str], None]] = []
        self.on_first: Callable[[], None] = lambda: None  # Called when the first lock is set.
        self.saver = Saver(file, self._snapshot, pool)

    def load(self) -> None:
        """Read queueLocks.json; locks from before the start stay valid for 30 s, as long as their owners rely on them.

        If it is too large, or it or its .bak exists but neither can be decoded, no queue can be locked for these 30 s.
        """
        until = self._clock.monotonic() + BELIEF_SECONDS
        holders = self._file.load(_decode, is_needed=False)
        if holders is None:
            self._blind_until = until if self._file.is_lost else self._blind_until
            return
        if isinstance(holders, int):
            _log.warning(
                "%s has %d bytes, which is too large, and is not read: no queue can be locked for %d s, until no "
                "client relies on a lock from before the start",
                self._file.path, holders, BELIEF_SECONDS,
            )  # fmt: skip
            self._blind_until = until
            return
        for (group, queue), client_id in holders.items():
            self._put(group, queue, (client_id, until))

    def follow(self, holders: Mapping[tuple[str, MessageQueue], str | None]) -> None:
        """Take over locks, or with None their end, from the leader of a group; they do not expire before `lead`."""
        self._all_valid_until = math.inf
        for (group, queue), client_id in holders.items():
            self._remove(group, queue)
            if client_id is not None:
                self._put(group, queue, (client_id, -math.inf))
        self.saver.save_soon()

    def lead(self) -> None:
        """Let each lock be valid for 30 s from now on, as long as its owner may rely on the answer of an earlier leader."""
        self._all_valid_until = self._clock.monotonic() + BELIEF_SECONDS

    # --- reading

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the id of the client that holds a group's lock of a queue, or None."""
        held = self._groups.get(group, {}).get(queue)
        return self._owner(held, self._clock.monotonic())

    def _owner(self, held: _Held | None, now: float) -> str | None:
        """Return the id of the client that has a lock; None if the lock has expired, or there is none."""
        if held is None or max(held[1], self._all_valid_until) <= now:
            return None
        return held[0]

    def holders(self) -> Holders:
        """Return the id of the client that holds each locked queue, by (group, queue)."""
        now = self._clock.monotonic()
        return {
            (group, queue): held[0]
            for group, queue, held in self._all()
            if self._owner(held, now) is not None
        }

    def places(self) -> Iterator[tuple[str, MessageQueue]]:
        """Yield group and queue of each lock, expired ones too; locks may change meanwhile."""
        for group, locks in list(self._groups.items()):
            for queue in list(locks):
                yield group, queue

    def is_group_ordered(self, group: str) -> bool:
        """Return whether a client of the group holds a lock (the opposite of isLockAllExpired)."""
        now = self._clock.monotonic()
        locks = self._groups.get(group, {}).values()
        return any(self._owner(held, now) is not None for held in locks)

    # --- changing

    def lock(
        self, queues: Iterable[MessageQueue], *, group: str, client_id: str
    ) -> tuple[list[MessageQueue], asyncio.Future[None] | None]:
        """Lock or renew the queues that are free or already this client's.

        Returns those of these queues that the client holds now, and a future that is done when the locks are on disk and,
        on the leader of a group, in its log, or fails, to await before answering (None if they are). A free queue is left
        out if the locks would take too much memory, and each queue for 30 s after a start whose file of locks could not
        be read.
        """
        now = self._clock.monotonic()
        if now < self._blind_until:
            return [], None
        locks = self._groups.get(group, {})
        obtained = []
        changed = []
        for queue in queues:
            held = locks.get(queue)
            owner = self._owner(held, now)
            if owner is not None and owner != client_id:
                continue
            # If the client's lock has expired, a snapshot in the log may lack it since then.
            if owner is None:
                size = _size_of(group, queue, client_id)
                if held is not None:
                    size -= _size_of(group, queue, held[0])
                if not self._has_room(group, size):
                    continue
                self._grow(group, size)
                changed.append(queue)
            locks[queue] = (client_id, now + LOCK_SECONDS)
            obtained.append(queue)
        if locks:
            if not self._groups:
                self.on_first()
            self._groups[group] = locks
        self._note((group, queue) for queue in changed)
        if changed:
            return obtained, self.saver.save_soon()
        # A client that repeats a failed request has a lock that may not be saved yet.
        return obtained, self.saver.saving() if obtained else None

    def _has_room(self, group: str, size: int) -> bool:
        wanted = self._sizes.get(group, 0) + size
        return size <= 0 or wanted * _GROUP_SHARE <= LOCKS_SIZE_MAX - self._size

    def _grow(self, group: str, size: int) -> None:
        self._sizes[group] = self._sizes.get(group, 0) + size
        self._size += size

    def unlock(self, queues: Iterable[MessageQueue], *, group: str, client_id: str) -> None:
        """Release those of these queues that this client has locked."""
        locks = self._groups.get(group, {})
        # A set, because a client may name a queue twice.
        given = [
            queue for queue in {*queues} if queue in locks and locks[queue][0] == client_id
        ]
        self._drop([(group, queue) for queue in given])

    def forget_topic(self, topic: str) -> None:
        """Remove the locks on queues of a deleted topic."""
        self._drop([(group, queue) for group, queue, _ in self._all() if queue.topic == topic])

    def forget_group(self, group: str) -> None:
        """Remove the locks of a deleted group."""
        self._drop([(group, queue) for queue in self._groups.get(group, ())])

    def expire(self) -> float:
        """Remove locks that were not renewed in time; return when the next may expire (monotonic seconds or infinite)."""
        now = self._clock.monotonic()
        if now < self._all_valid_until:
            return self._all_valid_until if self._groups else math.inf
        self._drop([(group, queue) for group, queue, (_, until) in self._all() if until <= now])
        return min((until for _, _, (_, until) in self._all()), default=math.inf)

    def _drop(self, gone: list[tuple[str, MessageQueue]]) -> None:
        for group, queue in gone:
            self._remove(group, queue)
        self._note(gone)
        if gone:
            self.saver.save_soon()

    def _note(self, places: Iterable[tuple[str, MessageQueue]]) -> None:
        for group, queue in places:
            for note in self.on_change:
                note(place_key(group, queue.topic, queue.queue_id))

    def _put(self, group: str, queue: MessageQueue, held: _Held) -> None:
        self._groups.setdefault(group, {})[queue] = held
        self._grow(group, _size_of(group, queue, held[0]))

    def _remove(self, group: str, queue: MessageQueue) -> None:
        held = self._groups.get(group, {}).pop(queue, None)
        if held is not None:
            self._grow(group, -_size_of(group, queue, held[0]))
            if not self._groups[group]:
                del self._groups[group], self._sizes[group]

    def _all(self) -> Iterator[tuple[str, MessageQueue, _Held]]:
        for group, locks in self._groups.items():
            for queue, held in locks.items():
                yield group, queue, held

    # --- the file

    def _snapshot(self) -> Callable[[], str]:
        groups = {group: dict(locks) for group, locks in self._groups.items()}
        return lambda: encode_locks_file(
            {
                (group, queue): client_id
                for group, locks in groups.items()
                for queue, (client_id, _) in locks.items()
            }
        )


def _decode(text: str) -> dict[tuple[str, MessageQueue], str] | int:
    """Decode the text of queueLocks.json; return its length instead if it is too large."""
    return len(text) if len(text) > _FILE_SIZE_MAX else decode_locks_file(text)


def _size_of(group: str, queue: MessageQueue, client_id: str) -> int:
    return _LOCK_SIZE + len(group) + len(queue.topic) + len(client_id)
