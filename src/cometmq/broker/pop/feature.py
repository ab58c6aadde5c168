"""Pop, put together: its requests, and the timer that keeps its promises.

Next: cometmq.broker.pop.popping
"""

import asyncio

from cometmq.broker.machines.on_loop import Machines
from cometmq.broker.machines.steps import Steps, on_device
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pop.ack_batch import AckBatch
from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.hand_outs import PERIOD_MS, CheckPoint
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.peeking import Peeking
from cometmq.broker.pop.popping import Popping
from cometmq.broker.pop.reading import PopReader
from cometmq.broker.pop.revive import Revive
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.loop import loop_chance
from cometmq.net.peer import Peer

_PERIOD_SECONDS = PERIOD_MS / 1000

# The offsets on disk are at most so old (flushConsumerOffsetInterval, and the flush of a check point
# before its offset may be said): older check points are in them.
_OFFSETS_AGE_MS = 30_000
_ORDERS_SECONDS = 5
_FLUSH_SECONDS_MAX = 5  # What a close waits for; without it groups are said to be less far.


class PopFeature(Feature):
    """The broker's part of pop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._journal = Journal(parts)
        self._hand_outs = self._journal.hand_outs
        self._offsets = GroupOffsets(parts.offsets, parts.store, self._hand_outs)
        self._orders = Orders(parts)
        self._waiting = PopLongPolls(parts)
        self._revive = Revive(parts, journal=self._journal, waiting=self._waiting)
        chance = loop_chance()  # Picks queues.
        reader = PopReader(
            parts,
            journal=self._journal,
            offsets=self._offsets,
            orders=self._orders,
            chance=chance,
        )
        popping = Popping(
            parts,
            reader=reader,
            waiting=self._waiting,
            hand_outs=self._hand_outs,
            orders=self._orders,
        )
        acks = Acks(parts, journal=self._journal, orders=self._orders, waiting=self._waiting)
        peeking = Peeking(parts, popping, reader, self._offsets, chance)
        self._machines = Machines(parts.world, "pop")
        self._orders_due = 0.0
        self.answers = {
            RequestCode.POP_MESSAGE: popping.pop,
            RequestCode.PEEK_MESSAGE: peeking.peek,
            RequestCode.ACK_MESSAGE: AckBatch(self._hand_outs, acks),
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
        found = await self._machines.run(self._journal.read_on())
        for point in sorted(found, key=_pop_time):
            if point.body.pop_time_ms >= oldest:
                self._offsets.restore(point)
        for name, step in (("records", self._keep), ("revive", self._hand_on)):
            self._machines.keep(
                name, step, first_seconds=_PERIOD_SECONDS, rest_seconds=_PERIOD_SECONDS
            )

    async def close(self) -> None:
        """Put on record what is known, and say how far groups are: all of it is on disk then."""
        await self._machines.close()
        self._write_and_say()
        await self._flushed()
        self._write_and_say()
        await self._orders.close()

    async def _flushed(self) -> None:
        """Wait for the flusher, which hurries for who waits; a flush that fails says so itself."""
        if len(self._hand_outs):
            flushed = self._machines.run(on_device())
            await asyncio.wait([flushed], timeout=_FLUSH_SECONDS_MAX)

    def _write_and_say(self) -> None:
        self._journal.record_acknowledgements()
        self._journal.rewrite_old()
        self._offsets.say()
        self._journal.say_done()

    def _keep(self) -> float:
        """What is put off, each 100 ms; no part of it waits."""
        clock = self._parts.clock
        self._write_and_say()
        self._waiting.wake_ordered()
        self._waiting.expire(clock.monotonic())
        if clock.monotonic() >= self._orders_due:
            self._orders.save_if_dirty()
            self._orders_due = clock.monotonic() + _ORDERS_SECONDS
        return _PERIOD_SECONDS

    def _hand_on(self) -> Steps[float]:
        """What falls due, and what others wrote into the revive topic."""
        yield from self._journal.read_on()
        due = self._hand_outs.pop_due(self._parts.clock.now_ms())
        yield from self._revive.hand_on(due)
        return _PERIOD_SECONDS


def _keep_files(_command: Command, _peer: Peer) -> Answer:
    """POP_ROLLBACK 200056: check points are to be in files again, where ours always are."""
    return Answer()


def _pop_time(point: CheckPoint) -> int:
    return point.body.pop_time_ms
