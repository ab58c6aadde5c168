"""Runs the same steps once for all callers that arrive while a run is in progress."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from cometmq.broker.loop.on_loop import Machines
from cometmq.broker.loop.steps import Steps

T = TypeVar("T")


class SharedSteps(Generic[T]):
    """Steps shared by several callers; each gets the result of a run that began after its request.

    A peer may send thousands of requests before it reads an answer. So at most one run is in progress, and all
    requests meanwhile share the next one.
    """

    def __init__(self, machines: Machines, steps: Callable[[], Steps[T]]) -> None:
        self._machines = machines
        self._steps = steps
        self._is_under_way = False
        self._next: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """Return the result of a run that begins now or later, or raise its error."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        shared = self._next
        if not self._is_under_way:
            self._begin(shared)
        # A cancelled caller must not cancel the run for the others.
        return await asyncio.shield(shared)

    def _begin(self, shared: asyncio.Future[T]) -> None:
        self._next, self._is_under_way = None, True
        run = self._machines.run(self._steps())
        run.add_done_callback(partial(self._end, shared))

    def _end(self, shared: asyncio.Future[T], run: asyncio.Future[T]) -> None:
        self._is_under_way = False
        error = run.exception()
        if error is None:
            shared.set_result(run.result())
        else:
            shared.set_exception(error)
            shared.exception()  # All callers may be gone.
        if self._next is not None:
            self._begin(self._next)
