"""Sends under way together: bounds their number, and keeps their results."""

import asyncio
from collections.abc import Callable, Iterable

from cometmq.client.results import SendResult
from cometmq.model.errors import SendFailed
from cometmq.model.message import Message

# Sends that may wait for answers at once: enough to keep a broker busy over a long line, and a
# bound on memory.
WINDOW = 4096
# After so many the loop may write what is there, and the broker begins while we go on.
_BUNCH = 256


async def send_all(
    messages: Iterable[Message],
    send: Callable[[Message], asyncio.Future[SendResult]],
    *,
    window: int,
) -> list[SendResult]:
    """Send messages, at most `window` under way at once; results in their order.

    Raises:
        SendFailed: after all have settled, when some failed; how many, and the first reason.
    """
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
    """Sends that were begun one after the other.

    Args:
        window: how many may wait for their answers at once.
    """

    def __init__(self, window: int) -> None:
        self._sends: list[asyncio.Future[SendResult]] = []
        self._window = window
        self._under_way = 0
        self._room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the next one has to wait."""
        return self._under_way >= self._window

    def add(self, send: asyncio.Future[SendResult]) -> None:
        """Add a send that was begun."""
        self._sends.append(send)
        self._under_way += 1
        send.add_done_callback(self._settled)

    def _settled(self, _send: asyncio.Future[SendResult]) -> None:
        self._under_way -= 1
        self._room.set()

    async def wait_room(self) -> None:
        """Wait until one more may begin."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def wait_settled(self) -> None:
        """Wait until all have ended, well or not."""
        while self._under_way:
            self._room.clear()
            await self._room.wait()

    def results(self) -> list[SendResult]:
        """The results, in the order of the sends.

        Raises:
            SendFailed: some failed; how many, and the first reason.
        """
        failures = [error for send in self._sends if (error := send.exception()) is not None]
        if failures:
            raise SendFailed(
                f"{len(failures)} of {len(self._sends)} messages were not acknowledged; "
                f"first: {failures[0]}"
            ) from failures[0]
        return [send.result() for send in self._sends]
