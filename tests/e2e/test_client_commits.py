"""How a member of a group tells brokers where it stands: real sockets, brokers that follow a script."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cometmq import AsyncPushConsumer, ConsumeFrom, MessageQueue, PushConsumerSettings
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.settings import ClientSettings
from cometmq.codec.record import Record, encode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import NetError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.scripted import TOPIC, Scripted, ScriptedCluster, never, nothing, until

GROUP = "GID_commits"
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
EVERYWHERE = {MessageQueue(TOPIC, broker, number): 5 for broker in "ab" for number in (0, 1)}


@pytest.fixture
async def offsets(scripted) -> AsyncIterator[OffsetApi]:
    instance = ClientInstance(
        scripted.names.address, settings=ClientSettings(request_timeout_ms=300)
    )
    await instance.start()
    yield OffsetApi(instance)
    await instance.close()


def told(broker: Scripted) -> list[tuple[str, str]]:
    """(queue, offset) of each commit of the topic that came."""
    return [
        (each.fields["queueId"], each.fields["commitOffset"])
        for each in broker.requests(COMMIT)
        if each.fields["topic"] == TOPIC
    ]


async def test_the_first_offset_of_a_topic_is_stored_before_the_others_are_sent(
    scripted, offsets
):
    waiting: list[tuple[Peer, Command]] = []

    def later(command: Command, peer: Peer) -> None:
        waiting.append((peer, command))

    scripted.a.scripts[COMMIT] = later
    committing = asyncio.create_task(offsets.commit_all(GROUP, EVERYWHERE, answered=False))
    await until(lambda: waiting and len(told(scripted.b)) == 2, "both of b, one of a")
    await asyncio.sleep(0.05)
    assert len(told(scripted.a)) == 1
    peer, command = waiting.pop()
    peer.answer(command, Answer())
    await committing
    await until(lambda: len(told(scripted.a)) == 2, "the other one")
    assert sorted(told(scripted.a)) == [("0", "5"), ("1", "5")]


async def test_a_broker_that_does_not_answer_keeps_no_other_from_being_told(scripted, offsets):
    scripted.a.scripts[COMMIT] = never
    with pytest.raises(NetError):
        await offsets.commit_all(GROUP, EVERYWHERE)
    assert sorted(told(scripted.b)) == [("0", "5"), ("1", "5")]
    del scripted.a.scripts[COMMIT]
    await offsets.commit_all(GROUP, EVERYWHERE)
    assert {("0", "5"), ("1", "5")} <= set(told(scripted.a))


async def test_a_dead_broker_keeps_no_other_from_being_told(scripted, offsets):
    await scripted.a.server.close()
    with pytest.raises(NetError):
        await offsets.commit_all(GROUP, EVERYWHERE, answered=False)
    await until(lambda: len(told(scripted.b)) == 2, "both of b")


def one_message(command: Command, _peer: Peer) -> Answer:
    """The first message of queue 0, and nothing behind it."""
    fields = command.fields
    if (fields["topic"], fields["queueId"], fields["queueOffset"]) != (TOPIC, "0", "0"):
        return nothing(command)
    body = encode_record(Record(topic=TOPIC, body=b"x", queue_offset=0, physical_offset=1000))
    return Answer(
        fields={"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}, body=body
    )


def consumer_of(scripted: ScriptedCluster) -> AsyncPushConsumer:
    settings = PushConsumerSettings(
        consume_from=ConsumeFrom.FIRST, suspend_ms=100, persist_interval_ms=60_000
    )
    return AsyncPushConsumer(
        scripted.names.address, group=GROUP, listener=lambda _message: None,
        subscriptions=[TOPIC], settings=settings,
    )  # fmt: skip


async def test_close_returns_when_the_last_offset_is_stored(scripted):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = one_message
    waiting: list[tuple[Peer, Command]] = []

    def later(command: Command, peer: Peer) -> None:
        if not command.is_oneway:
            waiting.append((peer, command))

    consumer = consumer_of(scripted)
    await consumer.start()
    await until(
        lambda: consumer.statistics().get(TOPIC) and consumer.statistics()[TOPIC].consumed,
        "the message",
    )
    scripted.a.scripts[COMMIT] = later
    closing = asyncio.create_task(consumer.close())
    while not closing.done():
        await until(lambda: waiting or closing.done(), "a commit that wants an answer")
        assert waiting, "closed before its offsets were stored"
        assert not scripted.a.requests(RequestCode.UNREGISTER_CLIENT)
        while waiting:
            peer, command = waiting.pop()
            peer.answer(command, Answer())
        await asyncio.wait([closing], timeout=0.05)
    assert ("0", "1") in told(scripted.a)
    assert scripted.a.requests(RequestCode.UNREGISTER_CLIENT)
