"""Somebody who asks a service, without a connection: what came of it lies in a list."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from cometmq.model.errors import CometError
from cometmq.steps.runner import StepsRun
from tests.support.hand_world import HandWorld


class ListOwner(str):
    """A connection, by its name."""

    __slots__ = ()

    is_closed = False


class ListCaller:
    """A `loop.caller.Caller`.

    Attributes:
        owner: whose share of what may wait it counts in.
        is_gone: whether nobody waits for an answer any more; for the test to say.
        is_held: whether it was told that its request waits.
        answers: results, and errors, in order.
        later: attempts that are under way.
        world: what they wait in.
    """

    def __init__(self, owner: str = "one", world: HandWorld | None = None) -> None:
        self.owner = ListOwner(owner)
        self.is_gone = False
        self.is_held = False
        self.answers: list[Any] = []
        self.later: list[StepsRun[Any]] = []
        self.world = world or HandWorld()

    def hold(self) -> None:
        self.is_held = True

    def answer(self, work: Callable[[], Any]) -> None:
        try:
            outcome = work()
        except CometError as error:
            self.answers.append(error)
            return
        if isinstance(outcome, Generator):
            run: StepsRun[Any] = StepsRun(self.world, outcome, self._ended)
            self.later.append(run)
            run.go_on()
        elif outcome is not None:
            self.answers.append(outcome)

    def _ended(self, outcome: Any, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, CometError):
            raise error
        if error is not None or outcome is not None:
            self.answers.append(outcome if error is None else error)
