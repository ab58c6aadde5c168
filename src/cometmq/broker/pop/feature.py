"""Pop, put together: its requests, and the timer that keeps its promises.

Next: cometmq.broker.pop.popping
"""

import asyncio
import logging
import random
import secrets
from contextlib import suppress

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pop.ack_batch import AckBatch
from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.check_points import PERIOD_MS, CheckPoint, CheckPoints
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.peeking import Peeking
from cometmq.broker.pop.popping import Popping
from cometmq.broker.pop.progress import Progress
from cometmq.broker.pop.reading import PopReader
from cometmq.broker.pop.revive import Revive
from cometmq.broker.pop.waiting import Waiting
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

# The offsets on disk are at most so old (flushConsumerOffsetInterval, and the flush of a check point
# before its offset may be said): older check points are in them.
_OFFSETS_AGE_MS = 30_000
_ORDERS_SECONDS = 5
_FLUSH_SECONDS_MAX = 5  # What a close waits for; without it groups are said to be less far.


class PopFeature(Feature):
    """The broker's part of pop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._points = CheckPoints()
        self._journal = Journal(parts, self._points)
        self._progress = Progress(parts.offsets, parts.store)
        self._orders = Orders(parts)
        self._waiting = Waiting(parts)
        self._revive = Revive(parts, journal=self._journal, waiting=self._waiting)
        chance = random.Random(secrets.randbits(64))  # noqa: S311  Picks queues.
        reader = PopReader(
            parts,
            journal=self._journal,
            progress=self._progress,
            orders=self._orders,
            chance=chance,
        )
        popping = Popping(
            parts,
            reader=reader,
            waiting=self._waiting,
            points=self._points,
            orders=self._orders,
        )
        acks = Acks(parts, journal=self._journal, orders=self._orders, waiting=self._waiting)
        peeking = Peeking(parts, popping, reader, self._progress, chance)
        self._tasks = Tasks("pop")
        self.answers = {
            RequestCode.POP_MESSAGE: popping.pop,
            RequestCode.PEEK_MESSAGE: peeking.peek,
            RequestCode.ACK_MESSAGE: AckBatch(self._points, acks),
            RequestCode.NOTIFICATION: popping.notification,
            RequestCode.POLLING_INFO: popping.polling,
            RequestCode.BATCH_ACK_MESSAGE: acks.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: acks.change_invisible_time,
            RequestCode.POP_ROLLBACK: _keep_files,
        }

    async def start(self) -> None:
        """Know again what was handed out before.

        Raises:
            CodecError: consumerOrderInfo.json means nothing.
            OSError: the disk failed.
        """
        self._orders.load()
        oldest = self._parts.offsets.table().version.timestamp - _OFFSETS_AGE_MS
        found = await self._journal.read_on()
        for point in sorted(found, key=_pop_time):
            if point.body.pop_time_ms >= oldest:
                self._progress.restore(point)
        self._tasks.spawn(self._keep(), "keep")
        self._tasks.spawn(self._hand_on(), "revive")

    async def close(self) -> None:
        """Put on record what is known, and say how far groups are: all of it is on disk then."""
        await self._tasks.close()
        self._settle()
        await self._flushed()
        self._settle()
        await self._orders.close()

    async def _flushed(self) -> None:
        """Wait for the flusher, which hurries for who waits; a flush that fails says so itself."""
        if len(self._points):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._parts.inner.on_device(), _FLUSH_SECONDS_MAX)

    def _settle(self) -> None:
        self._journal.record_changes()
        self._journal.rewrite_old()
        self._progress.settle()
        self._journal.settle()

    async def _keep(self) -> None:
        """What is put off, each 100 ms; no part of it waits."""
        clock = self._parts.clock
        orders_due = 0.0
        while True:
            await asyncio.sleep(PERIOD_MS / 1000)
            try:
                self._settle()
                self._waiting.wake_ordered()
                self._waiting.expire(clock.monotonic())
                if clock.monotonic() >= orders_due:
                    self._orders.save_if_dirty()
                    orders_due = clock.monotonic() + _ORDERS_SECONDS
            except Exception:  # noqa: BLE001  It must not end.
                _log.exception("pop: what is due could not be done; trying again")

    async def _hand_on(self) -> None:
        """What falls due, and what others wrote into the revive topic."""
        while True:
            await asyncio.sleep(PERIOD_MS / 1000)
            try:
                await self._journal.read_on()
                await self._revive.hand_on(self._points.take_due(self._parts.clock.now_ms()))
            except Exception:  # noqa: BLE001  It must not end.
                _log.exception("pop: messages that are due wait; trying again")


def _keep_files(_command: Command, _peer: Peer) -> Answer:
    """POP_ROLLBACK 200056: check points are to be in files again, where ours always are."""
    return Answer()


def _pop_time(point: CheckPoint) -> int:
    return point.body.pop_time_ms
