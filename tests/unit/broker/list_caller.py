"""Somebody who asks a service, without a connection: what came of it lies in a list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cometmq.model.errors import CometError


class ListCaller:
    """A `loop.caller.Caller`.

    Attributes:
        owner: whose share of what may wait it counts in.
        is_gone: whether nobody waits for an answer any more; for the test to say.
        is_held: whether it was told that its request waits.
        answers: results, and errors, in order.
        later: what gives another one, and is under way.
    """

    def __init__(self, owner: str = "one") -> None:
        self.owner = owner
        self.is_gone = False
        self.is_held = False
        self.answers: list[Any] = []
        self.later: list[Awaitable[Any]] = []

    def hold(self) -> None:
        self.is_held = True

    def answer(self, work: Callable[[], Any]) -> None:
        try:
            outcome = work()
        except CometError as error:
            self.answers.append(error)
            return
        if isinstance(outcome, tuple):
            self.answers.append(outcome)
        elif outcome is not None:
            self.later.append(outcome)

    async def finish(self) -> None:
        """Let come what is under way."""
        later, self.later = self.later, []
        for work in later:
            try:
                outcome = await work
            except CometError as error:
                outcome = error
            if outcome is not None:
                self.answers.append(outcome)
