"""Messages that were pulled for a pull consumer and not finished by its user yet."""

import asyncio
from collections import deque
from typing import NamedTuple

from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.pull.pull_loop import Batch, PullLoop
from cometmq.model.message import StoredMessage


class _Item(NamedTuple):
    loop: PullLoop
    process_queue: ProcessQueue
    message: StoredMessage


class Inbox:
    """The pulled messages of one pull consumer: those that wait for its user, and those received but not finished."""

    def __init__(self) -> None:
        self._waiting: deque[_Item] = deque()
        self._handed_out: list[_Item] = []
        self._arrived = asyncio.Event()

    def put(self, loop: PullLoop, messages: Batch) -> None:
        """Add messages that the pull loop of a queue has pulled."""
        self._waiting.extend(_Item(loop, loop.process_queue, message) for message in messages)
        self._arrived.set()

    def drop(self, loop: PullLoop) -> None:
        """Drop a queue's messages, received ones too, because it was revoked or the user seeks; `finish` skips them."""
        self._waiting = deque(item for item in self._waiting if item.loop is not loop)
        self._handed_out = [item for item in self._handed_out if item.loop is not loop]

    async def take(self, max_count: int, wait_ms: float) -> list[StoredMessage]:
        """Return up to `max_count` messages, waiting up to `wait_ms` ms for the first, or until `wake`; perhaps none."""
        if not self._waiting:
            self._arrived.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        count = min(max_count, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._handed_out += taken
        return [item.message for item in taken]

    def finish(self) -> None:
        """Mark the received messages as consumed, because the user asks for more or closes the consumer."""
        done, self._handed_out = self._handed_out, []
        for item in done:
            item.loop.finish(item.process_queue, [item.message.queue_offset])

    def forget(self) -> None:
        """Mark the received messages as not consumed, so that the next owner of the queue usually gets them again."""
        self._handed_out.clear()

    def wake(self) -> None:
        """Wake up a waiting `take`, because the consumer is closing."""
        self._arrived.set()
