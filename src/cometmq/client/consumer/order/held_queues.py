"""The queue locks of a group's member for orderly consumption: acquired, renewed and released at the brokers.

A lock counts as held for 30 s (by default) from its request. A broker grants 60 s by default, so that a lock expires
here before another client can get it. Follows RebalanceImpl.lock, lockAll and unlock of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from cometmq.client.api.members import MemberApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.settings import PushConsumerSettings
from cometmq.client.periodic import repeat
from cometmq.codec.bodies.lock import LockRequest
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)


class HeldQueues:
    """The queue locks of one member of a group; calls `lost` with queues whose lock a broker refuses to renew."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: PushConsumerSettings,
        *,
        lost: Callable[[list[MessageQueue]], None],
    ) -> None:
        self._instance = instance
        self._api = MemberApi(instance)
        self._group = group
        self._settings = settings
        self._lost = lost
        self._until: dict[MessageQueue, float] = {}
        self._tasks = Tasks(f"{group} locks")

    def start(self) -> None:
        """Start renewing the locks, every `lock_interval_ms`, and when a broker group has another master."""
        self._instance.masters.on_moved.append(self._master_moved)
        self._tasks.spawn(repeat(self.renew, every_ms=self._settings.lock_interval_ms), "renew")

    async def stop(self) -> None:
        """Stop renewing the locks, without releasing them."""
        self._instance.masters.on_moved.remove(self._master_moved)
        await self._tasks.close()

    @property
    def queues(self) -> list[MessageQueue]:
        """A list of the queues that were locked and neither released nor reported as lost since, even if expired."""
        return list(self._until)

    def is_held(self, queue: MessageQueue) -> bool:
        """Return whether this member has locked a queue and the lock has not expired."""
        return self._until.get(queue, 0.0) > self._instance.clock.monotonic()

    async def take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues and return those for which the lock was granted; a broker without a valid answer grants none."""
        _refused, granted = await self._ask(queues)
        return granted

    async def renew(self) -> None:
        """Renew all locks; report queues whose lock is refused to `lost`. A failed request is no refusal."""
        await self._renew(self._until)

    async def _renew(self, queues: Iterable[MessageQueue]) -> None:
        refused, _granted = await self._ask(queues)
        self._give_up(refused)

    def _master_moved(self, broker_name: str, _before: str | None) -> None:
        """Request this member's locks of a broker group again at its new master, which does not know them."""
        held = [queue for queue in self._until if queue.broker_name == broker_name]
        if held:
            self._tasks.spawn(self._renew(held), f"renew at {broker_name}")

    async def retake(self, queue: MessageQueue) -> None:
        """Request an expired lock again; if it is refused, report the queue to `lost`."""
        await self._renew([queue])

    def _give_up(self, refused: set[MessageQueue]) -> None:
        for queue in refused:
            self._until.pop(queue, None)
        if refused:
            _log.warning(
                "Group %s has lost the locks of %s; other members may consume them",
                self._group,
                ", ".join(map(str, sorted(refused))),
            )
            self._lost(sorted(refused))

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock those of the queues that are locked, so that others can lock them immediately; only log failures."""
        given = [queue for queue in queues if self._until.pop(queue, None) is not None]
        await asyncio.gather(
            *(
                self._unlock(broker_name, part)
                for broker_name, part in _by_broker(given).items()
            )
        )

    async def _ask(
        self, queues: Iterable[MessageQueue]
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Lock queues or renew their locks; return (refused, granted); queues whose request failed are in neither."""
        parts = _by_broker(queues)
        until = self._instance.clock.monotonic() + self._settings.lock_valid_ms / 1000
        answers = await asyncio.gather(
            *(self._lock(broker_name, part) for broker_name, part in parts.items())
        )
        refused: set[MessageQueue] = set()
        granted: set[MessageQueue] = set()
        for part, said in zip(parts.values(), answers, strict=True):
            if said is None:
                continue  # No answer is not a refusal.
            locked = said & set(part)
            granted |= locked
            refused |= set(part) - locked
        self._until.update(dict.fromkeys(granted, until))
        return refused, granted

    async def _lock(
        self, broker_name: str, queues: list[MessageQueue]
    ) -> set[MessageQueue] | None:
        """Request locks of queues at a broker and return the locked ones; None if the request failed."""
        member, outages = (self._group, broker_name), self._instance.outages
        try:
            locked = await self._api.lock(
                self._instance.address(broker_name), self._request(queues)
            )
        except CometError as error:
            outages.failed("locking queues at", broker_name, error, member)
            return None
        outages.worked("locking queues at", member)
        return locked

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        try:
            await self._api.unlock(self._instance.address(broker_name), self._request(queues))
        except CometError as error:
            _log.warning(
                "The locks of group %s at broker %s could not be released, they expire within 60 s: %s",
                self._group,
                broker_name,
                error,
            )

    def _request(self, queues: list[MessageQueue]) -> LockRequest:
        return LockRequest(self._group, self._instance.client_id, tuple(queues))


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        parts.setdefault(queue.broker_name, []).append(queue)
    return parts
