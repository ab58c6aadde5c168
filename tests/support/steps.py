"""Steps on the loop of a test: for services that wait for real threads."""

import asyncio
from typing import TypeVar

from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.steps.steps import Steps

T = TypeVar("T")


def run(steps: Steps[T]) -> asyncio.Future[T]:
    """Begin steps; the result is there when they have ended."""
    return Machines(LoopWorld(), "test").run(steps)
