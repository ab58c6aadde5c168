"""Runs a coroutine under virtual time, for tests that are no coroutines themselves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from cometmq.net.virtual_loop import VirtualLoop

T = TypeVar("T")


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run it on a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
