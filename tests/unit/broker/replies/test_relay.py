"""Questions that a consumer answers, as a service: its connection is a list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cometmq.broker.replies.relay import ClientRelay
from cometmq.broker.replies.replies import Replies, ReplyResult
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.codec.bodies.queue_offsets import encode_client_offsets
from cometmq.codec.headers.console import ClientStatusRequest, DirectRequest, RunningRequest
from cometmq.codec.headers.send import SendRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties
from cometmq.codec.record import decode_record
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError, RequestTimeout
from cometmq.model.queue import MessageQueue
from cometmq.steps.on_loop import LoopWorld
from tests.support.steps import run
from tests.support.store_puts import bodies_of, put
from tests.unit.broker.client_by_hand import HandAnswer, HandClientPeer, client_of
from tests.unit.broker.parts_by_hand import HOST

RUNNING = RunningRequest("g", "c1")
WORDS = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true", "more": "x"}


@pytest.fixture
async def relay(tables):
    return ClientRelay(replace(tables, world=LoopWorld()))


@pytest.fixture
def join(tables):
    def join(client_id: str, **more: int) -> HandClientPeer:
        peer = HandClientPeer(50_000 + len(client_id))
        tables.members.register_consumer(ConsumerPart("g"), client_of(peer, client_id, **more))
        return peer

    return join


async def test_a_question_goes_on_as_it_came_and_its_answer_back_as_it_is(relay, join):
    consumer = join("c1")
    consumer.answer = HandAnswer(7, "so so", {"k": "v"}, b"body")
    assert await run(relay.running(RUNNING, WORDS)) is consumer.answer
    assert consumer.asked == [(RequestCode.GET_CONSUMER_RUNNING_INFO, WORDS, b"")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestTimeout("late"), ResponseCode.CONSUME_MSG_TIMEOUT),
        (ConnectionLost("gone"), ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_consumer_that_does_not_answer_is_named(relay, join, error, code):
    join("c1").answer = error
    with pytest.raises(RequestError, match=f"c1.*{error}") as refused:
        await run(relay.running(RUNNING, WORDS))
    assert refused.value.code == code


async def test_who_is_not_there_or_too_old_is_not_asked(relay, join):
    with pytest.raises(RequestError, match=r"^The Consumer <g> <c1> not online$"):
        await run(relay.running(RUNNING, WORDS))
    old = join("c1", version=61)
    with pytest.raises(RequestError, match="too low"):
        await run(relay.running(RUNNING, WORDS))
    assert not old.asked


async def test_a_message_to_be_consumed_goes_along_with_what_only_a_broker_knows(
    tables, relay, join
):
    put(tables.store, b"a")
    consumer = join("c1")
    request = DirectRequest("g", "c1", encode_message_id(HOST, 0), topic="orders")
    words = {"consumerGroup": "g", "clientId": "c1"}
    await run(relay.consume(request, words))
    ((code, fields, body),) = consumer.asked
    assert (code, decode_record(body).body) == (RequestCode.CONSUME_MESSAGE_DIRECTLY, b"a")
    flags = {"brokerName": "broker-a", "topicSysFlag": "0", "groupSysFlag": "0"}
    assert fields == {**words, **flags}
    assert "brokerName" not in words, "the question is its asker's"


@pytest.mark.parametrize(
    ("message_id", "code"),
    [
        ("no id", ResponseCode.INVALID_PARAMETER),
        (encode_message_id(HOST, 1 << 20), ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_message_that_is_not_here_is_not_consumed(relay, join, message_id, code):
    consumer = join("c1")
    with pytest.raises(RequestError, match=message_id) as refused:
        await run(relay.consume(DirectRequest("g", "c1", message_id), {}))
    assert refused.value.code == code
    assert not consumer.asked


async def test_those_that_answer_say_what_they_have_in_mind(relay, join):
    offsets = {MessageQueue("orders", "broker-a", 0): 3}
    join("c1").answer = HandAnswer(body=encode_client_offsets(offsets))
    join("lost1").answer = ConnectionLost("gone")
    join("refuses").answer = HandAnswer(1)
    join("babbles1").answer = HandAnswer(body=b"?")
    assert await run(relay.statuses(ClientStatusRequest("orders", "g"))) == {"c1": offsets}
    assert await run(relay.statuses(ClientStatusRequest("orders", "g", "refuses"))) == {}


async def test_a_group_that_nobody_is_in_has_no_status(relay):
    with pytest.raises(RequestError, match="No Any Consumer online"):
        await run(relay.statuses(ClientStatusRequest("orders", "g")))


BACK = "CORRELATION_ID\1c-1\2REPLY_TO_CLIENT\1asker@1\2"


@pytest.fixture
def replies(tables):
    return Replies(tables)


@pytest.fixture
def asker(tables):
    peer = HandClientPeer()
    tables.members.register_producer("asks", client_of(peer, "asker@1"))
    return peer


def letter(properties: str = BACK, *, topic: str = "orders", queue_id: int = 1) -> SendRequest:
    return SendRequest("answers", topic, queue_id, 0, 5, 3, properties=properties)


async def test_a_reply_reaches_who_asked_and_is_kept(tables, replies, asker):
    result = await run(replies.reply(letter(), b"yes", HandClientPeer(50_001)))
    assert result == ReplyResult(None, 1, encode_message_id(HOST, 0), 0)
    assert bodies_of(tables.store, "orders", 1) == [b"yes"]
    ((code, fields, body),) = asker.asked
    assert (code, body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"yes")
    assert (fields["bornHost"], fields["storeHost"]) == ("127.0.0.1:50001", tables.address)
    properties = decode_properties(fields["properties"].encode())
    assert properties["PUSH_REPLY_TIME"] == str(tables.clock.now_ms())


@pytest.mark.parametrize(
    ("answer", "words"),
    [(HandAnswer(1, "no such question"), "no such question"), (ConnectionLost("gone"), "gone")],
)
async def test_a_reply_that_did_not_arrive_has_its_reason_and_is_not_kept(
    tables, replies, asker, answer, words
):
    asker.answer = answer
    result = await run(replies.reply(letter(), b"yes", HandClientPeer()))
    assert result.fault == f"push reply message to asker@1 fail: {words}"
    assert tables.store.max_offset == 0


@pytest.mark.parametrize(
    ("request_", "size", "code"),
    [
        (letter(topic="nothing"), 1, ResponseCode.TOPIC_NOT_EXIST),
        (letter(queue_id=2), 1, ResponseCode.INVALID_PARAMETER),
        (letter(), (4 << 20) + 1, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_a_reply_that_cannot_be_is_refused_at_once(replies, asker, request_, size, code):
    with pytest.raises(RequestError) as refused:
        replies.reply(request_, bytes(size), HandClientPeer())
    assert refused.value.code == code
    assert not asker.asked
