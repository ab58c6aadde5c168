"""Repeats work again and again; no failure of one round ends it."""

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
    """Run `work` every so many ms, for the first time after the first of them, until cancelled.

    It leaves all as it is where nothing else happens (see `beat_later`), but while `is_awaited`.
    """
    while True:
        await (asyncio.sleep if is_awaited() else beat_sleep)(every_ms / 1000)
        try:
            await work()
        except Exception:  # noqa: BLE001  Whatever it was, the next round is tried.
            # A client without heartbeats or stored offsets is worse than a line in the log.
            _log.exception("%s failed; trying again in %s ms", work.__qualname__, every_ms)
