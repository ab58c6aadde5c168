"""Consumption in order: locks and lines of queues, and how queues come and go."""

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

# How long a rebalance waits for a listener's call (removeUnnecessaryMessageQueue of 5.3.3), seconds;
# a queue whose call lasts longer is given up by a later one.
_SETTLE_SECONDS = 1.0


class Orderly:
    """Admits and releases queues one by one, and runs the listener in order.

    Args:
        call: the listener.
        instance: routes and connections.
        group: the consumer group.
        settings: of the consumer.
        give_back: where a message goes after its last try.
        halt: Called when the listener breaks its contract.
        lost: told of queues that somebody else has now.
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
        """Lock queues for consumption in order; the ones that were granted."""
        return set(queues) if self._held is None else await self._held.take(queues)

    async def settle(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Stop the lines of queues; the queues on which no listener works any more."""
        at_rest = await asyncio.gather(
            *(self._lines.settle(queue, seconds=_SETTLE_SECONDS) for queue in queues)
        )
        return [queue for queue, is_at_rest in zip(queues, at_rest, strict=True) if is_at_rest]

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues that are at rest and whose offsets are stored."""
        for queue in queues:
            self._lines.forget(queue)
        if self._held is not None:
            # At the end also what another subscription left behind.
            await self._held.give_back(self._held.queues if self._is_closed else queues)

    # --- messages: as other workers

    def submit(self, job: ListenerJob) -> None:
        """Put messages at the end of their queue's line."""
        self._lines.submit(job)

    def forget(self) -> None:
        """Forget the jobs that no listener has begun."""
        self._lines.halt()

    async def close(self, timeout_ms: int) -> None:
        """Begin no further call, and wait for those under way, but not longer than this."""
        self._is_closed = True
        await self._lines.close(timeout_ms)
        if self._held is not None:
            await self._held.stop()
