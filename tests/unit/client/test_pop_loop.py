"""A queue that a member pops no more: when it is forgotten."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from cometmq import PushSettings
from cometmq.client.consumer.counts import Counts
from cometmq.client.consumer.listeners import verdict_of
from cometmq.client.consumer.pop.pop_loop import PopContext, PopLoop
from cometmq.client.outages import Outages
from cometmq.model.properties import POP_CK
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.net.tasks import Tasks
from tests.support.hand_clock import HandClock

QUEUE = MessageQueue("orders", "broker-a", 0)


class OneMessage:
    """A broker that has one message."""

    def __init__(self) -> None:
        self.messages = [SimpleNamespace(properties={POP_CK: "handle"}, body=b"x")]

    async def pop(self, _broker: str, _wanted: object, **_terms: Any) -> list[Any]:
        if self.messages:
            return [self.messages.pop()]
        await asyncio.Event().wait()
        return []


async def test_a_message_with_an_invalid_result_is_kept_until_it_has_expired():
    clock, delivered = HandClock(), asyncio.Event()
    gate = asyncio.Event()
    gate.set()
    settings = PushSettings(pop_invisible_ms=10_000)
    given: list[Any] = []

    def deliver(_loop: PopLoop, messages: list[Any]) -> None:
        given.extend(messages)
        delivered.set()

    context = PopContext(
        cast("Any", OneMessage()), cast("Any", None), settings, gate, Counts(clock), clock,
        Outages(clock), Tasks("pops"), deliver,
        lambda topic: parse_subscription(topic, "*"),
    )  # fmt: skip
    loop = PopLoop(QUEUE, context)
    running = asyncio.ensure_future(loop.run())
    await asyncio.wait_for(delivered.wait(), 10)
    running.cancel()
    await asyncio.wait([running])
    loop.settle(
        given, verdict_of("yes")
    )  # It says nothing to the broker, which has the message until it expires.
    assert not loop.is_at_rest
    clock.turn(9.9)
    assert not loop.is_at_rest
    clock.turn(0.2)
    assert loop.is_at_rest
