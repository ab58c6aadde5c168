"""What a member of a group does when things go wrong: real sockets, brokers that follow a script."""

import asyncio
import time
from typing import Any

import pytest

from cometmq import (
    AsyncPushConsumer,
    ConsumeFrom,
    MessageQueue,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.codec.bodies.queue_offsets import encode_queue_offsets
from cometmq.codec.record import Record, encode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.flags import COMPRESSED
from cometmq.model.names import retry_topic
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.on_loop import LoopWorld, Machines
from tests.support.scripted import (
    TOPIC,
    Script,
    Scripted,
    ScriptedCluster,
    nothing,
    refuse,
    until,
)

GROUP = "GID_script"
SETTINGS = PushConsumerSettings(
    consume_from=ConsumeFrom.FIRST, suspend_ms=100, persist_interval_ms=50
)


def log_of(*records: Record) -> Script:
    """Pulls of a broker's queue 0, answered from records."""
    end = str(len(records))

    def pull(command: Command, _peer: Peer) -> Answer:
        fields = command.fields
        found = records[int(fields["queueOffset"]) :] if fields["queueId"] == "0" else ()
        if fields["topic"] != TOPIC or not found:
            return nothing(command)
        answer = {"nextBeginOffset": end, "minOffset": "0", "maxOffset": end}
        return Answer(fields=answer, body=b"".join(map(encode_record, found)))

    return pull


def member(
    scripted: ScriptedCluster, listener: Any, settings: PushConsumerSettings = SETTINGS
) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        scripted.names.address, group=GROUP, listener=listener, subscriptions=[TOPIC],
        settings=settings,
    )  # fmt: skip


class Offsets(list[int]):
    """A listener that keeps the offsets of the messages that it was given."""

    async def listen(self, message: StoredMessage) -> None:
        self.append(message.queue_offset)


def record(offset: int, body: bytes = b"x", **fields) -> Record:
    return Record(
        topic=TOPIC, body=body, queue_offset=offset, physical_offset=1000 + offset, **fields
    )


async def test_a_message_that_cannot_be_unpacked_goes_to_the_dead_letters(scripted):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log_of(
        record(0, b"good"), record(1, b"not zlib", sys_flag=COMPRESSED), record(2, b"good too")
    )
    got: list[StoredMessage] = []
    async with member(scripted, got.append):
        await until(
            lambda: scripted.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK), "the dead letter"
        )
        await until(lambda: committed(scripted.a) == 3, "the offset behind all three")
    (back,) = scripted.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert (back.fields["offset"], back.fields["delayLevel"]) == ("1001", "-1")
    assert sorted(each.body for each in got) == [b"good", b"good too"]


def committed(broker: Scripted) -> int | None:
    """The offset that was last stored for queue 0 of the topic."""
    offsets = [
        int(each.fields["commitOffset"])
        for each in broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
        if (each.fields["topic"], each.fields["queueId"]) == (TOPIC, "0")
    ]
    return offsets[-1] if offsets else None


async def test_a_message_that_is_not_taken_back_is_sent_to_the_retry_topic(scripted):
    scripted.topics.add(retry_topic(GROUP))
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log_of(
        record(0, b"again", reconsume_times=2, property_block=b"k\x01v\x02")
    )
    scripted.a.scripts[RequestCode.CONSUMER_SEND_MSG_BACK] = refuse(ResponseCode.SYSTEM_ERROR)
    async with member(scripted, lambda _message: False):
        await until(lambda: sum(scripted.sends()) == 1, "the retry message")
        await until(lambda: committed(scripted.a) == 1, "the offset behind it")
    (sent,) = (
        each
        for broker in (scripted.a, scripted.b)
        for each in broker.requests(RequestCode.SEND_MESSAGE_V2)
    )
    assert (sent.fields["b"], sent.fields["j"], sent.body) == (
        retry_topic(GROUP),
        "3",
        b"again",
    )
    for part in ("k\x01v", f"RETRY_TOPIC\x01{TOPIC}", "DELAY\x015"):
        assert part in sent.fields["i"]


async def test_close_waits_for_running_listeners_and_stores_only_what_they_finished(scripted):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log_of(*(record(n) for n in range(3)))
    started, may_end = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    async def listen(message: StoredMessage) -> None:
        if message.queue_offset == 1:
            started.set()
            await may_end.wait()
        ended.append(message.queue_offset)

    consumer = member(scripted, listen)
    await consumer.start()
    await started.wait()
    await until(lambda: len(ended) == 2, "the others")
    await until(lambda: committed(scripted.a) == 1, "the offset of the one that still runs")
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    may_end.set()
    await closing
    assert committed(scripted.a) == 3
    assert len(scripted.a.requests(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_a_listener_that_never_ends_holds_close_only_for_its_time(scripted):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log_of(record(0))
    started = asyncio.Event()

    async def listen(_message: StoredMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, close_timeout_ms=100)
    async with member(scripted, listen, settings):
        await started.wait()
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert committed(scripted.a) in (None, 0)


async def test_a_reset_offset_is_followed_at_once(scripted):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = log_of(*(record(n) for n in range(5)))
    got = Offsets()
    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, persist_interval_ms=50)
    async with member(scripted, got.listen, settings):
        await until(lambda: len(got) == 5, "all five")
        body = encode_queue_offsets({MessageQueue(TOPIC, "a", 0): 3})
        fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
        scripted.a.peers[0].notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        await until(lambda: len(got) == 7, "two of them again")
    assert sorted(got) == [0, 1, 2, 3, 3, 4, 4]


async def test_a_broker_asks_in_vain_for_a_group_or_a_thing_that_is_not_here(scripted):
    async with member(scripted, print):
        await until(lambda: scripted.a.peers, "its connection")
        for code, group in (
            (RequestCode.GET_CONSUMER_RUNNING_INFO, "other"),
            (RequestCode.CHECK_CLIENT_CONFIG, GROUP),
        ):
            steps = scripted.a.peers[0].call(code, {"consumerGroup": group})
            answer = await Machines(LoopWorld(), "test").run(steps)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert group in (answer.remark or "")
            assert code.name in (answer.remark or "")


@pytest.mark.parametrize(
    "bound",
    # After 32 messages of 100 bytes a queue may be pulled once more, after 64 it may not.
    [{"queue_count_max": 50}, {"queue_bytes_max": 5_000}, {"queue_span_max": 50}],
    ids=lambda bound: next(iter(bound)),
)
async def test_a_full_cache_pauses_the_pulls_until_listeners_catch_up(scripted, bound):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = lambda command, _peer: endless(command)
    may_go_on = asyncio.Event()

    async def listen(_message: StoredMessage) -> None:
        await may_go_on.wait()

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=4, **bound)
    async with member(scripted, listen, settings):
        await until(lambda: pulls(scripted.a) >= 2, "pulls")
        await asyncio.sleep(0.2)
        held = pulls(scripted.a)
        assert held == 4, "each of the two queues was pulled twice"
        may_go_on.set()
        await until(lambda: pulls(scripted.a) > held + 4, "more pulls")


def pulls(broker: Scripted) -> int:
    return sum(
        each.fields["topic"] == TOPIC for each in broker.requests(RequestCode.PULL_MESSAGE)
    )


def endless(command: Command) -> Answer:
    start = int(command.fields["queueOffset"])
    fields = {"nextBeginOffset": str(start + 32), "minOffset": "0", "maxOffset": str(1 << 40)}
    records = (record(offset, bytes(100)) for offset in range(start, start + 32))
    body = b"".join(map(encode_record, records))
    return Answer(fields=fields, body=body)


async def test_a_broker_is_told_who_we_are_on_each_new_connection(scripted):
    async with member(scripted, print):
        await until(lambda: pulls(scripted.a) > 0, "a pull")
        told = len(scripted.a.requests(RequestCode.HEART_BEAT))
        for peer in list(scripted.a.server.peers):
            peer.close()
        # The next ordinary heartbeat would come in 30 s.
        await until(
            lambda: len(scripted.a.requests(RequestCode.HEART_BEAT)) > told, "a heartbeat"
        )


async def test_an_answer_that_makes_no_sense_stops_a_queue_only_until_it_does(scripted):
    answers: list[Script] = [
        # Offsets that fall, records cut short, no offsets at all: then what should have come.
        log_of(record(5), record(3)),
        lambda command, _peer: endless(command)._replace(body=b"\x00\x00\x00\x10garbage"),
        lambda _command, _peer: Answer(),
    ]
    good = log_of(record(0, b"good"))

    def pull(command: Command, peer: Peer) -> Answer | None:
        if command.fields["topic"] != TOPIC or command.fields["queueId"] != "0":
            return nothing(command)
        return (answers.pop() if answers else good)(command, peer)

    scripted.a.scripts[RequestCode.PULL_MESSAGE] = pull
    got: list[StoredMessage] = []
    async with member(scripted, got.append):
        await until(lambda: got, "the good message")
    assert {each.body for each in got} == {b"good"}
