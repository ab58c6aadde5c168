"""Runs a coroutine under virtual time, for tests that are no coroutines themselves."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from cometmq.net.virtual_loop import VirtualLoop

T = TypeVar("T")


def run_virtually(main: Coroutine[Any, Any, T], **settings: Any) -> T:
    """Run it on a virtual loop of its own, with these arguments of the loop."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, **settings)) as runner:
        return runner.run(main)
