"""Periodic work that continues after failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from cometmq.net.loop import beat_sleep

_log = logging.getLogger(__name__)


async def repeat(
    work: Callable[[], Awaitable[None]],
    *,
    every_ms: int,
    is_awaited: Callable[[], bool] = lambda: False,
) -> NoReturn:
    """Run `work` repeatedly until cancelled, with a pause of `every_ms` ms before each run; its errors are only logged.

    If `is_awaited` returns True, the pause is an ordinary timer; otherwise one of `beat_later`, which usually lets a
    simulated clock (`VirtualLoop`) skip idle time.
    """
    while True:
        await (asyncio.sleep if is_awaited() else beat_sleep)(every_ms / 1000)
        try:
            await work()
        except Exception:  # noqa: BLE001  Whatever the error was, the next round is tried.
            # A client without heartbeats or committed offsets would be worse than a line in the log.
            _log.exception(
                "A periodic task of the client failed; the next attempt follows in %s ms",
                every_ms,
            )
