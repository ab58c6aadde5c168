"""Orderly consumption: combines the locks of queues at their brokers with listener calls in order (lines)."""

import asyncio
from collections.abc import Callable, Iterable

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.listeners import ListenerCall
from cometmq.client.consumer.order.held_queues import HeldQueues
from cometmq.client.consumer.order.lines import GiveBack, Lines
from cometmq.client.consumer.push.concurrent import ListenerJob
from cometmq.client.settings import PushSettings
from cometmq.model.errors import ListenerError
from cometmq.model.queue import MessageQueue

# Maximum time that a rebalance waits for a listener call (removeUnnecessaryMessageQueue of 5.3.3), seconds; a queue with a
# longer call is given up by a later rebalance.
_SETTLE_SECONDS = 1.0


class Orderly:
    """Orderly consumption by one push consumer: locks queues, unless broadcasting, and calls the listener in order.

    Args:
        give_back: Called with a message after its last try, or that the listener made a dead letter.
        halt: Called when the listener returns an invalid result.
        lost: Called with queues for which a broker refuses to renew the lock.
    """

    def __init__(
        self,
        call: ListenerCall,
        instance: ClientInstance,
        group: str,
        settings: PushSettings,
        *,
        give_back: GiveBack,
        halt: Callable[[ListenerError], None],
        lost: Callable[[list[MessageQueue]], None],
    ) -> None:
        self._is_closed = False
        self._held: HeldQueues | None = None
        if not settings.broadcasting:
            self._held = HeldQueues(instance, group, settings, lost=lost)
            self._held.start()
        self._lines = Lines(
            call,
            settings,
            held=self._held,
            give_back=give_back,
            halt=halt,
            clock=instance.clock,
        )

    # --- queues

    async def take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues and return those for which the lock was granted; with broadcasting, none needs a lock.

        Queues with a call of an earlier assignment that outlasts 1 s are left out.
        """
        queues = await self.settle([*queues])
        for queue in queues:
            self._lines.forget(queue)
        return set(queues) if self._held is None else await self._held.take(queues)

    async def settle(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Start no further call for queues; return those without a running one, after waiting up to 1 s."""
        at_rest = await asyncio.gather(
            *(self._lines.settle(queue, seconds=_SETTLE_SECONDS) for queue in queues)
        )
        return [queue for queue, is_at_rest in zip(queues, at_rest, strict=True) if is_at_rest]

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Forget the calls of queues that are given up, and unlock them; after `close`, unlock all locked queues."""
        for queue in queues:
            self._lines.forget(queue)
        if self._held is not None:
            # At the end, this includes queues of former subscriptions.
            await self._held.give_back(self._held.queues if self._is_closed else queues)

    # --- jobs, as in other workers

    def submit(self, job: ListenerJob) -> None:
        """Queue messages for ordered calls, one at a time for their queue or, with order keys, for each key in it."""
        self._lines.submit(job)

    def forget(self) -> None:
        """Start no further listener call for the submitted messages; running calls go on."""
        self._lines.halt()

    async def close(self, timeout_ms: int) -> None:
        """Start no further listener call, wait at most `timeout_ms` ms for running ones, and stop renewing locks."""
        self._is_closed = True
        await self._lines.close(timeout_ms)
        if self._held is not None:
            await self._held.stop()
