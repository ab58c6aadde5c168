"""A push consumer whose queues the broker shares out: it pulls or pops, as an administrator says."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cometmq import (
    AsyncAdmin,
    AsyncPushConsumer,
    AsyncSimpleConsumer,
    ConsumeFrom,
    PushConsumerSettings,
    SimpleConsumerSettings,
    StoredMessage,
)
from cometmq.client.consumer.pop.pops import Popper
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.group import GroupConfig
from cometmq.model.names import pop_retry_topic, retry_topic
from cometmq.model.properties import POP_CK
from tests.support import topics
from tests.support.scripted import until

TOPIC, GROUP = "orders", "billing"
SETTINGS = PushConsumerSettings(
    consume_from=ConsumeFrom.FIRST,
    client_rebalance=False,
    suspend_ms=1_000,
    rebalance_interval_ms=500,
    pop_delays_ms=(200,),
    retries_max=2,
)


class Listener:
    """Remembers what it was given; refuses what it is told to."""

    def __init__(self, refused: dict[bytes, int] | None = None) -> None:
        self.got: list[StoredMessage] = []
        self.refused = Counter(refused or {})

    async def __call__(self, message: StoredMessage) -> bool:
        self.got.append(message)
        self.refused[message.body] -= 1
        return self.refused[message.body] < 0

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.got)

    @property
    def popped(self) -> int:
        return sum(POP_CK in message.properties for message in self.got)


@pytest.fixture
async def names(fresh: AsyncEmbedded) -> str:
    """A cluster where the group pops the topic."""
    async with AsyncAdmin(fresh.nameserver) as admin:
        await admin.topics.create(TOPIC, queues=4)
        await admin.groups.create(GroupConfig(GROUP))
        await admin.topics.set_request_mode(TOPIC, GROUP, "POP")
    return fresh.nameserver


def consumer(
    names: str, listener, settings: PushConsumerSettings = SETTINGS
) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        names, group=GROUP, listener=listener, subscriptions=[TOPIC], settings=settings
    )


async def send(names: str, *bodies: bytes) -> None:
    await topics.send_async(names, TOPIC, *bodies)


def numbers(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def simple(names: str) -> AsyncSimpleConsumer:
    """Another member, which pops by itself."""
    settings = SimpleConsumerSettings(consume_from=ConsumeFrom.FIRST)
    return AsyncSimpleConsumer(names, group=GROUP, subscriptions=[TOPIC], settings=settings)


async def nothing_left(names: str) -> None:
    """Every message was acknowledged: nothing of the group is hidden, and nothing comes again."""
    async with simple(names) as other:
        assert await other.receive(32, wait_ms=500) == []


async def test_every_member_pops_of_all_queues_and_each_message_is_one_members(names):
    one, two = Listener(), Listener()
    async with consumer(names, one), consumer(names, two):
        await send(names, *numbers(100))
        await until(lambda: len(one.got) + len(two.got) >= 100, "all messages")
    assert sorted(one.bodies + two.bodies) == numbers(100)
    assert one.popped + two.popped == 100
    await nothing_left(names)


async def test_what_is_refused_comes_again_and_in_the_end_is_a_dead_letter(names):
    listener = Listener({b"later": 1, b"poison": 99})
    async with consumer(names, listener):
        await send(names, b"good", b"later", b"poison")
        await until(lambda: len(listener.got) >= 1 + 2 + 3, "the tries of all")
        dead = Listener()
        async with AsyncPushConsumer(
            names, group="dead", listener=dead, subscriptions=[f"%DLQ%{GROUP}"],
            settings=replace(SETTINGS, client_rebalance=True),
        ):  # fmt: skip
            await until(lambda: dead.bodies == [b"poison"], "the dead letter")
    times = Counter(message.body for message in listener.got)
    assert times == {b"good": 1, b"later": 2, b"poison": 3}
    assert {message.topic for message in listener.got} == {TOPIC}
    assert [m.reconsume_times for m in listener.got if m.body == b"poison"] == [0, 1, 2]


async def test_a_close_gives_back_what_no_listener_has_begun_with(names):
    begun: list[bytes] = []
    may_end = asyncio.Event()

    async def hold(message: StoredMessage) -> None:
        begun.append(message.body)
        await may_end.wait()

    await send(names, *numbers(20))
    one_by_one = replace(SETTINGS, concurrency=1)
    first = consumer(names, hold, one_by_one)
    await first.start()
    await until(lambda: len(begun) == 1, "a first message")
    closing = asyncio.ensure_future(first.close())
    await asyncio.sleep(0.1)
    may_end.set()
    await closing
    listener = Listener()
    async with consumer(names, listener):
        # Long before the minute for which they were hidden.
        await until(lambda: len(listener.got) + len(begun) >= 20, "all others")
    assert sorted(listener.bodies + begun) == numbers(20)


async def test_a_close_gives_back_what_is_on_its_way(names, monkeypatch):
    sent_at_once, pop = asyncio.Event(), Popper.pop

    async def slowly(self: Popper, *args: Any, **kwargs: Any) -> list[StoredMessage]:
        messages = await pop(self, *args, **kwargs)
        if messages:
            sent_at_once.set()
            await asyncio.sleep(0.1)
        return messages

    await send(names, *numbers(4))
    monkeypatch.setattr(Popper, "pop", slowly)
    first = Listener()
    async with consumer(names, first):
        async with asyncio.timeout(20):
            await sent_at_once.wait()
    monkeypatch.undo()
    listener = Listener()
    async with consumer(names, listener):
        # Long before the minute for which they were hidden.
        await until(lambda: len(listener.got) + len(first.got) >= 4, "all")
    assert sorted(listener.bodies + first.bodies) == numbers(4)


async def test_a_group_goes_from_pop_to_pull_and_back_while_it_runs(names):
    listener = Listener()

    async def send_until(is_it) -> None:
        async with asyncio.timeout(60):
            while not is_it():
                await send(names, b"more")
                await asyncio.sleep(0.2)

    async with consumer(names, listener), AsyncAdmin(names) as admin:
        await send_until(lambda: listener.popped)
        await admin.topics.set_request_mode(TOPIC, GROUP, "PULL")
        await send_until(lambda: listener.popped < len(listener.got))
        await admin.topics.set_request_mode(TOPIC, GROUP, "POP")
        popped = listener.popped
        await send_until(lambda: listener.popped > popped)


async def test_who_pulls_also_gets_what_was_popped_and_never_acknowledged(names):
    await send(names, b"one")
    async with simple(names) as other:
        assert len(await other.receive(invisible_ms=500, wait_ms=30_000)) == 1
    async with AsyncAdmin(names) as admin:
        await admin.topics.set_request_mode(TOPIC, GROUP, "PULL")
    listener = Listener()
    async with consumer(names, listener):
        # The group's offset may still be in front of it: then it is pulled from there first.
        await until(
            lambda: any(message.reconsume_times == 1 for message in listener.got),
            "what waits in the retry topic",
        )
    assert set(listener.bodies) == {b"one"}
    assert listener.popped == 0


# Nothing but the end of a subscription makes it rebalance in time.
SELDOM = replace(SETTINGS, suspend_ms=100, rebalance_interval_ms=60_000)


async def is_left_to_others(names: str, body: bytes) -> None:
    """A message that is sent now is popped by another member."""
    await asyncio.sleep(1)  # Pops that were sent before the end of the subscription end.
    await send(names, body)
    await asyncio.sleep(0.5)
    async with simple(names) as other:
        assert [each.body for each in await other.receive(wait_ms=5_000)] == [body]


async def test_a_topic_that_is_unsubscribed_is_popped_no_more(names):
    listener = Listener()
    async with consumer(names, listener, SELDOM) as popping:
        await send(names, b"before")
        await until(lambda: listener.popped, "a popped message")
        popping.unsubscribe(TOPIC)
        await is_left_to_others(names, b"after")
    assert listener.bodies == [b"before"]


async def test_a_topic_that_is_unsubscribed_has_its_queue_of_retries_pulled_no_more(names):
    async with AsyncAdmin(names) as admin:
        await admin.topics.set_request_mode(TOPIC, GROUP, "PULL")
    async with consumer(names, Listener(), SELDOM) as pulling:
        member = pulling._member
        await until(lambda: pop_retry_topic(TOPIC, GROUP) in member.topics(), "its retries")
        pulling.unsubscribe(TOPIC)
        assert member.topics() == [retry_topic(GROUP)]
        await until(
            lambda: {each.topic for each in member.loops} <= {retry_topic(GROUP)}, "one"
        )


async def test_a_queue_that_is_popped_no_more_while_the_consumer_is_paused_is_not_popped_once_again(
    names,
):
    listener = Listener()
    async with (
        AsyncAdmin(names) as admin,
        consumer(names, listener, replace(SETTINGS, suspend_ms=100)) as member,
    ):
        state = member._member.callbacks.running
        await until(lambda: state().pops, "loops that pop")
        member.pause()
        await admin.topics.set_request_mode(TOPIC, GROUP, "PULL")
        await until(lambda: not state().pops, "loops that pull")
        await send(names, *numbers(20))
        member.resume()
        await until(lambda: set(listener.bodies) >= set(numbers(20)), "all messages")
    assert listener.popped == 0


async def test_orderly_consumers_never_pop(names):
    listener = Listener()
    async with consumer(names, listener, replace(SETTINGS, orderly=True)):
        await send(names, *numbers(10))
        await until(lambda: listener.bodies == numbers(10), "all messages")
    assert listener.popped == 0


async def test_a_consumer_that_is_paused_pops_nothing_more_when_there_is_room_again(names):
    began, goes_on, calls = asyncio.Event(), asyncio.Event(), []

    async def listener(message: StoredMessage) -> None:
        calls.append(message.body)
        began.set()
        await goes_on.wait()

    one_at_a_time = replace(SETTINGS, pop_count=1, pop_queue_count_max=1)
    async with AsyncAdmin(names) as admin:
        await admin.topics.create(TOPIC, queues=1)
    await send(names, *numbers(3))
    async with consumer(names, listener, one_at_a_time) as popping:
        await asyncio.wait_for(began.wait(), 30)
        await asyncio.sleep(0.2)
        popping.pause()
        goes_on.set()
        await asyncio.sleep(1)
        assert len(calls) == 1
        popping.resume()
        await until(lambda: len(calls) == 3, "all three")
