"""Calls of functions that the user has passed to a client, which may raise more than an `Exception`."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any


def is_async_function(function: Callable[..., Any]) -> bool:
    """Return whether a function is `async` or an object with an `async` `__call__`, so that its result is awaited."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  Objects with an async __call__.
    )


def must_end_task(error: BaseException) -> bool:
    """Return whether an exception must end the current task of the client, and not only a call of the user's function.

    It is one that cancels the task or closes its coroutine, or the user's Ctrl-C in the main thread.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, GeneratorExit) or (
        isinstance(error, KeyboardInterrupt) and is_main
    )


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function, a `def` in a thread, and return its result or raise its exception; RuntimeError for StopIteration."""
    if is_async_function(function):
        return await function(*args)

    # asyncio never ends a future of a thread that raises StopIteration.
    def call() -> tuple[Any, BaseException | None]:
        try:
            return function(*args), None
        except BaseException as error:  # noqa: BLE001  Raised below.
            return None, error

    result, error = await asyncio.to_thread(call)
    if error is not None:
        raise error
    return result
