"""The thread and event loop that all blocking clients of a process share.

A blocking method passes a function to `Portal.call`; the thread runs it and awaits its result while the caller sleeps,
which takes about 30 us per call. The thread is started with the first client, never at import. Design note:
docs/design/0003-sync-facade.md.
"""

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextvars import copy_context
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar, cast

from cometmq.client.argument_checks import explain
from cometmq.client.results import RawPull
from cometmq.client.stop_signals import stop_signals
from cometmq.model.errors import ClientClosed, CometError
from cometmq.net.loop import check_threads, new_loop

_log = logging.getLogger(__name__)

Params = ParamSpec("Params")
Value = TypeVar("Value")

_STOP_SECONDS_MAX = 5.0
_AT_ONCE = (
    256  # Maximum number of started functions per iteration of the loop: some ms of sends.
)


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


# Limits of one batch; while a caller works with a batch, a second one is in memory.
AHEAD_PULLS = 256
AHEAD_BYTES = 8 << 20


class ReadAhead:
    """Collects the next answers of a range while the caller works with the previous ones.

    Args:
        answers: Source of the answers.
    """

    def __init__(self, answers: AsyncGenerator[RawPull, None]) -> None:
        self._answers = answers
        self._gathering: asyncio.Task[tuple[list[RawPull], CometError | None]] | None = None

    async def take(self) -> tuple[list[RawPull], CometError | None]:
        """Return the next answers (none at the end) and the error that followed them; then continue collecting."""
        task = self._gathering or asyncio.ensure_future(self._gather())
        self._gathering = task
        pulls, error = await task
        if pulls and error is None:
            self._gathering = asyncio.ensure_future(self._gather())
        return pulls, error

    async def _gather(self) -> tuple[list[RawPull], CometError | None]:
        pulls: list[RawPull] = []
        size = 0
        try:
            async for pull in self._answers:
                pulls.append(pull)
                size += len(pull.body)
                if size >= AHEAD_BYTES or len(pulls) >= AHEAD_PULLS:
                    break
        except CometError as error:
            return pulls, error
        return pulls, None

    async def close(self) -> None:
        """Stop collecting."""
        if self._gathering is not None:
            self._gathering.cancel()
            # This also retrieves its error, which asyncio would otherwise report.
            await asyncio.gather(self._gathering, return_exceptions=True)
        await self._answers.aclose()


class Portal:
    """An event loop in its own thread.

    Attributes:
        is_lost: Whether this is the child of a fork, in which the thread does not exist.
    """

    def __init__(self) -> None:
        """Start the thread.

        Raises:
            SettingsError: gevent or eventlet has replaced threads.
        """
        check_threads()
        self.is_lost = False
        self._is_stopped = False
        self._started: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="cometmq-clients", daemon=True)
        self._thread.start()
        atexit.register(self.stop)
        _after_fork(self._lose)

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001  All blocking clients of the process need this thread.
                _log.exception("An error on the loop of the blocking clients; it continues")

    def end(self, function: Callable[..., Any], *args: Any) -> None:
        """Run a function that closes a part of a client, if the loop still exists.

        A child of a fork does not own the connections of its parent, and when the interpreter exits they are cut off.

        Raises:
            BaseException: Any error of the function.
        """
        if not (self.is_lost or self._is_stopped):
            self._call(function, args, {})

    def call(
        self,
        function: Callable[Params, Awaitable[Value]],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Value:
        """Run a function on the loop and return its awaited result; the call is cancelled if the wait is interrupted.

        Raises:
            ClientClosed: Called from the loop itself, in the child of a fork, or while the interpreter exits.
            BaseException: Any error of the function.
        """
        result: Value = self._call(function, args, kwargs)
        return result

    def do(
        self, function: Callable[Params, Value], *args: Params.args, **kwargs: Params.kwargs
    ) -> Value:
        """Run a plain function on the loop and return its result; raises as `call`."""
        result: Value = self._call(function, args, kwargs)
        return result

    def _call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._check_usable()
        call = Handoff(function, args, kwargs)
        self._finish(call)
        if call.error is not None:
            raise explain(function, args, kwargs, call.error)
        return call.value

    def _finish(self, call: Handoff) -> None:
        try:
            self._loop.call_soon_threadsafe(call.start, self._loop)
            call.finished.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise

    def wait(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a function that waits, until it ends or until SIGTERM or SIGINT (see `stop_signals`).

        Raises:
            BaseException: Any error of the function, or as in `call`.
        """
        self._check_usable()
        call, is_asked = Handoff(function, (), {}), False

        def ask() -> None:
            nonlocal is_asked
            is_asked = True
            self._loop.call_soon_threadsafe(call.cancel)

        with stop_signals(ask):
            self._finish(call)
        if call.error is not None and not is_asked:
            raise call.error

    def _check_usable(self) -> None:
        if self.is_lost:
            raise ClientClosed("this client was started before fork(); create a new one here")
        if self._is_stopped:
            raise ClientClosed(
                "the interpreter is exiting and has cut the clients off; close them before the program ends"
            )
        if threading.get_ident() == self._thread.ident:
            raise ClientClosed(
                "a blocking client was called from the thread of its own event loop (in an async "
                "listener?); use its Async twin there"
            )

    def _lose(self) -> None:
        self.is_lost = True

    def start(
        self,
        function: Callable[Params, asyncio.Future[Value]],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> "concurrent.futures.Future[Value]":
        """Run a function on the loop and return the future of its result, without waiting.

        Functions started while the loop is busy run in one iteration, in order; until then a future can be cancelled.

        Raises:
            ClientClosed: Called from the loop itself, or in the child of a fork.
        """
        self._check_usable()
        result: concurrent.futures.Future[Value] = concurrent.futures.Future()
        work = partial(function, *args, **kwargs)
        # One iteration runs functions of several callers; the context makes a span a child of its own caller's.
        self._started.append(partial(copy_context().run, begin, result, work))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run_started)
        return result

    def _run_started(self) -> None:
        # Cleared before checking: functions added from now on wake the loop again.
        self._is_woken = False
        for _ in range(min(len(self._started), _AT_ONCE)):
            self._started.popleft()()
        if self._started and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._run_started)

    def iterate(
        self,
        function: Callable[Params, AsyncIterator[Value]],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Generator[Value, None, None]:
        """Run an async iterator on the loop, with one call for each value."""
        source = cast("AsyncGenerator[Value]", function(*args, **kwargs))
        try:
            while True:
                try:
                    yield self.call(source.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            self.end(source.aclose)

    def iterate_ahead(
        self,
        function: Callable[Params, AsyncIterator[RawPull]],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> Generator[RawPull, None, None]:
        """Run an async iterator of pull answers on the loop, ahead of the caller: one call returns many answers."""
        source = cast("AsyncGenerator[RawPull]", function(*args, **kwargs))
        ahead = ReadAhead(source)
        try:
            while True:
                pulls, error = self.call(ahead.take)
                yield from pulls
                if error is not None:
                    raise explain(function, args, kwargs, error)
                if not pulls:
                    return
        finally:
            self.end(ahead.close)

    def stop(self) -> None:
        """Stop the thread; clients that are not closed are cut off."""
        if not (self.is_lost or self._is_stopped):
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS_MAX)


@cache
def portal() -> Portal:
    """Return the portal of this process; the first call creates it."""
    return Portal()


def _after_fork(call: Callable[[], None]) -> None:
    """Register a function to run in each child of a fork; Windows has no fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


# The child of a fork creates its own portal.
_after_fork(portal.cache_clear)
