"""Replies as a service: past the broker to the client that asked, without a wire."""

from __future__ import annotations

import pytest

from cometmq.broker.replies.replies import Replies, ReplyResult
from cometmq.codec.headers.send import SendRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
from tests.support.steps import run
from tests.support.store_puts import bodies_of
from tests.unit.broker.client_by_hand import HandAnswer, HandClientPeer, client_of
from tests.unit.broker.parts_by_hand import HOST

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
