"""How many sends are under way, and how often a broker that cannot is asked again."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from cometmq import AsyncProducer, Message, ProducerSettings, SendResult
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ClientClosed, RequestTimeout, SendFailed
from cometmq.net.peer import Peer
from tests.support.scripted import TOPIC, ScriptedCluster, never, refuse, stored, until


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    made = ScriptedCluster()
    del made.brokers["b"]
    async with made.names, made.a, made.b:
        yield made


class Slow:
    """Answers sends when it is told to."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.held: list[tuple[Command, Peer]] = []
        self.bodies: list[bytes] = []
        cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = self.hold

    def hold(self, command: Command, peer: Peer) -> None:
        self.held.append((command, peer))
        self.bodies.append(command.body)

    def answer(self, count: int) -> None:
        for command, peer in self.held[:count]:
            answer = stored(command, peer)
            peer.answer(command, answer)
        del self.held[:count]


def start(cluster: ScriptedCluster, **settings) -> AsyncProducer:
    return AsyncProducer(cluster.names.address, settings=ProducerSettings(**settings))


async def test_no_more_sends_are_under_way_than_were_allowed_and_all_go_in_order(cluster):
    slow = Slow(cluster)
    async with start(cluster, in_flight_max=2) as producer:
        sends = [producer.send(Message(TOPIC, b"%d" % n)) for n in range(6)]
        await until(lambda: len(slow.held) == 2, "two of them")
        await asyncio.sleep(0.05)
        assert slow.bodies == [b"0", b"1"]
        for count in (2, 1, 2, 1):
            slow.answer(count)
            await until(lambda: len(slow.held) == min(2, 6 - sum(map(_is_done, sends))), "more")
        await asyncio.gather(*sends)
    assert slow.bodies == [b"%d" % n for n in range(6)]


def _is_done(send: asyncio.Future[SendResult]) -> bool:
    return send.done()


async def test_long_bodies_count_by_their_bytes(cluster):
    slow = Slow(cluster)
    async with start(cluster, in_flight_bytes_max=1000, compress_over=1 << 20) as producer:
        sends = [producer.send(Message(TOPIC, bytes(600))) for _ in range(4)]
        await until(lambda: len(slow.held) == 2, "two of them")
        await asyncio.sleep(0.05)
        assert len(slow.held) == 2
        slow.answer(2)
        await until(lambda: len(slow.held) == 2, "the others")
        slow.answer(2)
        await asyncio.gather(*sends)


async def test_a_send_that_fails_or_is_cancelled_makes_room_too(cluster):
    slow = Slow(cluster)
    async with start(cluster, in_flight_max=1, retries=0) as producer:
        first = producer.send(Message(TOPIC, b"1"), timeout_ms=100)
        second = producer.send(Message(TOPIC, b"2"))
        third = producer.send(Message(TOPIC, b"3"))
        with pytest.raises(SendFailed):
            await first
        await until(lambda: slow.bodies == [b"1", b"2"], "the second")
        second.cancel()
        slow.answer(2)
        await until(lambda: slow.bodies == [b"1", b"2", b"3"], "the third")
        slow.answer(1)
        await third


async def test_what_waits_for_room_fails_in_its_time_and_when_the_producer_closes(cluster):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = never
    producer = start(cluster, in_flight_max=1, retries=0)
    async with producer:
        sends = [producer.send(Message(TOPIC, b"x"), timeout_ms=150) for _ in range(3)]
        done = await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), 5)
        assert all(isinstance(each, SendFailed | RequestTimeout) for each in done)
        waiting = [producer.send(Message(TOPIC, b"x")) for _ in range(3)]
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, ClientClosed | SendFailed) for each in done), done


async def test_a_send_that_waits_for_room_is_not_written_once_its_time_is_over_or_it_was_cancelled(
    cluster,
):
    slow = Slow(cluster)
    async with start(cluster, in_flight_max=1) as producer:
        first = producer.send(Message(TOPIC, b"1"))
        late = producer.send(Message(TOPIC, b"late"), timeout_ms=50)
        cancelled = producer.send(Message(TOPIC, b"cancelled"))
        last = producer.send(Message(TOPIC, b"2"))
        with pytest.raises(SendFailed, match="in_flight_max"):
            await asyncio.wait_for(late, 1)
        cancelled.cancel()
        for send in (first, last):
            await until(lambda: slow.held, "a send")
            slow.answer(1)
            await send
    assert slow.bodies == [b"1", b"2"]


async def test_a_send_that_its_caller_cancels_during_a_pause_is_not_tried_again(cluster):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_BUSY)
    async with start(cluster, retry_pause_ms=50) as producer:
        send = producer.send(Message(TOPIC, b"x"))
        await until(lambda: cluster.sends()[0] == 1, "the first attempt")
        await asyncio.sleep(0.01)
        send.cancel()
        await asyncio.sleep(0.1)
    assert cluster.sends()[0] == 1


async def test_a_busy_broker_is_given_ever_more_time(cluster):
    times: list[float] = []

    def busy(_command: Command, _peer: Peer):
        times.append(time.monotonic())
        return refuse(ResponseCode.SYSTEM_BUSY)(_command, _peer)

    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = busy
    async with start(cluster, retry_pause_ms=100, retries=3) as producer:
        with pytest.raises(SendFailed, match="4 attempt"):
            await producer.send(Message(TOPIC, b"x"))
    pauses = [after - before for before, after in pairwise(times)]
    assert len(pauses) == 3
    for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True):
        assert least - 0.01 <= pause


async def test_another_broker_is_asked_at_once(cluster):
    cluster.brokers["b"] = cluster.b
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_BUSY)
    async with start(cluster, retry_pause_ms=60_000) as producer:
        sent = await asyncio.gather(*(producer.send(Message(TOPIC, b"x")) for _ in range(4)))
    assert {result.queue.broker_name for result in sent} == {"b"}
