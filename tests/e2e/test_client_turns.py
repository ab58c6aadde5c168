"""Sends of one turn of the loop leave together; each has its own queue, answer, attempts and deadline all the same."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cometmq import AsyncProducer, Message, MessageQueue, ProducerSettings, SendResult
from cometmq.codec.properties import decode_properties
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, CodecError, MessageError, SendFailed
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.scripted import TOPIC, ScriptedCluster, never, stored, until

SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
async def producer(scripted: ScriptedCluster) -> AsyncIterator[AsyncProducer]:
    settings = ProducerSettings(send_timeout_ms=1000, retry_pause_ms=1)
    async with AsyncProducer(scripted.names.address, settings=settings) as made:
        for _ in range(4):  # Each queue once: routes and connections are there.
            await made.send(Message(TOPIC, b"first"))
        for broker in (scripted.a, scripted.b):
            broker.asked.clear()
        yield made


def plain(count: int) -> list[Message]:
    return [Message(TOPIC, b"%d" % number) for number in range(count)]


def bodies(scripted: ScriptedCluster) -> list[list[bytes]]:
    """What came to each broker, in its order."""
    return [
        [
            each.body
            for each in broker.asked
            if each.code in (SEND, RequestCode.SEND_BATCH_MESSAGE)
        ]
        for broker in (scripted.a, scripted.b)
    ]


def ids(scripted: ScriptedCluster) -> dict[bytes, set[str]]:
    """The ids under which each body came."""
    found: dict[bytes, set[str]] = {}
    for broker in (scripted.a, scripted.b):
        for each in broker.requests(SEND):
            unique = decode_properties(each.fields["i"].encode())["UNIQ_KEY"]
            found.setdefault(each.body, set()).add(f"{unique} {each.fields['g']}")
    return found


async def test_each_goes_to_the_next_queue_and_gets_its_own_result(scripted, producer):
    results = await asyncio.gather(*map(producer.send, plain(300)))
    queues = [result.queue for result in results]
    assert {queues.count(queue) for queue in set(queues)} == {75}
    assert all(queues[at] == queues[at + 4] for at in range(296))
    assert ids(scripted) == {
        b"%d" % number: {f"{result.message_id} {born(scripted, number)}"}
        for number, result in enumerate(results)
    }
    for came in bodies(scripted):
        assert came == sorted(came, key=int)


def born(scripted: ScriptedCluster, number: int) -> str:
    """When the message was born whose body is this number, as its broker was told."""
    both = [*scripted.a.requests(SEND), *scripted.b.requests(SEND)]
    return next(each.fields["g"] for each in both if each.body == b"%d" % number)


async def test_what_is_not_plain_keeps_its_place_among_the_others(scripted, producer):
    here = MessageQueue(TOPIC, "a", 1)
    sends = []
    for number in range(0, 60, 6):
        body = [b"%d" % (number + place) for place in range(6)]
        sends += [
            producer.send(Message(TOPIC, body[0])),
            producer.send(
                Message(TOPIC, body[1], keys=("a", "b"), properties={"name": "value"})
            ),
            producer.send(Message(TOPIC, body[2]), queue=here),
            producer.send(Message(TOPIC, body[3], tag="é")),
            producer.send(Message(TOPIC, body[4], tag="t", keys="k", flag=number)),
            producer.send(Message(TOPIC, body[5]), timeout_ms=900),
        ]
    results: list[SendResult] = await asyncio.gather(*sends)
    assert [result.queue for result in results[2::6]] == [here] * 10
    for came in bodies(scripted):
        assert came == sorted(came, key=int)
    assert sum(map(len, bodies(scripted))) == 60


async def test_a_batch_goes_behind_what_was_sent_before_it(scripted, producer):
    scripted.a.scripts[RequestCode.SEND_BATCH_MESSAGE] = stored
    lone = [producer.send(message) for message in plain(9)]
    batch = producer.send_batch([Message(TOPIC, b"batch")], queue=MessageQueue(TOPIC, "a", 0))
    await asyncio.gather(*lone, batch)
    at_a = bodies(scripted)[0]
    assert len(at_a[-1]) > len(b"batch")
    assert all(len(body) == 1 for body in at_a[:-1])


async def test_one_bad_answer_is_the_trouble_of_one_send(scripted, producer):
    def answer(command: Command, peer: Peer) -> Answer | None:
        number = int(command.body)
        if number % 5 == 1:
            return Answer(ResponseCode.MESSAGE_ILLEGAL, "as the script says")
        if number % 5 == 2:
            return Answer(fields={"msgId": "1"})
        if number % 5 == 3:
            elsewhere = {"queueId": "9", "queueOffset": "5", "msgId": "ü"}
            return Answer(fields=elsewhere)
        return stored(command, peer)

    scripted.answer_sends(answer)
    results = await asyncio.gather(*map(producer.send, plain(50)), return_exceptions=True)
    for number, result in enumerate(results):
        wanted = (SendResult, BrokerRefused, CodecError, SendResult, SendResult)[number % 5]
        assert isinstance(result, wanted), (number, result)
    ended = [result for result in results if isinstance(result, SendResult)]
    assert [result.queue.queue_id for result in ended].count(9) == 10
    assert sum(map(len, bodies(scripted))) == 50


async def test_what_one_broker_cannot_the_other_is_asked_with_the_same_id(scripted, producer):
    scripted.a.scripts[SEND] = lambda _command, _peer: Answer(ResponseCode.SYSTEM_BUSY, "busy")
    results = await asyncio.gather(*map(producer.send, plain(40)))
    assert {result.queue.broker_name for result in results} == {"b"}
    assert len(bodies(scripted)[0]) == 20
    for number, result in enumerate(results):
        (known,) = ids(scripted)[b"%d" % number]
        assert known.startswith(result.message_id)


async def test_the_next_attempt_is_of_the_message_as_it_left(scripted, producer):
    properties: dict[str, str] = {}

    def busy(_command: Command, _peer: Peer) -> Answer:
        properties["name"] = "\x01 that no record can hold"
        return Answer(ResponseCode.SYSTEM_BUSY, "busy")

    scripted.a.scripts[SEND] = busy
    sends = [Message(TOPIC, b"%d" % number, properties=properties) for number in range(40)]
    results = await asyncio.gather(*map(producer.send, sends))
    assert properties
    assert {result.queue.broker_name for result in results} == {"b"}
    for request in scripted.b.requests(SEND):
        assert decode_properties(request.fields["i"].encode()).keys() == {"WAIT", "UNIQ_KEY"}


async def test_a_connection_that_breaks_is_another_attempt_of_each(scripted, producer):
    def hang_up(command: Command, peer: Peer) -> Answer | None:
        if int(command.body) < 20:
            return stored(command, peer)
        peer.close()
        return None

    scripted.a.scripts[SEND] = hang_up
    results = await asyncio.gather(*map(producer.send, plain(60)))
    assert {result.queue.broker_name for result in results[20:]} == {"b"}
    assert {len(each) for each in ids(scripted).values()} == {1}


async def test_whoever_gets_no_answer_learns_it_in_its_time(scripted, producer):
    scripted.answer_sends(
        lambda command, peer: (stored if int(command.body) % 3 else never)(command, peer)
    )
    results = await asyncio.gather(*map(producer.send, plain(30)), return_exceptions=True)
    for number, result in enumerate(results):
        assert isinstance(result, SendResult if number % 3 else SendFailed), (number, result)
    again = await producer.send(Message(TOPIC, b"1"))
    assert again.queue_offset == 7


async def test_who_gave_up_harms_no_other_and_makes_room(scripted):
    settings = ProducerSettings(in_flight_max=10)
    async with AsyncProducer(scripted.names.address, settings=settings) as producer:
        await producer.send(Message(TOPIC, b"first"))
        for _ in range(5):
            sends = [producer.send(message) for message in plain(30)]
            for send in sends[::2]:
                send.cancel()
            for result in await asyncio.gather(*sends[1::2]):
                assert result.queue_offset == 7


async def test_what_cannot_be_sent_is_said_where_it_is_awaited(scripted, producer):
    sends = [producer.send(message) for message in plain(3)]
    bad = [
        producer.send(Message("SCHEDULE_TOPIC_XXXX", b"x")),
        producer.send(Message(TOPIC, bytes(5 << 20))),
        producer.send("a text"),
        producer.send(Message(TOPIC, b"x", keys="k" * 32_720)),
    ]
    sends += [producer.send(message) for message in plain(3)]
    assert len(await asyncio.gather(*sends)) == 6
    for send in bad:
        with pytest.raises(MessageError):
            await send
    assert sum(map(len, bodies(scripted))) == 6


async def test_sends_under_way_together_end_when_the_producer_closes(scripted):
    for broker in (scripted.a, scripted.b):
        broker.scripts[SEND] = lambda command, peer: (
            stored(command, peer) if command.body == b"first" else None
        )
    async with AsyncProducer(scripted.names.address) as producer:
        await producer.send(Message(TOPIC, b"first"))
        sends = [producer.send(message) for message in plain(40)]
        await until(lambda: sum(map(len, bodies(scripted))) > 30, "the requests")
        late = [producer.send(message) for message in plain(5)]
    for send in [*sends, *late]:
        assert isinstance(send.exception(), Exception)
