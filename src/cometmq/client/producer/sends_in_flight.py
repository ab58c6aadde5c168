"""Sends that are in flight together: limits their number and collects their results."""

import asyncio
from collections.abc import Callable, Iterable

from cometmq.client.argument_checks import check_counts
from cometmq.client.results import SendResult
from cometmq.model.errors import SendFailed
from cometmq.model.message import Message

# Default of the sends in flight: enough to keep a broker busy over a slow connection, and a limit on memory.
WINDOW = 4096
# After this many sends the loop may write, so that the broker starts while we continue.
_BUNCH = 256


async def send_all(
    messages: Iterable[Message],
    send: Callable[[Message], asyncio.Future[SendResult]],
    *,
    window: int,
) -> list[SendResult]:
    """Send messages with at most `window` in flight and return the results in their order.

    Raises SendFailed, after all sends have completed, if some failed; it gives their number and the first reason. An
    error of calling `send` ends the loop and is raised after the earlier sends have completed. Raises SettingsError if
    `window` is less than 1.
    """
    check_counts(window=window)
    sends: list[asyncio.Future[SendResult]] = []
    under_way, ended = 0, asyncio.Event()

    def settled(_send: asyncio.Future[SendResult]) -> None:
        nonlocal under_way
        under_way -= 1
        ended.set()

    async def wait(most: int) -> None:
        while under_way > most:
            ended.clear()
            await ended.wait()

    try:
        for count, message in enumerate(messages):
            if under_way >= window:
                await wait(window - 1)
            elif count % _BUNCH == 0:
                await asyncio.sleep(0)
            sends.append(started := send(message))
            under_way += 1
            started.add_done_callback(settled)
    finally:
        await wait(0)
    failures = [error for each in sends if (error := each.exception()) is not None]
    if failures:
        raise SendFailed(
            f"{len(failures)} of {len(sends)} messages were not acknowledged; first: {failures[0]}"
        ) from failures[0]
    return [each.result() for each in sends]
