"""What a console learns of our consumers through a broker: running state, offsets, one message again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.codec.bodies.running import DirectResult, decode_direct, decode_running
from cometmq.codec.fastjson import loads
from cometmq.codec.remoting import Command
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.codes import RequestCode
from cometmq.model.group import GroupConfig
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from tests.support.scripted import until

GROUP = "GID_asked"
TOPIC = "asked"
SETTINGS = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, persist_interval_ms=50)


class Console:
    """Asks a broker as mqadmin does."""

    def __init__(self, fresh: AsyncEmbedded) -> None:
        self._broker = fresh.broker
        self.channels = Channels(SystemClock())

    async def ask(self, code: int, **fields: str) -> Command:
        command = Command(int(code), fields=fields)
        return await self.channels.call(self._broker, command, timeout_ms=12_000)


@pytest.fixture
async def console(fresh: AsyncEmbedded) -> AsyncIterator[Console]:
    made = Console(fresh)
    yield made
    await made.channels.close()


class Consuming:
    """A consumer that has consumed one message."""

    def __init__(self, fresh: AsyncEmbedded, listen, **settings: object) -> None:
        self._listen = listen
        self.got: list[StoredMessage] = []
        self.message_id = ""
        self._fresh = fresh
        self.consumer = AsyncPushConsumer(
            fresh.nameserver, group=GROUP, listener=self._take, subscriptions=[TOPIC],
            settings=SETTINGS,
        )  # fmt: skip

    async def _take(self, message: StoredMessage) -> bool | None:
        self.got.append(message)
        return await self._listen(message) if len(self.got) > 1 else None

    async def __aenter__(self) -> "Consuming":
        async with AsyncProducer(self._fresh.nameserver) as producer:
            sent = await producer.send(Message(TOPIC, b"again"))
        self.message_id = sent.offset_message_id
        await self.consumer.start()
        await until(lambda: self.got, "the message")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.close()


async def yes(_message: StoredMessage) -> None: ...


async def no(_message: StoredMessage) -> bool:
    return False


async def fail(_message: StoredMessage) -> None:
    raise ValueError("no such order")


async def test_a_console_sees_settings_queues_rates_and_stacks(fresh, console):
    async with Consuming(fresh, yes) as consuming:
        answer = await console.ask(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            consumerGroup=GROUP, clientId=consuming.consumer.client_id, jstackEnable="true",
        )  # fmt: skip
        state = decode_running(answer.body)
    assert state.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert state.properties["PROP_NAMESERVER_ADDR"] == f"{fresh.nameserver};"
    assert state.properties["pull_count"] == "32"
    assert {each.topic for each in state.subscriptions} == {TOPIC, f"%RETRY%{GROUP}"}
    (queue,) = [q for q in state.queues if q == consuming.got[0].queue]
    assert state.queues[queue].commit_offset == 1
    assert state.queues[queue].consumed_ms >= state.queues[queue].pulled_ms - 60_000 > 0
    assert state.rates[TOPIC].ok_rate > 0
    assert "MainThread" in (state.stacks or "")


async def test_a_console_sees_what_was_popped_and_is_not_acknowledged(fresh, console):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def hold(_message: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    async with AsyncAdmin(fresh.nameserver) as admin:
        await admin.topics.create(TOPIC, queues=1)
        await admin.groups.create(GroupConfig(GROUP))
        await admin.topics.set_request_mode(TOPIC, GROUP, "POP")
    async with AsyncProducer(fresh.nameserver) as producer:
        await producer.send(Message(TOPIC, b"held"))
    async with AsyncPushConsumer(
        fresh.nameserver, group=GROUP, listener=hold, subscriptions=[TOPIC],
        settings=replace(SETTINGS, client_rebalance=False),
    ) as consumer:  # fmt: skip
        async with asyncio.timeout(60):
            await begun.wait()
        answer = await console.ask(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            consumerGroup=GROUP, clientId=consumer.client_id, jstackEnable="false",
        )  # fmt: skip
        may_end.set()
    (popped,) = [
        state for queue, state in decode_running(answer.body).pops.items()
        if queue.topic == TOPIC
    ]  # fmt: skip
    assert popped.waiting_count == 1
    assert popped.popped_ms > 0
    assert not popped.is_dropped


@pytest.mark.parametrize(
    ("listen", "result", "remark"),
    [
        (yes, DirectResult.SUCCESS, None),
        (no, DirectResult.LATER, None),
        (fail, DirectResult.EXCEPTION, "ValueError: no such order"),
    ],
)
async def test_one_message_is_given_again_and_the_verdict_comes_back(
    fresh, console, listen, result, remark
):
    async with Consuming(fresh, listen) as consuming:
        answer = await console.ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            consumerGroup=GROUP, clientId=consuming.consumer.client_id,
            msgId=consuming.message_id, topic=TOPIC,
        )  # fmt: skip
        outcome = decode_direct(answer.body)
        assert (outcome.result, outcome.remark) == (result, remark)
        assert [message.body for message in consuming.got] == [b"again"] * 2
        assert consuming.got[1].queue == consuming.got[0].queue
        assert consuming.consumer.statistics()[TOPIC].failed == 0


async def test_the_offsets_of_members_are_told(fresh, console):
    async with Consuming(fresh, yes):
        answer = await console.ask(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic=TOPIC, group=GROUP
        )
        ((client_id, offsets),) = loads(answer.body)["consumerTable"].items()
    assert "#" in client_id
    assert 1 in offsets.values()


async def test_a_reset_gives_everything_again(fresh, console):
    async with Consuming(fresh, yes) as consuming:
        await console.ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            topic=TOPIC, group=GROUP, timestamp="0", isForce="true",
        )  # fmt: skip
        await until(lambda: len(consuming.got) == 2, "the message again")


async def test_a_blocking_listener_answers_too_and_counts_what_it_did(fresh, console):
    got: list[StoredMessage] = []

    def listen(message: StoredMessage) -> bool:
        got.append(message)
        return len(got) > 1

    async with AsyncProducer(fresh.nameserver) as producer:
        sent = await producer.send(Message(TOPIC, b"again"))
    async with AsyncPushConsumer(
        fresh.nameserver, group=GROUP, listener=listen, subscriptions=[TOPIC],
        settings=SETTINGS,
    ) as consumer:  # fmt: skip
        await until(lambda: got, "the message")
        answer = await console.ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            consumerGroup=GROUP, clientId=consumer.client_id,
            msgId=sent.offset_message_id, topic=TOPIC,
        )  # fmt: skip
        assert decode_direct(answer.body).result is DirectResult.SUCCESS
        await until(lambda: consumer.statistics()[TOPIC].failed, "the count")
        counts = consumer.statistics()[TOPIC]
        assert (counts.pulled, counts.calls, counts.consumed, counts.failed) == (1, 1, 0, 1)
