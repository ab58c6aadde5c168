"""Typed topics: what goes in comes out, mypy knows its type, and what is no value is said to be none."""

import sys
from dataclasses import dataclass
from typing import Any, assert_type

import msgspec
import pytest
from pydantic import BaseModel

from cometmq import (
    JsonCodec,
    Message,
    MsgspecCodec,
    PydanticCodec,
    Received,
    StoredMessage,
    Topic,
)
from cometmq.errors import BodyError, MessageError, SettingsError
from cometmq.model.message import make_stored_message
from cometmq.model.queue import MessageQueue


class Order(BaseModel):
    id: str
    cents: int


@dataclass
class Plain:
    id: str
    cents: int


class Packed(msgspec.Struct):
    id: str
    cents: int


def stored(message: Message) -> StoredMessage:
    """As a consumer would get it."""
    queue = MessageQueue(message.topic, "b", 0)
    host = "127.0.0.1:1"
    return make_stored_message(
        queue, 0, "ID", "OID", bytes(message.body), {}, 0, host, 0, host, 0, 0, 0, 0, 0, 0, 0
    )  # fmt: skip


TOPICS: list[tuple[Topic[Any], Any, bytes]] = [
    (Topic("t", PydanticCodec(Order)), Order(id="o", cents=5), b'{"id":"o","cents":5}'),
    (Topic("t", PydanticCodec(Plain)), Plain("o", 5), b'{"id":"o","cents":5}'),
    (Topic("t", MsgspecCodec(Packed)), Packed("o", 5), b'{"id":"o","cents":5}'),
    (
        Topic("t", MsgspecCodec(Packed, form="msgpack")),
        Packed("o", 5),
        b"\x82\xa2id\xa1o\xa5cents\x05",
    ),
    (Topic("t", JsonCodec()), {"id": "o", "cents": 5}, b'{"id":"o","cents":5}'),
]


@pytest.mark.parametrize(("topic", "value", "body"), TOPICS)
def test_a_value_becomes_a_body_and_a_body_the_value(
    topic: Topic[Any], value: Any, body: bytes
):
    message = topic.message(value, tag="paid", keys="k")
    assert (message.topic, message.body, message.tag, message.keys) == ("t", body, "paid", "k")
    there = topic.received(stored(message))
    assert (there.value, there.message.body) == (value, body)


@pytest.mark.parametrize(("topic", "value", "body"), TOPICS)
@pytest.mark.parametrize("broken", [b"", b"{", b'{"id": 7'])
def test_a_body_of_something_else_is_an_error_that_names_message_and_reason(
    topic: Topic[Any], value: Any, body: bytes, broken: bytes
):
    with pytest.raises(
        BodyError,
        match=r"the body of message .* \(t@b:0 at offset 0\) cannot be decoded by the .* of topic 't': .*",
    ):
        topic.received(stored(Message("t", broken)))


def test_a_value_that_cannot_be_encoded_is_no_message():
    with pytest.raises(
        MessageError, match=r"cannot be a body of topic 't': .*not JSON serializable"
    ):
        Topic("t", JsonCodec()).message(object())


async def test_listeners_get_values_one_by_one_or_as_a_list():
    topic = Topic("t", PydanticCodec(Order))
    message = stored(topic.message(Order(id="o", cents=5)))
    seen: list[Any] = []

    async def handle(order: Received[Order]) -> bool:
        seen.append(order.value.cents)
        return False

    async def handle_all(orders: list[Received[Order]]) -> None:
        seen.append([order.value.id for order in orders])

    said: Any = topic.listener(handle)(message)
    assert await said is False
    said = topic.batch_listener(handle_all)([message, message])
    assert await said is None
    topic.listener(lambda order: seen.append(order.message))(message)
    topic.batch_listener(lambda orders: seen.append(len(orders)))([message])
    assert seen == [5, ["o", "o"], message, 1]


def test_what_is_not_installed_is_said_and_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(
        SettingsError, match="msgspec is not installed; run pip install msgspec"
    ):
        MsgspecCodec(Packed)
    with pytest.raises(SettingsError, match="form is 'xml'; it must be 'json' or 'msgpack'"):
        MsgspecCodec(Packed, form="xml")


@pytest.mark.parametrize("codec", [PydanticCodec, MsgspecCodec])
def test_a_type_that_a_codec_cannot_handle_is_refused_by_name(codec: Any):
    with pytest.raises(SettingsError, match=f"{codec.__name__}: kind is 5; it must be a model"):
        codec(5)


def test_a_value_of_another_type_is_an_error_of_mypy():
    """Where one of these were none, mypy would say that its `ignore` is not used."""
    orders = Topic("orders", PydanticCodec(Order))
    assert_type(orders, Topic[Order])

    def handle(text: Received[str]) -> None: ...

    with pytest.raises(
        MessageError, match="'o-1' cannot be a body of topic 'orders'"
    ) as raised:
        orders.message("o-1")  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    orders.listener(handle)  # type: ignore[arg-type]
    orders.batch_listener(handle)  # type: ignore[arg-type]
