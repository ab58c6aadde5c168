"""Calls with context variables of their own: what a listener sets for one message is not seen with the next."""

import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from typing import Any


@types.coroutine
def run_in_own_context(
    function: Callable[..., Awaitable[Any]], *args: Any
) -> Generator[Any, Any, Any]:
    """Await what a function returns, each step of it in one copy of the caller's context.

    A task for each call would do the same and cost a turn of the loop more.
    """
    context = copy_context()
    steps = context.run(function, *args).__await__()
    try:
        awaited = context.run(next, steps)
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  A cancellation, or what the task was given.
                awaited = context.run(_throw, steps, error)
            else:
                awaited = context.run(next, steps)
    except StopIteration as end:
        return end.value


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)
