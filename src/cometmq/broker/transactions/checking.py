"""Checks back: who opened a transaction and said nothing is asked; who never knows loses it.

Each round stores the halves that are due once more, with the number of their checks, and asks a living
producer of their group. What was asked about too often, or is older than the log is kept, goes to
TRANS_CHECK_MAX_TIME_TOPIC. Follows TransactionalMessageServiceImpl.check of RocketMQ 5.3.3.

Next: cometmq.broker.transactions.settling
"""

import logging
from typing import NamedTuple

from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.members import Client
from cometmq.broker.parts import Parts
from cometmq.broker.redelivery import once_more
from cometmq.broker.transactions.halves import as_asked, number_of
from cometmq.broker.transactions.ledger import Ledger, OpenHalf
from cometmq.broker.transactions.settling import Settling
from cometmq.broker.transactions.witness import Witness
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError, RecordIllegal
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import PutResult

_log = logging.getLogger(__name__)

DISCARDED = "discarded after too many checks; resume it first"
# A half that may not be checked yet is stored anew when it is this old, so that a start need not
# read from there on; RocketMQ does it at each round.
_ANEW_MS = 60_000
_BUNCH = 32  # Halves that share a write.


class _Move(NamedTuple):
    """A half that goes to another place."""

    half: OpenHalf
    record: Record
    properties: dict[str, str]
    message: InnerMessage
    is_asked: bool = False
    is_discarded: bool = False


class Checking:
    """The rounds of checks."""

    def __init__(
        self, parts: Parts, ledger: Ledger, settling: Settling, witness: Witness
    ) -> None:
        self._parts = parts
        self._ledger = ledger
        self._settling = settling
        self._witness = witness
        self._settings = parts.settings
        self._turn = 0

    async def round(self) -> None:
        """Ask about every half that is due.

        Raises:
            StoreError, CodecError, OSError: it could not be done; the next round tries again.
        """
        await self._ledger.catch_up()
        now_ms = self._parts.clock.now_ms()
        due = self._ledger.due(lambda half: self._is_due(half, now_ms))
        for start in range(0, len(due), _BUNCH):
            await self._check(due[start : start + _BUNCH], now_ms)

    def _is_due(self, half: OpenHalf, now_ms: int) -> bool:
        return self._may_be_asked(half, now_ms) or now_ms - half.stored_ms > _ANEW_MS

    def _may_be_asked(self, half: OpenHalf, now_ms: int) -> bool:
        """Whether its immunity is over; a message from the future has none, as in RocketMQ."""
        age_ms = now_ms - half.born_ms
        seconds = half.immunity_seconds
        immunity_ms = (
            self._settings.transaction_timeout_ms if seconds is None else seconds * 1000
        )
        return age_ms < 0 or age_ms > immunity_ms

    async def _check(self, halves: list[OpenHalf], now_ms: int) -> None:
        read = [
            (half, await self._ledger.halves.read_at(half.offset))
            for half in halves
            if await self._witness.is_open(half)
        ]
        # From here to the write nothing waits, so that no half ends in between.
        moves = []
        for half, record in read:
            if self._ledger.open.get(half.key) is not half:
                continue
            if record is None or record.queue_offset != half.offset:
                _log.error("the half message %s is not there any more", half.key)
                self._ledger.take(half, DISCARDED)
                self._ledger.unmarked += half.offsets
            else:
                moves.append(self._move(half, record, now_ms))
        await self._carry_out(moves)

    def _move(self, half: OpenHalf, record: Record, now_ms: int) -> _Move:
        """Where a half goes: back to the queue, once more counted, or to the discarded."""
        properties = record.properties()
        checks = number_of(properties, keys_of.TRANSACTION_CHECK_TIMES) or 0
        # Java's mark of a copy whose first one was not checked yet; our first one is done.
        properties.pop(keys_of.TRAN_PREPARED_QUEUE_OFFSET, None)
        is_too_old = now_ms - half.born_ms > self._settings.reserved_hours * 3_600_000
        if checks >= self._settings.transaction_check_max or is_too_old:
            message = self._discarded(record, properties)
            return _Move(half, record, properties, message, is_discarded=True)
        is_asked = self._may_be_asked(half, now_ms)
        if is_asked:
            properties[keys_of.TRANSACTION_CHECK_TIMES] = str(checks + 1)
        message = once_more(record, self._half_topic(), 0, properties)
        return _Move(half, record, properties, message, is_asked=is_asked)

    def _discarded(self, record: Record, properties: dict[str, str]) -> InnerMessage:
        topic = self._parts.topics.ensure(
            TRANS_CHECK_MAX_TIME_TOPIC, queues=1, perm=PERM_READ_WRITE
        )
        return once_more(record, topic, 0, properties)

    def _half_topic(self) -> TopicConfig:
        return self._parts.topics.ensure(HALF_TOPIC, queues=1, perm=PERM_READ_WRITE)

    # --- writing

    async def _carry_out(self, moves: list[_Move]) -> None:
        if not moves:
            return
        try:
            results = self._write(moves)
        except (RecordIllegal, CodecError) as error:
            if len(moves) > 1:
                for move in moves:
                    await self._carry_out([move])
                return
            # One property more than a record can hold: it cannot be counted, so it is not asked.
            move = moves[0]
            _log.error("the half message %s cannot be stored anew: %s", move.half.key, error)
            message = self._discarded(move.record, move.record.properties())
            results = self._write([move._replace(message=message, is_discarded=True)])
            moves = []
        await self._parts.inner.flushed(results)
        for move, result in zip(moves, results, strict=False):
            if move.is_asked and not move.is_discarded:
                self._ask(move, result)

    def _write(self, moves: list[_Move]) -> list[PutResult]:
        done = [offset for move in moves for offset in move.half.offsets]
        results = self._settling.write([move.message for move in moves], done)
        now_ms = self._parts.clock.now_ms()
        for move, (offset, _, _) in zip(moves, results, strict=False):
            if move.is_discarded:
                _log.error(
                    "the transaction %s is discarded: nobody knew of it for too long; "
                    "cometmq transactions resume brings it back",
                    move.half.key,
                )
                self._ledger.take(move.half, DISCARDED)
            else:
                self._ledger.stored_anew(move.half, offset, stored_ms=now_ms)
        return results

    # --- asking

    def _ask(self, move: _Move, result: PutResult) -> None:
        key = move.half.key
        client = self._someone(key.producer_group)
        if client is None:
            _log.warning("no producer of %s is there to be asked", key.producer_group)
            return
        offset, physical_offset, _ = result
        store = self._parts.store
        record = move.record._replace(
            queue_offset=offset, physical_offset=physical_offset, store_host=store.store_host
        )
        header = CheckTransaction(
            offset,
            physical_offset,
            topic=HALF_TOPIC,
            msg_id=key.message_id,
            transaction_id=key.message_id,
            offset_msg_id=encode_message_id(store.store_host, physical_offset),
            broker_name=self._settings.broker_name,
        )
        client.peer.notify(
            RequestCode.CHECK_TRANSACTION_STATE,
            encode_fields(header),
            as_asked(record, move.properties),
        )

    def _someone(self, group: str) -> Client | None:
        """A living producer of the group, another one each time."""
        clients = [client for client in self._parts.members.producers(group)
                   if not client.peer.is_closed]  # fmt: skip
        self._turn += 1
        ready = [client for client in clients if not client.peer.is_paused] or clients
        return ready[self._turn % len(ready)] if ready else None
