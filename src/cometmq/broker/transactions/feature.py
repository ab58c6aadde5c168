"""Transactions as a part of the broker: made at the start from what the store has, then kept.

Next: cometmq.broker.transactions.ending
"""

import asyncio
import logging
from collections import Counter

from cometmq.broker.machines.on_loop import Machines
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.queue_cursor import QueueCursor
from cometmq.broker.reroute import Sent
from cometmq.broker.transactions.checking import Checking
from cometmq.broker.transactions.ending import Ending
from cometmq.broker.transactions.halves import as_half, is_half
from cometmq.broker.transactions.ledger import OPEN_MAX, Ledger
from cometmq.broker.transactions.resuming import Resuming
from cometmq.broker.transactions.settling import Settling
from cometmq.broker.transactions.witness import Witness
from cometmq.broker.waiting_counts import SAVE_SECONDS, WaitingCounts
from cometmq.codec.bodies.waiting_counts import TRANSACTION
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError, RequestError
from cometmq.model.flags import PERM_READ_WRITE, TRANSACTION_MASK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

_POSITIONS_SECONDS = 1.0


class Transactions(Feature):
    """Half messages, END_TRANSACTION, checks back, and what was discarded."""

    def __init__(self, parts: Parts) -> None:
        """Nothing is read yet."""
        self._parts = parts
        self._settings = parts.settings
        halves, ops = self._cursor(HALF_TOPIC), self._cursor(OP_HALF_TOPIC)
        self._ledger = Ledger(halves, ops)
        self._settling = Settling(parts, self._ledger)
        witness = Witness(parts, self._ledger, self._settling)
        self._checking = Checking(parts, self._ledger, self._settling, witness)
        ending = Ending(parts, self._ledger, self._settling, witness)
        resuming = Resuming(parts, self._ledger)
        parts.reroutes.append(self._reroute)
        self.answers = {
            RequestCode.END_TRANSACTION: ending.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: resuming.resume,
        }
        self._counts = WaitingCounts(parts, "transactionMetrics", TRANSACTION)
        self._tasks = Tasks("transactions")
        self._machines = Machines(parts.world, "transactions")
        # Positions, and the end of the log when they were taken: offsets that may not pass the disk.
        self._seen = (halves.offset, ops.offset, 0)

    def _cursor(self, topic: str) -> QueueCursor:
        """Where the last life of this store began to compare, as far as the queue goes."""
        parts = self._parts
        offset = parts.offsets.get(TRANSACTION_GROUP, topic, 0)
        queue = parts.store.queue(topic, 0)
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        start = low if offset is None else min(max(offset, low), high)
        return QueueCursor(parts.store, parts.pool, topic, 0, offset=start)

    async def start(self) -> None:
        """Read what is open."""
        self._counts.load()
        await self._ledger.load()
        if self._ledger.open:
            _log.info("%d transactions are open", len(self._ledger.open))
        self._tasks.spawn(self._check_forever(), "checks")
        self._tasks.spawn(self._keep_positions(), "positions")
        self._machines.keep("counts", self._save_counts, first_seconds=SAVE_SECONDS)

    async def close(self) -> None:
        """Finish what is on its way."""
        await self._tasks.close()
        await self._machines.close()
        await self._settling.close()
        self._commit_positions()
        self._count()
        await self._counts.close()

    def _count(self) -> None:
        self._counts.set_all(Counter(half.key.topic for half in self._ledger.open.values()))

    def _save_counts(self) -> float:
        self._count()
        self._counts.save_if_dirty()
        return SAVE_SECONDS

    # --- sends

    def _reroute(self, sent: Sent) -> Sent:
        """A half message goes to the half topic; all others stay."""
        if not is_half(sent):
            if sent.sys_flag & TRANSACTION_MASK:
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"sysFlag {sent.sys_flag} says that the message is part of a transaction, "
                    "and the property TRAN_MSG does not",
                )
            return sent
        if self._settings.is_transaction_refused:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.broker_name}] sending transaction message is "
                "forbidden (rejectTransactionMessage)",
            )
        if len(self._ledger.open) >= OPEN_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{OPEN_MAX} transactions are open, which is the most; wait until some have ended",
            )
        topic = self._parts.topics.ensure(HALF_TOPIC, queues=1, perm=PERM_READ_WRITE)
        return as_half(sent, topic)

    # --- rounds

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.transaction_check_interval_ms / 1000)
            try:
                await self._checking.round()
            except (CometError, OSError) as error:
                _log.error("a round of transaction checks failed: %s", error)
            except Exception:  # noqa: BLE001  Even a bug must not end it.
                _log.exception("a round of transaction checks failed")

    async def _keep_positions(self) -> None:
        while True:
            await asyncio.sleep(_POSITIONS_SECONDS)
            self._commit_positions()
            self._seen = (*self._ledger.positions(), self._parts.store.max_offset)

    def _commit_positions(self) -> None:
        """Offsets of a second ago, once the log that they rest on is on the disk."""
        half_offset, op_offset, log_end = self._seen
        if self._parts.store.flushed_offset < log_end:
            return
        for topic, offset in ((HALF_TOPIC, half_offset), (OP_HALF_TOPIC, op_offset)):
            if (self._parts.offsets.get(TRANSACTION_GROUP, topic, 0) or 0) != offset:
                self._parts.offsets.commit(TRANSACTION_GROUP, topic, 0, offset=offset)
