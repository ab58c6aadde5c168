"""Steps that a coroutine goes on with: a request's own, which end with its connection."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cometmq.broker.loop.steps import Elsewhere, Steps, Wait

T = TypeVar("T")

# Has work done in a thread.
Lend = Callable[[Callable[[], Any]], Awaitable[Any]]


async def finish(steps: Steps[T], wait: Wait, lend: Lend) -> T:
    """Take steps from the first wait that they gave to their end; they wait for threads alone."""
    while True:
        assert isinstance(wait, Elsewhere), "reads wait for the device in a thread"
        try:
            try:
                result = await lend(wait.work)
            except Exception as error:  # noqa: BLE001  The steps decide.
                wait = steps.throw(error)
            else:
                wait = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
