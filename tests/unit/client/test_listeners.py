"""Listeners: one message or a list by the argument's name, and nothing guessed."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cometmq import MessageQueue, PushConsumer, PushConsumerSettings, StoredMessage
from cometmq.client.consumer.listeners import ListenerCall, listener_call
from cometmq.client.user_calls import call_user
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
            {"listener": print, "settings": PushConsumerSettings(batch_count=8)},
            "batch_count=8 sets the number of messages for a batch_listener",
        ),
    ],
)
def test_a_consumer_without_exactly_one_listener_is_refused(arguments: Any, says: str):
    with pytest.raises(SettingsError, match=says):
        PushConsumer("127.0.0.1:1", group="g", subscriptions=["orders"], **arguments)


TENANT = contextvars.ContextVar("TENANT", default="nobody")


def handle(given: Any) -> None:
    seen, _ = TENANT.get(), TENANT.set(str(given))
    if seen != "nobody":
        raise AssertionError(f"it sees the tenant of {seen}")


async def handle_async(given: Any) -> None:
    handle(given)
    await asyncio.sleep(0)
    assert TENANT.get() == str(given), "its own variables stay during its call"
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    except TimeoutError:
        assert TENANT.get() == str(given), "also behind an error that was thrown into it"


LISTENERS: dict[str, dict[str, Any]] = {
    "def": {"listener": handle},
    "def batch": {"batch_listener": handle},
    "async def": {"listener": handle_async},
    "async def batch": {"batch_listener": handle_async},
}


def made(**given: Any) -> ListenerCall:
    return listener_call(given.get("listener"), given.get("batch_listener"), None)


@pytest.mark.parametrize("kind", LISTENERS)
async def test_calls_of_one_task_share_no_variables(kind: str):
    call = made(**LISTENERS[kind])
    for number in range(3):
        assert (await call.run_on_loop([number])).error is None  # type: ignore[list-item]
    assert TENANT.get() == "nobody"


@pytest.mark.parametrize("kind", ["def", "def batch"])
def test_calls_of_one_thread_share_no_variables(kind: str):
    call = made(**LISTENERS[kind])
    with ThreadPoolExecutor(1) as thread:
        for number in range(3):
            assert thread.submit(call.run, [number]).result().error is None  # type: ignore[list-item]


async def test_a_listener_sees_what_was_set_before_its_consumer_started():
    async def look(_given: Any) -> None:
        await asyncio.sleep(0)
        assert TENANT.get() == "all"

    TENANT.set("all")
    assert (await made(listener=look).run_on_loop([1])).error is None  # type: ignore[list-item]


async def test_a_cancelled_worker_cancels_its_listener_in_its_own_variables():
    ended: list[str] = []

    async def wait(given: Any) -> None:
        TENANT.set(str(given))
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(TENANT.get())

    task = asyncio.create_task(made(listener=wait).run_on_loop([7]))  # type: ignore[list-item]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["7"]


@pytest.mark.parametrize("error", [StopIteration(1), GeneratorExit()])
async def test_what_would_end_a_coroutine_is_an_error_of_the_function(error):
    def here() -> None:
        raise error

    async def later() -> None:
        await asyncio.sleep(0)
        raise error

    for function in (here, later):
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match=type(error).__name__):
                await call_user(function)


async def test_a_call_that_is_closed_ends():
    async def waits() -> None:
        await asyncio.sleep(60)

    call = call_user(waits)
    call.send(None)
    call.close()  # RuntimeError if it went on.
    with pytest.raises(RuntimeError, match="cannot reuse"):
        call.send(None)
