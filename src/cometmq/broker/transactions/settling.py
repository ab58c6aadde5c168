"""Writes what becomes of halves: messages first, then the op that says which halves are done, at once.

All ends of one turn of the loop share a write and a flush. A crash can therefore not come between a
commit and its op; only a power cut within the write can.

Next: cometmq.broker.transactions.ledger
"""

import asyncio
from typing import NamedTuple

from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.parts import Parts
from cometmq.broker.transactions.halves import ops
from cometmq.broker.transactions.ledger import Ledger, OpenHalf
from cometmq.model.errors import CodecError, CometError, RecordIllegal, StoreError
from cometmq.model.names import OP_HALF_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.net.tasks import Tasks
from cometmq.store.appender import PutResult


class _End(NamedTuple):
    """An end that waits for the end of this turn of the loop."""

    half: OpenHalf
    message: InnerMessage | None
    done: asyncio.Future[None]


class Settling:
    """The writes of transactions."""

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._parts = parts
        self._ledger = ledger
        self._ends: list[_End] = []
        self._tasks = Tasks("transactions")

    async def end(self, half: OpenHalf, message: InnerMessage | None, *, became: str) -> None:
        """End a transaction; done when that is as safe as a send would be.

        Args:
            half: an open one.
            message: what it becomes; None for a rollback.
            became: the same for people.

        Raises:
            StoreError, CodecError: it could not be written; the half is open still.
        """
        self._ledger.take(half, became)
        loop = asyncio.get_running_loop()
        if not self._ends:
            loop.call_soon(self._write_ends)
        end = _End(half, message, loop.create_future())
        self._ends.append(end)
        # Whoever asked may go away meanwhile; the end stays.
        await asyncio.shield(end.done)

    def write(self, messages: list[InnerMessage], done: list[int]) -> list[PutResult]:
        """Write messages, and an op for half offsets that are done by it.

        Returns:
            Where the messages lie, and behind them the ops.

        Raises:
            StoreError, CodecError: nothing was written.
        """
        ledger = self._ledger
        done = sorted(done + ledger.unmarked)
        marks = ops(
            done,
            self._op_topic(),
            now_ms=self._parts.clock.now_ms(),
            host=self._parts.store.store_host,
        )
        results = self._parts.inner.put(*messages, *marks)
        ledger.unmarked = []
        for offset, _, _ in results[len(messages) :]:
            ledger.op_written(offset, done)
        return results

    def _op_topic(self) -> TopicConfig:
        return self._parts.topics.ensure(OP_HALF_TOPIC, queues=1, perm=6)

    def _write_ends(self) -> None:
        ends, self._ends = self._ends, []
        self._write_some(ends)

    def _write_some(self, ends: list[_End]) -> None:
        messages = [end.message for end in ends if end.message is not None]
        done = [offset for end in ends for offset in end.half.offsets]
        try:
            results = self.write(messages, done)
        except (RecordIllegal, CodecError) as error:
            if len(ends) == 1:
                self._fail(ends, error)
                return
            # One of them cannot be stored, and none was: one by one then.
            for end in ends:
                self._write_some([end])
        except StoreError as error:
            self._fail(ends, error)
        else:
            self._tasks.spawn(self._answer(ends, results), "answer")

    def _fail(self, ends: list[_End], error: CometError) -> None:
        for end in ends:
            self._ledger.give_back(end.half)
            if not end.done.done():
                end.done.set_exception(error)

    async def _answer(self, ends: list[_End], results: list[PutResult]) -> None:
        failure: StoreError | None = None
        try:
            await self._parts.inner.flushed(results)
        except StoreError as error:
            failure = error  # Written all the same: it ended, and a start will see how.
        for end in ends:
            if end.done.done():
                continue
            if failure is None:
                end.done.set_result(None)
            else:
                end.done.set_exception(failure)

    async def close(self) -> None:
        """Wait for what is on its way."""
        await self._tasks.close()
