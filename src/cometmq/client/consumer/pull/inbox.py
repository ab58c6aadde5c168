"""Messages that were pulled for a pull consumer and not received by its user yet.

What the user received counts as consumed when he asks for more: then he is through with it.
"""

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
    """The inbox of one pull consumer."""

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: deque[_Item] = deque()
        self._handed_out: list[_Item] = []
        self._arrived = asyncio.Event()

    def put(self, loop: PullLoop, messages: Batch) -> None:
        """Put in messages that came."""
        self._waiting.extend(_Item(loop, loop.process_queue, message) for message in messages)
        self._arrived.set()

    def drop(self, loop: PullLoop) -> None:
        """Forget messages of this loop: its queue is another's, or its position was moved."""
        self._waiting = deque(item for item in self._waiting if item.loop is not loop)
        self._handed_out = [item for item in self._handed_out if item.loop is not loop]

    async def take(self, max_count: int, wait_ms: float) -> list[StoredMessage]:
        """The next messages, at most so many; none when none comes in time."""
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
        """Mark the messages that were handed out as consumed."""
        done, self._handed_out = self._handed_out, []
        for item in done:
            item.loop.finish(item.process_queue, [item.message.queue_offset])

    def forget(self) -> None:
        """Drop the messages that were handed out as not consumed: the next owner of the queue gets them again."""
        self._handed_out.clear()

    def wake(self) -> None:
        """Let a `take` that waits look again: the consumer closes."""
        self._arrived.set()
