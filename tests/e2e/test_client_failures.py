"""What the client does when brokers and nameservers fail: real sockets, servers that follow a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from cometmq.client import (
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    MessageQueue,
    ProducerSettings,
    PushSettings,
    SendStatus,
    StoredMessage,
)
from cometmq.codec.bodies.consumer import encode_consumer_ids
from cometmq.codec.bodies.heartbeat import decode_heartbeat
from cometmq.codec.bodies.queue_offsets import encode_queue_offsets
from cometmq.codec.bodies.route import encode_topic_route
from cometmq.codec.record import Record, encode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    ClientClosed,
    CodecError,
    NetError,
    RequestTimeout,
    SendFailed,
    TopicNotFound,
)
from cometmq.model.flags import COMPRESSED
from cometmq.model.names import retry_topic
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.net.answer import Answer
from cometmq.net.clock import SystemClock
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.peer import Peer
from cometmq.net.server import Server
from tests.support.processes import free_port

TOPIC = "T"
GROUP = "GID_script"
SECONDS_MAX = 10.0

Script = Callable[[Command, Peer], Answer | None]


class Scripted:
    """A server on a free port that answers by `scripts`; keeps what it was asked."""

    def __init__(self) -> None:
        self.scripts: dict[int, Script] = {}
        self.asked: list[Command] = []
        self.peers: list[Peer] = []
        self.address = ""
        dispatcher = Dispatcher()
        for code in RequestCode:
            dispatcher.register(code, self._answer)
        self.server = Server(dispatcher, SystemClock())

    def _answer(self, command: Command, peer: Peer) -> Answer | None:
        self.asked.append(command)
        if peer not in self.peers:
            self.peers.append(peer)
        script = self.scripts.get(command.code)
        return script(command, peer) if script else Answer()

    def requests(self, code: int) -> list[Command]:
        return [command for command in self.asked if command.code == code]

    async def __aenter__(self) -> Scripted:
        self.address = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()


class Cluster:
    """A scripted nameserver and two scripted brokers, each with two queues of the topic."""

    def __init__(self) -> None:
        self.names, self.a, self.b = Scripted(), Scripted(), Scripted()
        self.client_ids: set[str] = set()
        self.names.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self.route
        self.brokers = {"a": self.a, "b": self.b}
        self.topics = {TOPIC}
        for broker in (self.a, self.b):
            broker.scripts = {
                RequestCode.SEND_MESSAGE_V2: stored,
                RequestCode.HEART_BEAT: self.beat,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members,
                RequestCode.QUERY_CONSUMER_OFFSET: refuse(ResponseCode.QUERY_NOT_FOUND),
                RequestCode.PULL_MESSAGE: lambda command, _peer: nothing(command),
            }

    def route(self, command: Command, _peer: Peer) -> Answer:
        if command.fields["topic"] not in self.topics:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        route = TopicRoute(
            tuple(QueueData(name, 2, 2, 6) for name in self.brokers),
            tuple(
                BrokerData("c", name, {0: each.address}) for name, each in self.brokers.items()
            ),
        )
        return Answer(body=encode_topic_route(route, is_standard=True))

    def beat(self, command: Command, _peer: Peer) -> Answer:
        self.client_ids.add(decode_heartbeat(command.body).client_id)
        return Answer()

    def members(self, _command: Command, _peer: Peer) -> Answer:
        return Answer(body=encode_consumer_ids(self.client_ids))

    def sends(self) -> list[int]:
        """How many messages came to each broker."""
        return [len(each.requests(RequestCode.SEND_MESSAGE_V2)) for each in (self.a, self.b)]


def stored(command: Command, _peer: Peer) -> Answer:
    return Answer(
        fields={"msgId": "0" * 32, "queueId": command.fields["e"], "queueOffset": "7"}
    )


def refuse(code: int) -> Script:
    return lambda _command, _peer: Answer(code, "as the script says")


def nothing(command: Command) -> Answer:
    offset = command.fields["queueOffset"]
    fields = {"nextBeginOffset": offset, "minOffset": "0", "maxOffset": offset}
    return Answer(ResponseCode.PULL_NOT_FOUND, fields={**fields, "suggestWhichBrokerId": "0"})


def never(_command: Command, _peer: Peer) -> None:
    return None


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    async with made.names, made.a, made.b:
        yield made


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.names.address) as made:
        yield made


async def until(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS_MAX} s"
        await asyncio.sleep(0.005)


MESSAGE = Message(TOPIC, b"x")

# ---------------------------------------------------------------- sending


async def test_what_one_broker_refuses_another_takes(cluster, producer):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SERVICE_NOT_AVAILABLE)
    results = [await producer.send(MESSAGE) for _ in range(8)]
    assert {each.queue.broker_name for each in results} == {"b"}
    assert {each.queue_offset for each in results} == {7}
    assert cluster.sends()[0] >= 1


async def test_a_retry_carries_the_same_id(cluster, producer):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_ERROR)
    cluster.b.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(SendFailed, match=r"3 attempt\(s\).*as the script says"):
        await producer.send(MESSAGE)
    sent = [*cluster.a.asked, *cluster.b.asked]
    blocks = {each.fields["i"] for each in sent if each.code == RequestCode.SEND_MESSAGE_V2}
    assert len(blocks) == 1
    assert sum(cluster.sends()) == 3


async def test_what_no_broker_would_take_is_not_tried_again(cluster, producer):
    for broker in (cluster.a, cluster.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(BrokerRefused, match="MESSAGE_ILLEGAL") as refused:
        await producer.send(MESSAGE)
    assert refused.value.address in (cluster.a.address, cluster.b.address)
    assert sum(cluster.sends()) == 1


async def test_a_message_for_one_queue_is_tried_there_once(cluster, producer):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerRefused):
        await producer.send(MESSAGE, queue=MessageQueue(TOPIC, "a", 0))
    with pytest.raises(BrokerRefused):
        await producer.send(MESSAGE, selector=lambda queues, _message: queues[0])
    assert cluster.sends() == [2, 0]


async def test_all_attempts_share_one_deadline(cluster, producer):
    for broker in (cluster.a, cluster.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = never
    began = time.monotonic()
    with pytest.raises(SendFailed) as failed:
        await producer.send(MESSAGE, timeout_ms=300)
    assert time.monotonic() - began < 2
    assert isinstance(failed.value.__cause__, RequestTimeout)
    assert sum(cluster.sends()) == 1


async def test_a_connection_that_breaks_is_another_attempt_elsewhere(cluster, producer):
    def hang_up(_command: Command, peer: Peer) -> None:
        peer.close()

    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = hang_up
    results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(20)))
    assert {each.queue.broker_name for each in results} == {"b"}


async def test_a_broker_that_is_not_there_is_another_attempt_elsewhere(cluster, producer):
    await cluster.a.server.close()
    results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(20)))
    assert {each.queue.broker_name for each in results} == {"b"}


async def test_a_message_that_is_stored_but_not_flushed_is_a_result(cluster, producer):
    def late(command: Command, peer: Peer) -> Answer:
        return stored(command, peer)._replace(code=ResponseCode.FLUSH_DISK_TIMEOUT)

    for broker in (cluster.a, cluster.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = late
    assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_DISK_TIMEOUT
    settings = ProducerSettings(is_retried_when_not_ok=True)
    async with AsyncProducer(cluster.names.address, settings=settings) as strict:
        cluster.b.scripts[RequestCode.SEND_MESSAGE_V2] = stored
        results = [await strict.send(MESSAGE) for _ in range(4)]
    assert {(each.status, each.queue.broker_name) for each in results} == {(SendStatus.OK, "b")}


async def test_a_broker_that_failed_is_avoided_for_a_while_where_that_is_wanted(cluster):
    def hang_up(_command: Command, peer: Peer) -> None:
        peer.close()

    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = hang_up
    settings = ProducerSettings(is_latency_fault_enabled=True)
    async with AsyncProducer(cluster.names.address, settings=settings) as careful:
        for _ in range(12):
            await careful.send(MESSAGE)
    assert cluster.sends()[0] == 1


async def test_a_send_that_its_caller_gave_up_harms_no_other(cluster, producer):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = never
    queue = MessageQueue(TOPIC, "a", 0)
    given_up = producer.send(MESSAGE, queue=queue)
    await until(lambda: cluster.sends()[0] == 1, "the request")
    given_up.cancel()
    assert (await producer.send(MESSAGE, queue=MessageQueue(TOPIC, "b", 0))).queue_offset == 7


async def test_a_selector_that_fails_is_the_callers_error(producer):
    def broken(_queues, _message):
        raise LookupError("no such shard")

    with pytest.raises(LookupError, match="no such shard"):
        await producer.send(MESSAGE, selector=broken)


async def test_an_answer_without_an_offset_is_named(cluster, producer):
    for broker in (cluster.a, cluster.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = lambda _command, _peer: Answer()
    with pytest.raises(CodecError, match="queueId"):
        await producer.send(MESSAGE)
    assert sum(cluster.sends()) == 1  # It may be stored: another try might store it twice.


async def test_send_many_tells_how_many_failed_after_all_have_settled(cluster, producer):
    cluster.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(SendFailed, match="6 of 12 messages"):
        await producer.send_many([MESSAGE] * 12, window=3)
    assert cluster.sends() == [6, 6]


# ---------------------------------------------------------------- nameservers


async def test_the_next_nameserver_is_asked_when_one_does_not_answer(cluster):
    dead = f"127.0.0.1:{free_port()}"
    for order in (f"{dead};{cluster.names.address}", f"{cluster.names.address};{dead}"):
        async with AsyncProducer(order) as made:
            assert (await made.send(MESSAGE)).status is SendStatus.OK


async def test_no_nameserver_at_all_is_said_with_its_address():
    dead = f"127.0.0.1:{free_port()}"
    async with AsyncProducer(dead) as made:
        with pytest.raises(NetError, match=dead):
            await made.send(MESSAGE)


async def test_a_topic_without_route_or_default_is_not_found(cluster, producer):
    with pytest.raises(TopicNotFound, match="unheard"):
        await producer.send(Message("unheard-of", b"x"))


async def test_many_first_sends_ask_for_the_route_once(cluster, producer):
    await asyncio.gather(*(producer.send(MESSAGE) for _ in range(50)))
    assert len(cluster.names.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


async def test_connections_to_brokers_that_left_are_closed(cluster):
    settings = ProducerSettings(route_interval_ms=50)
    async with AsyncProducer(cluster.names.address, settings=settings) as made:
        await asyncio.gather(*(made.send(MESSAGE) for _ in range(8)))
        assert len(cluster.a.server.peers) == 1
        del cluster.brokers["a"]
        await until(lambda: not cluster.a.server.peers, "the closed connection")
        results = await asyncio.gather(*(made.send(MESSAGE) for _ in range(4)))
    assert {each.queue.broker_name for each in results} == {"b"}


async def test_a_broker_is_told_who_we_are_on_each_new_connection(cluster):
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=print, subscriptions={TOPIC: "*"},
        settings=SETTINGS,
    ):  # fmt: skip
        await until(lambda: pulls(cluster.a) > 0, "a pull")
        told = len(cluster.a.requests(RequestCode.HEART_BEAT))
        for peer in list(cluster.a.server.peers):
            peer.close()
        # The next ordinary heartbeat would come in 30 s.
        await until(
            lambda: len(cluster.a.requests(RequestCode.HEART_BEAT)) > told, "a heartbeat"
        )


async def test_sends_under_way_end_when_the_producer_closes(cluster):
    for broker in (cluster.a, cluster.b):
        broker.scripts[RequestCode.SEND_MESSAGE_V2] = never
    producer = AsyncProducer(cluster.names.address)
    await producer.start()
    first = producer.send(MESSAGE)
    await until(lambda: sum(cluster.sends()) == 1, "the request")
    unsent = producer.send(Message("unheard-of", b"x"))
    cluster.names.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = never
    await producer.close()
    for send in (first, unsent):
        with pytest.raises((ClientClosed, TopicNotFound)):
            await asyncio.wait_for(send, 2)
    await until(lambda: not cluster.a.server.peers, "all connections closed")


async def test_a_client_that_is_not_running_says_so(cluster):
    producer = AsyncProducer(cluster.names.address)
    with pytest.raises(ClientClosed, match="start"):
        producer.send(MESSAGE)
    async with producer:
        await producer.send(MESSAGE)
    with pytest.raises(ClientClosed):
        producer.send(MESSAGE)
    with pytest.raises(ClientClosed):
        await AsyncPullConsumer(cluster.names.address).queues(TOPIC)


# ---------------------------------------------------------------- consuming

SETTINGS = PushSettings(consume_from=ConsumeFrom.FIRST, suspend_ms=100, persist_interval_ms=50)


class Log:
    """Pulls of a broker's queue 0, answered from records."""

    def __init__(self, *records: Record) -> None:
        self.records = records

    def pull(self, command: Command, _peer: Peer) -> Answer:
        fields = command.fields
        offset = int(fields["queueOffset"])
        found = self.records[offset:] if fields["queueId"] == "0" else ()
        if fields["topic"] != TOPIC or not found:
            return nothing(command)
        answer = {
            "nextBeginOffset": str(len(self.records)),
            "minOffset": "0",
            "maxOffset": str(len(self.records)),
        }
        return Answer(fields=answer, body=b"".join(map(encode_record, found)))


def record(offset: int, body: bytes = b"x", **fields) -> Record:
    return Record(
        topic=TOPIC, body=body, queue_offset=offset, physical_offset=1000 + offset, **fields
    )


async def test_a_message_that_cannot_be_unpacked_goes_to_the_dead_letters(cluster):
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = Log(
        record(0, b"good"), record(1, b"not zlib", sys_flag=COMPRESSED), record(2, b"good too")
    ).pull
    got: list[StoredMessage] = []
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=got.append, subscriptions={TOPIC: "*"},
        settings=SETTINGS,
    ):  # fmt: skip
        await until(
            lambda: cluster.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK), "the dead letter"
        )
        await until(lambda: committed(cluster.a) == 3, "the offset behind all three")
    (back,) = cluster.a.requests(RequestCode.CONSUMER_SEND_MSG_BACK)
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


async def test_a_message_that_is_not_taken_back_is_sent_to_the_retry_topic(cluster):
    cluster.topics.add(retry_topic(GROUP))
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = Log(
        record(0, b"again", reconsume_times=2, property_block=b"k\x01v\x02")
    ).pull
    cluster.a.scripts[RequestCode.CONSUMER_SEND_MSG_BACK] = refuse(ResponseCode.SYSTEM_ERROR)
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=lambda _message: False,
        subscriptions={TOPIC: "*"}, settings=SETTINGS,
    ):  # fmt: skip
        await until(lambda: sum(cluster.sends()) == 1, "the retry message")
        await until(lambda: committed(cluster.a) == 1, "the offset behind it")
    (sent,) = (
        each
        for broker in (cluster.a, cluster.b)
        for each in broker.requests(RequestCode.SEND_MESSAGE_V2)
    )
    assert (sent.fields["b"], sent.fields["j"], sent.body) == (
        retry_topic(GROUP),
        "3",
        b"again",
    )
    for part in ("k\x01v", f"RETRY_TOPIC\x01{TOPIC}", "DELAY\x015"):
        assert part in sent.fields["i"]


async def test_close_waits_for_running_listeners_and_stores_only_what_they_finished(cluster):
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = Log(*(record(n) for n in range(3))).pull
    started, may_end = asyncio.Event(), asyncio.Event()
    ended: list[int] = []

    async def listen(message: StoredMessage) -> None:
        if message.queue_offset == 1:
            started.set()
            await may_end.wait()
        ended.append(message.queue_offset)

    consumer = AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=listen, subscriptions={TOPIC: "*"},
        settings=SETTINGS,
    )  # fmt: skip
    await consumer.start()
    await started.wait()
    await until(lambda: len(ended) == 2, "the others")
    await until(lambda: committed(cluster.a) == 1, "the offset of the one that still runs")
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    may_end.set()
    await closing
    assert committed(cluster.a) == 3
    assert len(cluster.a.requests(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_a_listener_that_never_ends_holds_close_only_for_its_time(cluster):
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = Log(record(0)).pull
    started = asyncio.Event()

    async def listen(_message: StoredMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    settings = PushSettings(consume_from=ConsumeFrom.FIRST, close_timeout_ms=100)
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=listen, subscriptions={TOPIC: "*"},
        settings=settings,
    ):  # fmt: skip
        await started.wait()
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert committed(cluster.a) in (None, 0)


async def test_a_reset_offset_is_followed_at_once(cluster):
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = Log(*(record(n) for n in range(5))).pull
    got: list[int] = []

    async def listen(message: StoredMessage) -> None:
        got.append(message.queue_offset)

    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=listen, subscriptions={TOPIC: "*"},
        settings=PushSettings(consume_from=ConsumeFrom.FIRST, persist_interval_ms=50),
    ):  # fmt: skip
        await until(lambda: len(got) == 5, "all five")
        body = encode_queue_offsets({MessageQueue(TOPIC, "a", 0): 3})
        fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
        cluster.a.peers[0].notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        await until(lambda: len(got) == 7, "two of them again")
    assert sorted(got) == [0, 1, 2, 3, 3, 4, 4]


async def test_what_the_client_cannot_tell_a_broker_is_refused_with_a_reason(cluster):
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=print, subscriptions={TOPIC: "*"},
        settings=SETTINGS,
    ):  # fmt: skip
        await until(lambda: cluster.a.peers, "its connection")
        for code in (
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        ):
            fields = {"consumerGroup": GROUP, "group": GROUP, "topic": TOPIC}
            answer = await cluster.a.peers[0].call(code, fields, timeout_ms=3000)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert code.name in (answer.remark or "")
        stranger = await cluster.a.peers[0].call(
            RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "other"}, timeout_ms=3000
        )
        assert "other" in (stranger.remark or "")


async def test_a_full_cache_pauses_the_pulls_until_listeners_catch_up(cluster):
    cluster.a.scripts[RequestCode.PULL_MESSAGE] = lambda command, _peer: endless(command)
    may_go_on = asyncio.Event()
    got: list[int] = []

    async def listen(message: StoredMessage) -> None:
        await may_go_on.wait()
        got.append(message.queue_offset)

    settings = PushSettings(consume_from=ConsumeFrom.FIRST, queue_count_max=50, concurrency=4)
    async with AsyncPushConsumer(
        cluster.names.address, group=GROUP, listener=listen, subscriptions={TOPIC: "*"},
        settings=settings,
    ):  # fmt: skip
        await until(lambda: pulls(cluster.a) >= 2, "pulls")
        await asyncio.sleep(0.2)
        held = pulls(cluster.a)
        # 32 and 32 are over 50: each of the two queues was pulled twice.
        assert held == 4
        may_go_on.set()
        await until(lambda: pulls(cluster.a) > held + 4, "more pulls")


def pulls(broker: Scripted) -> int:
    return sum(
        each.fields["topic"] == TOPIC for each in broker.requests(RequestCode.PULL_MESSAGE)
    )


def endless(command: Command) -> Answer:
    start = int(command.fields["queueOffset"])
    fields = {"nextBeginOffset": str(start + 32), "minOffset": "0", "maxOffset": str(1 << 40)}
    body = b"".join(encode_record(record(offset)) for offset in range(start, start + 32))
    return Answer(fields=fields, body=body)
