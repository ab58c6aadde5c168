"""A call of a blocking client that is passed to the loop's thread and back."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from cometmq.client.argument_checks import explain
from cometmq.model.errors import ClientClosed

Value = TypeVar("Value")


class Handoff:
    """A function to run on the loop, and its outcome.

    Attributes:
        finished: Held until the outcome is available in `value` or `error`.
        value: Result of the function.
        error: Exception of the function, or None.
    """

    __slots__ = ("_function", "_under_way", "error", "finished", "value")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._function = (function, args, kwargs)
        self._under_way: asyncio.Future[Any] | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.finished = threading.Lock()
        self.finished.acquire()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the function and await its result; called on the loop."""
        function, args, kwargs = self._function
        try:
            given = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001  The caller gets it.
            self.error = error
            self.finished.release()
            return
        if asyncio.isfuture(given):
            self._under_way = given
        elif asyncio.iscoroutine(given):
            # Not wrapped: if cancelled before its first step, a coroutine inside another one is never awaited.
            self._under_way = loop.create_task(given)
        elif isinstance(given, Awaitable):
            self._under_way = loop.create_task(_wait(given))
        else:
            self.value = given
            self.finished.release()
            return
        self._under_way.add_done_callback(self._settle)

    def _settle(self, future: asyncio.Future[Any]) -> None:
        try:
            self.value = future.result()
        except BaseException as error:  # noqa: BLE001  The caller gets it.
            self.error = error
        self.finished.release()

    def cancel(self) -> None:
        """Cancel the call because its caller has stopped waiting; called on the loop."""
        if self._under_way is not None:
            self._under_way.cancel()


def begin(
    result: "concurrent.futures.Future[Any]", work: "partial[asyncio.Future[Any]]"
) -> None:
    """Run a function that returns a future, and copy its outcome to `result`; called on the loop."""

    def fail(error: BaseException) -> None:
        result.set_exception(explain(work.func, work.args, work.keywords, error))

    if not result.set_running_or_notify_cancel():
        return

    def settle(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            result.set_exception(ClientClosed("the client's loop was closed during the call"))
        elif (error := done.exception()) is not None:
            fail(error)
        else:
            result.set_result(done.result())

    try:
        given = work()
    except BaseException as error:  # noqa: BLE001  The caller gets it.
        fail(error)
        return
    given.add_done_callback(settle)


async def _wait(given: Awaitable[Value]) -> Value:
    return await given
