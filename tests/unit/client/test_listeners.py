"""Listeners: one message or a list by the argument's name, and nothing guessed."""

import asyncio
from typing import Any

import pytest

from cometmq import MessageQueue, PushConsumer, PushSettings, StoredMessage
from cometmq.client.consumer.listeners import listener_call
from cometmq.errors import SettingsError


class Box(list[Any]):
    """A listener that is false as long as it is empty."""

    def __call__(self, given: object) -> None:
        self.append(given)


def test_a_listener_gets_one_message_and_a_batch_listener_the_list():
    one, many = Box(), Box()
    given: Any = ["first", "second"]
    listener_call(one, None, None).function(given[:1])
    listener_call(None, many, 2).function(given)
    assert (one, many) == (["first"], [["first", "second"]])


@pytest.mark.parametrize("fault", [None, ValueError("no")])
async def test_a_batch_listener_may_empty_its_list(fault):
    def listen(given: list[StoredMessage]) -> None:
        given.clear()
        if fault is not None:
            raise fault

    queue = MessageQueue("orders", "broker-a", 0)
    message = StoredMessage(queue, 0, "id", "", b"x", {}, 0, "", 0, "")
    messages = [message]
    call = listener_call(None, listen, None)
    for verdict in (call.run(messages), await call.run_on_loop(messages)):
        assert verdict.is_consumed == (fault is None)
    assert messages == [message]


def test_how_many_a_batch_listener_gets_is_its_setting_or_a_pulls_count():
    assert listener_call(None, print, None).batch_count == 32
    assert listener_call(None, print, 5).batch_count == 5
    assert listener_call(print, None, None).batch_count == 1


async def test_an_async_listener_of_either_kind_is_known():
    async def listen(given: Any) -> bool:
        await asyncio.sleep(0)
        return bool(given)

    for call in (listener_call(listen, None, None), listener_call(None, listen, None)):
        assert call.is_async
        assert await call.function([7])  # type: ignore[list-item]
    assert not listener_call(print, None, None).is_async


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs listener= .* or batch_listener= .*none is given"),
        ({"listener": print, "batch_listener": print}, "both are given"),
        (
            {"listener": "handle"},
            "listener is 'handle'; it must be a function that takes a message",
        ),
        ({"batch_listener": 5}, "batch_listener is 5; .* takes a list of messages"),
        (
            {"listener": print, "settings": PushSettings(batch_count=8)},
            "batch_count=8 sets the number of messages for a batch_listener",
        ),
    ],
)
def test_a_consumer_without_exactly_one_listener_is_refused(arguments: Any, says: str):
    with pytest.raises(SettingsError, match=says):
        PushConsumer("127.0.0.1:1", group="g", subscriptions=["orders"], **arguments)
