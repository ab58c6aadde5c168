"""Pulls that a consumer asks before it looks at the messages of the answer before: real sockets, brokers that follow a script."""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Any

from cometmq import AsyncPushConsumer, ConsumeFrom, MessageQueue, PushConsumerSettings
from cometmq.client.consumer.pull import pull_loop, received
from cometmq.codec.bodies.queue_offsets import encode_queue_offsets
from cometmq.codec.record import Record, encode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.flags import COMPRESSED
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.scripted import TOPIC, ScriptedCluster, nothing, until

GROUP = "GID_ahead"
PULLED = 32


class Log:
    """Queue 0 of the topic at a broker: so many messages, of which a pull gets 32; special answers come first, each once."""

    def __init__(self, count: int, body: bytes = b"x", sys_flag: int = 0) -> None:
        self.count, self.body, self.sys_flag = count, body, sys_flag
        self.asked: list[int] = []
        self.special: dict[int, Answer | None] = {}
        self.held: list[tuple[Command, Peer]] = []

    def pull(self, command: Command, peer: Peer) -> Answer | None:
        if (command.fields["topic"], command.fields["queueId"]) != (TOPIC, "0"):
            return nothing(command)
        start = int(command.fields["queueOffset"])
        self.asked.append(start)
        if start in self.special:
            answer = self.special.pop(start)
            if answer is None:
                self.held.append((command, peer))
            return answer
        return self.found(start) if start < self.count else nothing(command)

    def found(self, start: int, body: bytes | None = None) -> Answer:
        behind = min(start + PULLED, self.count)
        records = b"".join(encode_record(self.record(each)) for each in range(start, behind))
        fields = {
            "nextBeginOffset": str(behind), "minOffset": "0", "maxOffset": str(self.count),
        }  # fmt: skip
        return Answer(fields=fields, body=records if body is None else body)

    def record(self, offset: int) -> Record:
        return Record(
            topic=TOPIC, body=self.body, queue_offset=offset, physical_offset=1000 + offset,
            sys_flag=self.sys_flag,
        )  # fmt: skip


class Got:
    """A listener that keeps the offsets that it was given."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def listen(self, messages: Sequence[object]) -> None:
        self.offsets += [each.queue_offset for each in messages]  # type: ignore[attr-defined]


def consumer(
    scripted: ScriptedCluster, log: Log, got: Got, **settings: Any
) -> AsyncPushConsumer:
    del scripted.brokers["b"]
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log.pull
    return AsyncPushConsumer(
        scripted.names.address, group=GROUP, batch_listener=got.listen, subscriptions=[TOPIC],
        settings=PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST, suspend_ms=100, persist_interval_ms=50, **settings
        ),
    )  # fmt: skip


async def test_an_answer_that_cannot_be_read_is_asked_for_again_and_what_was_asked_ahead_is_thrown_away(
    scripted, monkeypatch
):
    monkeypatch.setattr(pull_loop, "_FAILURE_PAUSE", 0.05)
    log, got = Log(96), Got()
    log.special[0] = log.found(0, b"no record")
    async with consumer(scripted, log, got):
        await until(lambda: len(got.offsets) >= 96, "all messages")
        await asyncio.sleep(0.05)
    assert log.asked[:3] == [0, 32, 0]
    assert got.offsets == list(range(96))


async def test_what_is_asked_ahead_of_a_reset_brings_nothing(scripted):
    log, got = Log(96), Got()
    log.special[64] = None  # It is held.
    async with consumer(scripted, log, got):
        await until(
            lambda: len(got.offsets) == 64 and log.held, "two answers, and a third pull"
        )
        body = encode_queue_offsets({MessageQueue(TOPIC, "a", 0): 40})
        fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
        ((command, peer),) = log.held
        peer.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        await until(lambda: len(got.offsets) == 64 + 56, "those from the reset on")
        peer.answer(command, log.found(64))
        await asyncio.sleep(0.05)
    assert log.asked[:5] == [0, 32, 64, 40, 72]
    assert got.offsets == [*range(64), *range(40, 96)]


async def test_a_paused_consumer_asks_for_nothing_ahead(scripted):
    log, got = Log(96), Got()
    log.special[0] = None
    async with consumer(scripted, log, got) as member:
        await until(lambda: log.held, "a pull")
        member.pause()
        ((command, peer),) = log.held
        peer.answer(command, log.found(0))
        await until(lambda: len(got.offsets) == PULLED, "what came of it")
        await asyncio.sleep(0.05)
        assert log.asked == [0]
        member.resume()
        await until(lambda: len(got.offsets) == 96, "the others")
    assert got.offsets == list(range(96))


async def test_what_is_left_of_an_answer_that_grows_too_much_is_asked_for_instead(
    scripted, monkeypatch
):
    for bound in ("GROWTH_AT_ONCE", "GROWTH_MAX"):
        monkeypatch.setattr(received, bound, 1 << 20)
    log, got = Log(96, zlib.compress(bytes(100_000)), COMPRESSED), Got()
    async with consumer(scripted, log, got, body_size_max=1 << 20):
        await until(lambda: len(got.offsets) >= 96, "all messages")
        await asyncio.sleep(0.05)
    assert log.asked[:2] == [0, 32]
    assert log.asked[2] < PULLED, "the rest of the first answer"
    assert got.offsets == list(range(96))


async def test_a_full_cache_takes_no_answer_that_was_asked_ahead(scripted):
    """Bodies that grow are not counted before they are unpacked: an answer that was asked for before waits."""
    log = Log(320, zlib.compress(bytes(1000)), COMPRESSED)
    may_go_on = asyncio.Event()
    got = Got()

    async def listen(messages: Sequence[object]) -> None:
        await may_go_on.wait()
        await Got.listen(got, messages)

    got.listen = listen  # type: ignore[method-assign]
    async with consumer(scripted, log, got, queue_bytes_max=40_000) as member:
        await until(lambda: log.asked[-1:] == [64], "what was asked ahead")
        await asyncio.sleep(0.1)
        assert member._cached()[TOPIC] == (64, 64_000)
        assert log.asked == [0, 32, 64]
        may_go_on.set()
        await until(lambda: len(got.offsets) == 320, "all messages")
    assert got.offsets == list(range(320))
