"""What clients of a simulated group of brokers do besides sends: transactions, delays, and two ways to consume in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    SendStatus,
    SimpleConsumerSettings,
    StoredMessage,
)
from cometmq.client.api.consuming import ConsumeApi, PoppedRecords
from cometmq.codec.headers.pop import PopRequest
from cometmq.errors import CometError
from tests.sim.places import NAMES

if TYPE_CHECKING:
    from tests.sim.brokers import BrokerGroup

TOPIC = "orders"
LATER = "later"  # Topic of messages that were delayed, or sent in a transaction.
_KIND_SHARE = 0.45  # Of the runs in which there is a kind of client; each costs processor time.
# After which consumers in order, and checks of transactions, are through with everything.
_FINISHED_SECONDS = 120.0
_ORDERLY = PushConsumerSettings(
    orderly=True,
    consume_from=ConsumeFrom.FIRST,
    persist_interval_ms=1_000,
    rebalance_interval_ms=2_000,
    suspend_queue_ms=100,
)
_POPPING = SimpleConsumerSettings(invisible_ms=4_000, wait_ms=1_000)
_LISTENS_SECONDS = 0.3


class _RollBack(Exception):
    """The work of a transaction failed."""


class Traffic:
    """The clients of a run, some of each kind by chance; all of them end when the group is healed and has done their work."""

    def __init__(self, group: BrokerGroup) -> None:
        self._group = group
        self._checks = group.checks
        self._is_finished = asyncio.Event()
        self._ordered: list[str] = []  # Groups that consume in order.
        self._consumers: list[asyncio.Task[None]] = []

    def kinds(self, producer: AsyncProducer) -> list[Coroutine[Any, Any, None]]:
        """Start consumers, and return what producers do until the story is over."""
        chance = Random(self._group.chance.random())
        sends = [
            each(producer, Random(chance.random()))
            for each in (self._transact, self._delay)
            if chance.random() < _KIND_SHARE
        ]
        if sends:
            self._start(self._consume_later())
        if chance.random() < _KIND_SHARE:
            self._ordered.append("workers")
            for number in range(2):
                self._start(self._consume_in_order(f"worker{number}", Random(chance.random())))
        if chance.random() < _KIND_SHARE:
            self._ordered.append("poppers")
            self._start(self._pop_in_order())
        return sends

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._consumers.append(asyncio.ensure_future(work))

    async def finish(self, ends: Mapping[int, int]) -> None:
        """Wait until everything is done and consumed, and end the consumers; check it. `ends` are those of the queues."""
        loop = self._group.loop
        until, checks = loop.time() + _FINISHED_SECONDS, self._checks
        while loop.time() < until and checks.missing(self._ordered, ends):  # noqa: ASYNC110  Nothing tells.
            await asyncio.sleep(1)
        assert not checks.missing(self._ordered, ends), checks.missing(self._ordered, ends)
        assert not checks.failures, checks.failures
        self._is_finished.set()
        await asyncio.gather(*self._consumers)

    # --- producers

    async def _transact(self, producer: AsyncProducer, chance: Random) -> None:
        number = 0
        while not self._group.is_over:
            number += 1
            body, is_wanted, begun = b"transaction %d" % number, chance.random() < 0.7, False
            try:
                async with producer.transaction(Message(LATER, body)):
                    begun = True
                    await asyncio.sleep(chance.uniform(0, 1))
                    if not is_wanted:
                        raise _RollBack  # noqa: TRY301  Nothing else rolls back.
            except (CometError, _RollBack):
                await asyncio.sleep(0.1)
            if begun:
                self._group.note("transaction", body, is_wanted)
                self._checks.decided(body, is_wanted=is_wanted)
            await asyncio.sleep(chance.uniform(0, 1))

    async def _delay(self, producer: AsyncProducer, chance: Random) -> None:
        number = 0
        while not self._group.is_over:
            number += 1
            message = Message(LATER, b"delay %d" % number, delay_level=chance.choice([1, 1, 2]))
            try:
                result = await producer.send(message)
            except CometError:
                await asyncio.sleep(0.1)
            else:
                if result.status is SendStatus.OK:
                    self._group.note("delayed", message.body)
                    self._checks.decided(message.body, is_wanted=True)
            await asyncio.sleep(chance.uniform(0, 1))

    # --- consumers

    async def _consume_later(self) -> None:
        async def delivered(message: StoredMessage) -> None:
            self._checks.delivered(message.body)

        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST,
            persist_interval_ms=1_000,
            rebalance_interval_ms=2_000,
        )
        await self._push("later-readers", LATER, delivered, settings)

    async def _consume_in_order(self, name: str, chance: Random) -> None:
        async def listen(message: StoredMessage) -> None:
            queue, checks = message.queue.queue_id, self._checks
            checks.call_begins(name, queue)
            checks.consumed_in_order("workers", queue, message.queue_offset)
            await asyncio.sleep(chance.uniform(0, _LISTENS_SECONDS))
            checks.call_ends(name, queue)

        await self._push("workers", TOPIC, listen, replace(_ORDERLY, instance_name=name))

    async def _push(
        self,
        group: str,
        topic: str,
        listener: Callable[[StoredMessage], Coroutine[Any, Any, None]],
        settings: PushConsumerSettings,
    ) -> None:
        async with AsyncPushConsumer(
            NAMES, group=group, listener=listener, subscriptions=[topic], settings=settings
        ):
            await self._is_finished.wait()

    async def _pop_in_order(self) -> None:
        async with AsyncSimpleConsumer(
            NAMES, group="poppers", subscriptions=[TOPIC], settings=_POPPING
        ) as consumer:
            # The popper of a simple consumer has no way to ask for order, which gRPC's clients have.
            popper = consumer._popper
            popper._api = _OrderedPops(popper._instance)
            while not self._is_finished.is_set():
                try:
                    for message in await consumer.receive():
                        queue, offset = message.queue.queue_id, message.queue_offset
                        self._checks.consumed_in_order("poppers", queue, offset)
                        await consumer.ack(message)
                except CometError:
                    await asyncio.sleep(0.2)


class _OrderedPops(ConsumeApi):
    """Pops in order."""

    async def pop(self, address: str, header: PopRequest) -> PoppedRecords | None:
        return await super().pop(address, replace(header, order=True))
