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
    sends = SendsInFlight(window)
    try:
        for count, message in enumerate(messages):
            if sends.is_full:
                await sends.wait_room()
            elif count % _BUNCH == 0:
                await asyncio.sleep(0)
            sends.add(send(message))
    finally:
        await sends.wait_settled()
    return sends.results()


class SendsInFlight:
    """A sequence of sends; callers observe the limit `window` on those in flight with `is_full` and `wait_room`."""

    def __init__(self, window: int) -> None:
        self._sends: list[asyncio.Future[SendResult]] = []
        self._window = window
        self._under_way = 0
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether `window` sends are in flight, so that the next one has to wait."""
        return self._under_way >= self._window

    def add(self, send: asyncio.Future[SendResult]) -> None:
        """Add a send that was started."""
        self._sends.append(send)
        self._under_way += 1
        send.add_done_callback(self._settled)

    def _settled(self, _send: asyncio.Future[SendResult]) -> None:
        self._under_way -= 1
        self._room.set()

    async def wait_room(self) -> None:
        """Wait until another send may start."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def wait_settled(self) -> None:
        """Wait until all added sends have completed or failed."""
        while self._under_way:
            self._room.clear()
            await self._room.wait()

    def results(self) -> list[SendResult]:
        """Return the results of ended sends in order; raise SendFailed, with number and first reason, if some failed."""
        failures = [error for send in self._sends if (error := send.exception()) is not None]
        if failures:
            raise SendFailed(
                f"{len(failures)} of {len(self._sends)} messages were not acknowledged; "
                f"first: {failures[0]}"
            ) from failures[0]
        return [send.result() for send in self._sends]
