"""Reads a range of a queue in order, with several pulls in flight.

Offsets of a queue have no gaps, so the next pull can be sent before the previous one is answered. If an answer covers
fewer offsets than requested (a Java broker by default returns at most 32 messages, or 8 from disk), the rest is usually
requested again, and the next pulls request fewer.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import replace

from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.results import PullStatus, RawPull
from cometmq.codec.remoting import Command
from cometmq.model.queue import MessageQueue

# A pull in flight: its first offset, the offset after its last, and the answer.
_Pull = tuple[int, int, asyncio.Future[Command]]


class RangeReader:
    """Reads the messages of one queue from the offset `start` to before `end`, with at most `depth` pulls in flight.

    `ask` are the parameters of the pulls; its `max_count` is the initial number of messages per pull.
    """

    def __init__(
        self,
        puller: Puller,
        queue: MessageQueue,
        *,
        start: int,
        end: int,
        ask: PullTerms,
        depth: int,
    ) -> None:
        self._puller = puller
        self._queue = queue
        self._next = start
        self._end = end
        # The queue's end according to the latest answer. A pull beyond it is useless, and a Java broker even writes an
        # event for it (OFFSET_MOVED_EVENT).
        self._known_end = start + ask.max_count
        self._ask = ask
        self._step = ask.max_count
        self._depth = depth
        self._under_way: deque[_Pull] = deque()

    async def read(self) -> AsyncGenerator[RawPull, None]:
        """Yield the answers in order, until `end`, the queue's end or no progress; raise as `Puller.pull` does.

        If messages are deleted, usually one answer is OFFSET_ILLEGAL, and reading goes on at its `next_offset`.
        """
        try:
            while await self._fill():
                first, behind, answer = self._under_way.popleft()
                pull = self._puller.read(self._queue, await answer)
                yield pull
                if not await self._go_on(first, behind, pull):
                    return
        finally:
            self._drop()

    async def _fill(self) -> bool:
        end = min(self._end, self._known_end)
        while self._next < end and len(self._under_way) < self._depth:
            behind = min(self._next + self._step, end)
            self._under_way.append(await self._pull(self._next, behind))
            self._next = behind
        return bool(self._under_way)

    async def _pull(self, first: int, behind: int) -> _Pull:
        ask = replace(self._ask, max_count=behind - first)
        return first, behind, await self._puller.start(self._queue, first, ask)

    async def _go_on(self, first: int, behind: int, pull: RawPull) -> bool:
        self._known_end = pull.max_offset
        if pull.next_offset <= first or pull.status is PullStatus.NO_NEW_MESSAGE:
            return False
        if pull.status is PullStatus.OFFSET_ILLEGAL:
            # The following pulls may be for deleted messages, too; start again at the broker's offset.
            self._drop()
            self._next = pull.next_offset
        elif pull.next_offset < behind:
            self._step = max(1, pull.next_offset - first)
            self._under_way.appendleft(await self._pull(pull.next_offset, behind))
        elif self._step < self._ask.max_count and behind - first == self._step:
            self._step = min(self._step * 2, self._ask.max_count)
        return True

    def _drop(self) -> None:
        for _, _, answer in self._under_way:
            # No task awaits them: without this a lost connection would be reported for each.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._under_way.clear()
