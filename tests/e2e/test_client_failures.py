"""What the client does when brokers and nameservers fail: real sockets, servers that follow a script."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from cometmq import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    Message,
    MessageQueue,
    ProducerSettings,
    SendStatus,
)
from cometmq.codec.bodies.cluster import ClusterInfo, encode_cluster_info
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    ClientClosed,
    CodecError,
    MessageError,
    NetError,
    RequestTimeout,
    SendFailed,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.route import BrokerData
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.processes import free_port
from tests.support.scripted import TOPIC, ScriptedCluster, never, refuse, stored, until


@pytest.fixture
async def producer(scripted: ScriptedCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(scripted.names.address) as made:
        yield made


MESSAGE = Message(TOPIC, b"x")

# ---------------------------------------------------------------- sending


async def test_what_one_broker_refuses_another_takes(scripted, producer):
    scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SERVICE_NOT_AVAILABLE)
    results = [await producer.send(MESSAGE) for _ in range(8)]
    assert {each.queue.broker_name for each in results} == {"b"}
    assert {each.queue_offset for each in results} == {7}
    assert scripted.sends()[0] >= 1


async def test_a_retry_carries_the_same_id(scripted, producer):
    scripted.answer_sends(refuse(ResponseCode.SYSTEM_ERROR))
    with pytest.raises(SendFailed, match=r"3 attempts: .*as the script says"):
        await producer.send(MESSAGE)
    sent = [*scripted.a.asked, *scripted.b.asked]
    blocks = {each.fields["i"] for each in sent if each.code == RequestCode.SEND_MESSAGE_V2}
    assert len(blocks) == 1
    assert sum(scripted.sends()) == 3


async def test_what_no_broker_would_take_is_not_tried_again(scripted, producer):
    scripted.answer_sends(refuse(ResponseCode.MESSAGE_ILLEGAL))
    with pytest.raises(BrokerRefused, match="MESSAGE_ILLEGAL") as refused:
        await producer.send(MESSAGE)
    assert refused.value.address in (scripted.a.address, scripted.b.address)
    assert sum(scripted.sends()) == 1


async def test_a_message_for_one_queue_is_tried_there_once(scripted, producer):
    scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerRefused):
        await producer.send(MESSAGE, queue=MessageQueue(TOPIC, "a", 0))
    with pytest.raises(BrokerRefused):
        await producer.send(MESSAGE, selector=lambda queues, _message: queues[0])
    assert scripted.sends() == [2, 0]


async def test_all_attempts_share_one_deadline(scripted, producer):
    scripted.answer_sends(never)
    began = time.monotonic()
    with pytest.raises(SendFailed) as failed:
        await producer.send(MESSAGE, timeout_ms=300)
    assert time.monotonic() - began < 2
    assert isinstance(failed.value.__cause__, RequestTimeout)
    assert sum(scripted.sends()) == 3  # Those that are not the last have a part of the time.


def hang_up(_command: Command, peer: Peer) -> None:
    peer.close()


@pytest.mark.parametrize("is_there", [True, False], ids=["breaks", "not there"])
async def test_a_connection_that_fails_is_another_attempt_elsewhere(
    scripted, producer, is_there
):
    if is_there:
        scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = hang_up
    else:
        await scripted.a.server.close()
    results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(20)))
    assert {each.queue.broker_name for each in results} == {"b"}


async def test_a_message_that_is_stored_but_not_flushed_is_a_result(scripted, producer):
    def late(command: Command, peer: Peer) -> Answer:
        return stored(command, peer)._replace(code=ResponseCode.FLUSH_DISK_TIMEOUT)

    scripted.answer_sends(late)
    assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_DISK_TIMEOUT
    settings = ProducerSettings(retry_when_not_ok=True)
    async with AsyncProducer(scripted.names.address, settings=settings) as strict:
        scripted.b.scripts[RequestCode.SEND_MESSAGE_V2] = stored
        results = [await strict.send(MESSAGE) for _ in range(4)]
    assert {(each.status, each.queue.broker_name) for each in results} == {(SendStatus.OK, "b")}


async def test_a_broker_that_failed_is_avoided_for_a_while_where_that_is_wanted(scripted):
    scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = hang_up
    settings = ProducerSettings(latency_fault=True)
    async with AsyncProducer(scripted.names.address, settings=settings) as careful:
        for _ in range(12):
            await careful.send(MESSAGE)
    assert scripted.sends()[0] == 1


async def test_a_send_that_its_caller_gave_up_harms_no_other(scripted, producer):
    scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = never
    queue = MessageQueue(TOPIC, "a", 0)
    given_up = producer.send(MESSAGE, queue=queue)
    await until(lambda: scripted.sends()[0] == 1, "the request")
    given_up.cancel()
    assert (await producer.send(MESSAGE, queue=MessageQueue(TOPIC, "b", 0))).queue_offset == 7


async def test_a_selector_that_fails_is_the_callers_error(producer):
    def broken(_queues, _message):
        raise LookupError("no such shard")

    with pytest.raises(LookupError, match="no such shard"):
        await producer.send(MESSAGE, selector=broken)


async def test_an_answer_without_an_offset_is_named(scripted, producer):
    scripted.answer_sends(lambda _command, _peer: Answer())
    with pytest.raises(CodecError, match="queueId"):
        await producer.send(MESSAGE)
    assert sum(scripted.sends()) == 1  # It may be stored: another try might store it twice.


async def test_send_many_tells_how_many_failed_after_all_have_settled(scripted, producer):
    scripted.a.scripts[RequestCode.SEND_MESSAGE_V2] = refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(SendFailed, match="6 of 12 messages"):
        await producer.send_many([MESSAGE] * 12, window=3)
    assert scripted.sends() == [6, 6]


@pytest.mark.parametrize("window", [0, -1])
async def test_send_many_refuses_a_window_without_room(producer, window):
    with pytest.raises(SettingsError, match=f"window={window}: it must be at least 1"):
        await asyncio.wait_for(producer.send_many([MESSAGE], window=window), 5)


async def test_a_batch_for_a_queue_of_another_topic_is_refused(scripted, producer):
    queue = MessageQueue("Other", "a", 0)
    with pytest.raises(MessageError, match="queue belongs to topic 'Other'"):
        await producer.send_batch([MESSAGE], queue=queue)
    assert scripted.sends() == [0, 0]


# ---------------------------------------------------------------- nameservers


async def test_the_next_nameserver_is_asked_when_one_does_not_answer(scripted):
    dead = f"127.0.0.1:{free_port()}"
    for order in (f"{dead};{scripted.names.address}", f"{scripted.names.address};{dead}"):
        async with AsyncProducer(order) as made:
            assert (await made.send(MESSAGE)).status is SendStatus.OK


async def test_no_nameserver_at_all_is_said_with_its_address():
    dead = f"127.0.0.1:{free_port()}"
    async with AsyncProducer(dead) as made:
        with pytest.raises(NetError, match=dead):
            await made.send(MESSAGE)


async def test_a_topic_without_route_or_default_is_not_found(scripted, producer):
    with pytest.raises(TopicNotFound, match="unheard"):
        await producer.send(Message("unheard-of", b"x"))


async def test_the_brokers_are_shown_to_one_who_may_not_ask_for_their_own_topics(scripted):
    """As a Normal user of a nameserver with access control: whether they are writable is unknown then."""

    def clusters(_command: Command, _peer: Peer) -> Answer:
        brokers = {
            name: BrokerData("c", name, {0: each.address})
            for name, each in scripted.brokers.items()
        }
        return Answer(body=encode_cluster_info(ClusterInfo(brokers, {"c": tuple(brokers)})))

    scripted.names.scripts[RequestCode.GET_BROKER_CLUSTER_INFO] = clusters
    scripted.names.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = refuse(
        ResponseCode.NO_PERMISSION
    )
    # As a Java nameserver.
    unknown = refuse(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    scripted.names.scripts[RequestCode.GET_MISSING_BROKERS] = unknown
    async with AsyncAdmin(scripted.names.address) as admin:
        states = await admin.brokers.list()
    assert [(each.broker_name, each.is_writable) for each in states] == [
        ("a", None),
        ("b", None),
    ]


async def test_many_first_sends_ask_for_the_route_once(scripted, producer):
    await asyncio.gather(*(producer.send(MESSAGE) for _ in range(50)))
    assert len(scripted.names.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
    scripted.topics.add("TBW102")
    await asyncio.gather(*(producer.send(Message("new", b"x")) for _ in range(50)))
    asked = scripted.names.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert [each.fields["topic"] for each in asked] == [TOPIC, "new", "TBW102"]


async def test_connections_to_brokers_that_left_are_closed(scripted):
    settings = ProducerSettings(route_interval_ms=50)
    async with AsyncProducer(scripted.names.address, settings=settings) as made:
        await asyncio.gather(*(made.send(MESSAGE) for _ in range(8)))
        assert len(scripted.a.server.peers) == 1
        del scripted.brokers["a"]
        await until(lambda: not scripted.a.server.peers, "the closed connection")
        results = await asyncio.gather(*(made.send(MESSAGE) for _ in range(4)))
    assert {each.queue.broker_name for each in results} == {"b"}


async def test_sends_under_way_end_when_the_producer_closes(scripted):
    scripted.answer_sends(never)
    producer = AsyncProducer(scripted.names.address)
    await producer.start()
    first = producer.send(MESSAGE)
    await until(lambda: sum(scripted.sends()) == 1, "the request")
    unsent = producer.send(Message("unheard-of", b"x"))
    scripted.names.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = never
    await producer.close()
    for send in (first, unsent):
        with pytest.raises((ClientClosed, TopicNotFound)):
            await asyncio.wait_for(send, 30)
    await until(lambda: not scripted.a.server.peers, "all connections closed")


async def test_a_client_that_is_not_running_says_so(scripted):
    producer = AsyncProducer(scripted.names.address)
    with pytest.raises(ClientClosed, match="start"):
        await producer.send(MESSAGE)
    async with producer:
        await producer.send(MESSAGE)
    with pytest.raises(ClientClosed):
        await producer.send(MESSAGE)
    with pytest.raises(ClientClosed):
        await AsyncPullConsumer(scripted.names.address).queues(TOPIC)
