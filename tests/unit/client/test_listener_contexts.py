"""Context variables: what a listener sets for one message is not seen with the next one."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cometmq.client.consumer.listeners import ListenerCall, listener_call

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
