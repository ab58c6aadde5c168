"""Calls of functions that the user has passed to a client, which may raise more than an `Exception`."""

import asyncio
import inspect
import threading
import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
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


def run_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function and return its result or raise its exception; RuntimeError for StopIteration and GeneratorExit.

    In a coroutine or future these two would not pass for exceptions of the function.
    """
    try:
        return function(*args)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the function raised {type(error).__name__}") from error


@types.coroutine
def await_user(function: Callable[..., Awaitable[Any]], *args: Any) -> Generator[Any, Any, Any]:
    """Call an async function in a copy of the caller's context, await it there, and return its result.

    Raises as `run_user`; GeneratorExit only if the caller's coroutine is closed. A task per call would have a context of
    its own, too, but cost an iteration of the event loop.
    """
    context = copy_context()
    is_closed = False
    steps = context.run(function, *args).__await__()
    try:
        awaited = context.run(next, steps)
        while True:
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  A cancellation, or another exception.
                is_closed = isinstance(error, GeneratorExit)
                awaited = context.run(_throw, steps, error)
            else:
                awaited = context.run(next, steps)
    except StopIteration as end:
        return end.value
    except GeneratorExit as error:
        if is_closed:
            raise
        raise RuntimeError("the function raised GeneratorExit") from error


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    return steps.throw(error)


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function, a `def` in a thread, and return its result or raise as `run_user`."""
    if is_async_function(function):
        return await await_user(function, *args)
    return await asyncio.to_thread(run_user, function, *args)
