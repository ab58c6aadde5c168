"""A listener that hangs loses its message to the retry topic, and what it says later counts no more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from cometmq import PushConsumerSettings
from cometmq.client.consumer.counts import Counts
from cometmq.client.consumer.listeners import verdict_of
from cometmq.client.consumer.pop.pop_loop import PopContext, PopLoop
from cometmq.client.consumer.push.concurrent import ConsumeTimeout, ListenerJob
from cometmq.client.outages import Outages
from cometmq.model.properties import POP_CK
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.net.tasks import Tasks
from tests.support.hand_clock import HandClock

TIMEOUT_MS = 900_000


class Queue:
    """What of a pull loop is told that messages are finished."""

    def __init__(self) -> None:
        self.finished: list[int] = []
        self.is_dropped = False

    def finish(self, _process_queue: object, offsets: list[int]) -> None:
        self.finished += offsets


def job(queue: Queue, *offsets: int) -> ListenerJob:
    messages = [
        SimpleNamespace(queue_offset=offset, queue="t@b:0", message_id="id")
        for offset in offsets
    ]
    # Of the loop and the messages only what `ConsumeTimeout` touches.
    return ListenerJob(queue, None, messages)  # type: ignore[arg-type]


class Broker:
    """Takes messages back, all but the one at an offset."""

    def __init__(self, *, refused: int | None = None) -> None:
        self.refused = refused
        self.given: list[int] = []

    async def give_back(self, message) -> bool:
        is_taken = message.queue_offset != self.refused
        if is_taken:
            self.given.append(message.queue_offset)
        return is_taken


def overdue_of(*offsets: int, refused: int | None = None):
    """A broker, a queue, its job that began too long ago, and what looks after it."""
    clock, broker, queue = HandClock(), Broker(refused=refused), Queue()
    overdue = ConsumeTimeout(TIMEOUT_MS, clock, broker.give_back)
    slow = job(queue, *offsets)
    overdue.begin(slow)
    clock.turn(901)
    return broker, queue, slow, overdue


async def test_what_takes_too_long_is_given_back_and_finished():
    clock, broker, queue = HandClock(), Broker(), Queue()
    overdue = ConsumeTimeout(TIMEOUT_MS, clock, broker.give_back)
    slow, fresh = job(queue, 1, 2), job(queue, 3)
    overdue.begin(slow)
    clock.turn(600)
    overdue.begin(fresh)
    clock.turn(300)
    await overdue.look()
    assert broker.given == []
    clock.turn(0.001)
    await overdue.look()
    assert broker.given == queue.finished == [1, 2]
    assert not overdue.end(slow)  # Its listener comes back at last.
    assert overdue.end(fresh)
    await overdue.look()
    assert broker.given == [1, 2]


async def test_what_nobody_takes_back_stays_with_its_listener():
    broker, queue, _, overdue = overdue_of(1, refused=1)
    await overdue.look()
    assert queue.finished == []
    broker.refused = None
    await overdue.look()
    assert queue.finished == [1]


async def test_what_was_taken_back_of_a_batch_is_not_given_back_again():
    broker, queue, slow, overdue = overdue_of(1, 2, 3, refused=2)
    await overdue.look()
    await overdue.look()
    assert broker.given == queue.finished == [1, 3]
    # Its listener comes back at last: what it says concerns only the one that is left.
    assert [message.queue_offset for message in overdue.end(slow)] == [2]
    assert not overdue.is_any()


async def test_what_is_left_of_a_batch_is_given_back_when_it_is_taken():
    broker, queue, slow, overdue = overdue_of(1, 2, 3, refused=2)
    await overdue.look()
    broker.refused = None
    await overdue.look()
    assert broker.given == queue.finished == [1, 3, 2]
    assert not overdue.end(slow)


async def test_what_another_member_has_by_now_is_not_given_back():
    broker, queue, slow, overdue = overdue_of(1)
    queue.is_dropped = True
    await overdue.look()
    assert broker.given == []
    assert not overdue.end(slow)


def test_it_looks_each_minute_by_default():
    assert ConsumeTimeout(TIMEOUT_MS, HandClock(), Broker().give_back).look_every_ms == 60_000


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
    settings = PushConsumerSettings(pop_invisible_ms=10_000)
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
