"""Shares runs of the same generator of steps: all callers that arrive while a run is in progress share the next one."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from cometmq.steps.runner import StepsRun, World
from cometmq.steps.steps import Done, Steps, called_back

T = TypeVar("T")


class SharedSteps(Generic[T]):
    """A generator of steps shared by several callers; each gets the result of a run that began after its request.

    A peer may send thousands of requests before it reads an answer. So at most one run is in progress, and all requests
    that arrive meanwhile share the next one.
    """

    def __init__(self, world: World, steps: Callable[[], Steps[T]]) -> None:
        self._world = world
        self._steps = steps
        self._is_under_way = False
        self._next: list[Done] = []

    def result(self) -> Steps[T]:
        """Wait for a run that begins now or, if one is in progress, after it; return its result or raise its error."""
        return called_back(self._join)

    def _join(self, done: Done) -> None:
        self._next.append(done)
        if not self._is_under_way:
            self._begin()

    def _begin(self) -> None:
        sharing, self._next, self._is_under_way = self._next, [], True
        StepsRun(self._world, self._steps(), partial(self._end, sharing)).go_on()

    def _end(self, sharing: list[Done], result: T | None, error: BaseException | None) -> None:
        self._is_under_way = False
        if self._next:
            self._begin()
        for done in sharing:
            done(result, error)
