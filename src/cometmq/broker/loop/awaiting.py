"""Runs the steps of a request in a coroutine, so that they end with its connection."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cometmq.broker.loop.steps import Elsewhere, Steps, Wait

T = TypeVar("T")

# Runs work in a thread.
Lend = Callable[[Callable[[], Any]], Awaitable[Any]]


async def finish(steps: Steps[T], wait: Wait, lend: Lend) -> T:
    """Run steps from their first wait to their end; they may only wait for work in threads."""
    while True:
        assert isinstance(wait, Elsewhere), "reads wait for the device in a thread"
        try:
            try:
                result = await lend(wait.work)
            except Exception as error:  # noqa: BLE001  The steps handle it.
                wait = steps.throw(error)
            else:
                wait = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
