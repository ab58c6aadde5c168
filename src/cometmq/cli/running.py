"""Runs a command's work, and cancels it at Ctrl-C or SIGTERM."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends, or cancel it at Ctrl-C or SIGTERM, which is no error; raise its other exceptions."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    is_asked = False

    def ask() -> None:
        nonlocal is_asked
        is_asked = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    try:
        await task
    except asyncio.CancelledError:
        if not is_asked:
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
