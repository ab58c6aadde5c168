"""The one thread on whose loop all blocking clients of a process live.

A blocking method passes a function to `Portal.call`; the thread runs it, awaits what it gives, and
the caller sleeps until then: about 30 us a call. The thread is made with the first client, never at
import. Design note: docs/design/0003-sync-facade.md.
"""

import atexit
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from functools import cache, partial
from typing import Any, TypeVar, cast

from cometmq.client.results import RawPull
from cometmq.client.sync.handoff import Handoff, begin
from cometmq.client.sync.read_ahead import ReadAhead
from cometmq.model.errors import ClientClosed
from cometmq.net.loop import new_loop

Value = TypeVar("Value")

_STOP_SECONDS_MAX = 5.0
_AT_ONCE = 256  # What was started, run in one turn of the loop: some ms of sends.


class Portal:
    """A loop on a thread of its own."""

    def __init__(self) -> None:
        """Start the thread."""
        self._is_lost = False
        self._started: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._loop = new_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="cometmq-clients", daemon=True
        )
        self._thread.start()
        atexit.register(self.stop)
        _after_fork(self._lose)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function on the loop and await what it gives; cancelled if the wait is broken off.

        Raises:
            ClientClosed: called from the loop itself, or in a process forked since.
            BaseException: whatever the function raises.
        """
        self._check_usable()
        call = Handoff(function, args, kwargs)
        try:
            self._loop.call_soon_threadsafe(call.start, self._loop)
            call.finished.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def _check_usable(self) -> None:
        if self._is_lost:
            raise ClientClosed(
                "this client was made before fork(); make a new one in this process"
            )
        if threading.get_ident() == self._thread.ident:
            raise ClientClosed(
                "a blocking client was called from the thread on which it works (an async "
                "listener?); use its Async twin there"
            )

    def _lose(self) -> None:
        """In the child of a fork, which has this object, but not its thread."""
        self._is_lost = True

    def start(
        self, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> "concurrent.futures.Future[Any]":
        """Run a function on the loop and give the future of what it gives; nobody waits here.

        Those that are started while the loop is busy are run in one turn of it, in their order. A future can be
        cancelled until its turn has come.

        Raises:
            ClientClosed: called from the loop itself, or in a process forked since.
        """
        self._check_usable()
        result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._started.append(partial(begin, result, partial(function, *args, **kwargs)))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run_started)
        return result

    def _run_started(self) -> None:
        # Before it looks: what is added from now on wakes the loop again.
        self._is_woken = False
        for _ in range(min(len(self._started), _AT_ONCE)):
            self._started.popleft()()
        if self._started and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._run_started)

    def iterate(
        self, function: Callable[..., AsyncIterator[Value]], *args: Any, **kwargs: Any
    ) -> Generator[Value, None, None]:
        """Run an async iterator on the loop, one call for each value that it yields."""
        source = cast("AsyncGenerator[Value]", function(*args, **kwargs))
        try:
            while True:
                try:
                    yield self.call(source.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            self.call(source.aclose)

    def iterate_ahead(
        self, function: Callable[..., AsyncIterator[RawPull]], *args: Any, **kwargs: Any
    ) -> Generator[RawPull, None, None]:
        """Run an async iterator of answers on the loop, ahead of the caller: many come with one call."""
        source = cast("AsyncGenerator[RawPull]", function(*args, **kwargs))
        ahead = ReadAhead(source)
        try:
            while True:
                pulls, error = self.call(ahead.take)
                yield from pulls
                if error is not None:
                    raise error
                if not pulls:
                    return
        finally:
            self.call(ahead.close)

    def stop(self) -> None:
        """End the thread; clients that were not closed are cut off."""
        if not self._is_lost and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS_MAX)


@cache
def portal() -> Portal:
    """The portal of this process, made now if there is none."""
    return Portal()


def _after_fork(call: Callable[[], None]) -> None:
    """Call this in each child of a fork; Windows has none."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


# The child of a fork makes its own.
_after_fork(portal.cache_clear)
