"""Replies: from whoever answers, past the broker, to the client that asked."""

from __future__ import annotations

import pytest

from cometmq.codec.properties import decode_properties
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.answer import Answer
from tests.support.request_fields import send_fields, word_send_fields
from tests.unit.broker.conftest import serve
from tests.unit.broker.member import Member

TOPIC = "DefaultCluster_REPLY_TOPIC"
BACK = "CORRELATION_ID\1c-1\2REPLY_TO_CLIENT\1asker@1\2MSG_TYPE\1reply\2"


async def asking(served) -> Member:
    """A producer that waits for replies."""
    made = Member(served, "asker@1", lambda *_: Answer())
    await made.beat(produces=("asks",))
    return made


@pytest.fixture
async def asker(served):
    async with await asking(served) as made:
        yield made


def letters(properties: str = BACK, **changed: str) -> dict[str, str]:
    return send_fields(TOPIC, properties=properties, **{"a": "answers", "h": "3"} | changed)


async def test_a_reply_reaches_who_asked_and_its_sender_is_told(served, asker):
    answer = await served.done(RequestCode.SEND_REPLY_MESSAGE_V2, letters(), b"yes")
    assert answer.fields["queueId"] == "0"
    (told,) = asker.asked
    assert told.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert told.body == b"yes"
    assert (told.fields["topic"], told.fields["flag"]) == (TOPIC, "3")
    assert told.fields["storeHost"] == served.broker.address
    properties = decode_properties(told.fields["properties"].encode())
    assert properties["CORRELATION_ID"] == "c-1"
    assert "PUSH_REPLY_TIME" in properties


async def test_the_long_form_does_the_same(served, asker):
    fields = word_send_fields(TOPIC, -1, BACK, producerGroup="answers")
    await served.done(RequestCode.SEND_REPLY_MESSAGE, fields, b"yes")
    assert asker.asked[0].body == b"yes"


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_reply_is_stored_unless_that_is_switched_off(tmp_path, is_stored):
    async with serve(tmp_path, is_reply_stored=is_stored) as served:
        asker = await asking(served)
        answer = await served.ask(RequestCode.SEND_REPLY_MESSAGE_V2, letters(), b"yes")
        assert (answer.fields["msgId"] != "0") == is_stored
        queue = served.broker._store.queue(TOPIC, 0)
        assert (queue is not None and queue.max_offset == 1) == is_stored
        await asker.channels.close()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("CORRELATION_ID\1c-1\2", "reply message properties[REPLY_TO_CLIENT] is null"),
        (BACK.replace("asker@1", "gone@1"), "channel of <gone@1> not found."),
    ],
)
async def test_a_reply_to_nobody_is_answered_with_the_reason(served, properties, words):
    await served.refused(
        ResponseCode.SYSTEM_ERROR,
        words,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        letters(properties),
        b"yes",
    )


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"b": "nothing"}, ResponseCode.TOPIC_NOT_EXIST), ({"e": "7"}, 29), ({"a": None}, 29)],
)
async def test_a_reply_that_is_wrong_is_refused(served, asker, changed, code):
    fields = {k: v for k, v in {**letters(), **changed}.items() if v is not None}
    answer = await served.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"yes")
    assert answer.code == code
    assert not asker.asked


async def test_a_client_with_two_groups_that_leaves_one_still_gets_replies(served, asker):
    await asker.beat(produces=("asks", "asks-too"))
    fields = {"clientID": "asker@1", "producerGroup": "asks"}
    await asker.ask(RequestCode.UNREGISTER_CLIENT, fields)
    await served.done(RequestCode.SEND_REPLY_MESSAGE_V2, letters(), b"yes")
