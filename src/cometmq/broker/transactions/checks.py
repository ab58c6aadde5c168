"""Checks open transactions at their producers, discards a transaction after too many checks, and resumes it on request.

Each round stores the due half messages again, and asks a connected producer of the group about those that may be
checked. A half message that was checked too often, or is older than the log's retention, goes to
TRANS_CHECK_MAX_TIME_TOPIC. Follows TransactionalMessageServiceImpl.check and
AdminBrokerProcessor.resumeCheckHalfMessage of RocketMQ 5.3.3; the latter accepts any message, while here it must be a
discarded one.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.redelivery import dispatched_record, is_of_deleted_topic, once_more
from cometmq.broker.parts import Parts
from cometmq.broker.transactions.prepared_messages import (
    TransactionKey,
    as_asked,
    key_of,
    number_of,
)
from cometmq.broker.transactions.queues import TransactionQueues
from cometmq.broker.transactions.table import (
    OpenTransaction,
    OpenTransactionState,
    TransactionEvent,
    TransactionTable,
)
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.message_id import decode_message_id, encode_message_id
from cometmq.codec.record import Record, decode_record
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RecordIllegal, RequestError, invalid_parameter
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.appender import PutResult

_log = logging.getLogger(__name__)

# A half message that must not be checked yet is stored again at this age, so that a start need not read the half topic from
# its old copy on; RocketMQ does so in each round.
_ANEW_MS = 60_000
_TOGETHER_MAX = 32  # Half messages per write.
_LOOKED_AT_MAX = 10_000  # Open transactions examined per iteration of the loop.

# Asks a producer about a half message: gets the transaction, the header and the record.
AskProducer = Callable[[TransactionKey, CheckTransaction, bytes], None]


class _Move(NamedTuple):
    """A half message that is stored again: in the half topic, or in the topic of discarded ones."""

    transaction: OpenTransaction
    record: Record
    properties: dict[str, str]
    message: InnerMessage
    is_asked: bool = False
    is_given_up: bool = False


class StateChecks:
    """Periodic rounds that ask producers for the outcome of open transactions (CHECK_TRANSACTION_STATE)."""

    def __init__(
        self,
        parts: Parts,
        table: TransactionTable,
        queues: TransactionQueues,
        *,
        ask: AskProducer,
    ) -> None:
        self._parts = parts
        self._table = table
        self._queues = queues
        self._ask_producer = ask

    def check(self) -> Steps[float]:
        """Store due half messages again, ask about those that may be checked; return the seconds to the next round.

        Raises:
            StoreError, CodecError, OSError: The round failed; the next one tries again.
        """
        yield from self._queues.catch_up()
        now_ms = self._parts.clock.now_ms()
        known = list(self._table.open.values())
        for start in range(0, len(known), _LOOKED_AT_MAX):
            looked_at = known[start : start + _LOOKED_AT_MAX]
            due = [each for each in looked_at if self._is_due(each, now_ms)]
            for first in range(0, len(due), _TOGETHER_MAX):
                yield from self._check(due[first : first + _TOGETHER_MAX], now_ms)
                yield from turn_end()
        return self._parts.settings.transaction_check_interval_ms / 1000

    def _is_due(self, transaction: OpenTransaction, now_ms: int) -> bool:
        return transaction.is_open and (
            self._may_be_asked(transaction, now_ms) or now_ms - transaction.stored_ms > _ANEW_MS
        )

    def _may_be_asked(self, transaction: OpenTransaction, now_ms: int) -> bool:
        """Return whether a half message's immunity time is over; one created in the future has none, as in RocketMQ."""
        age_ms = now_ms - transaction.born_ms
        seconds = transaction.immunity_seconds
        immunity_ms = (
            self._parts.settings.transaction_timeout_ms if seconds is None else seconds * 1000
        )
        return age_ms < 0 or age_ms > immunity_ms

    def _check(self, transactions: list[OpenTransaction], now_ms: int) -> Steps[None]:
        read = []
        for transaction in transactions:
            yield from self._queues.look_up(transaction)
            if transaction.is_open:
                offset = transaction.offset
                half = yield from self._queues.half_at(offset)
                if half is not None and is_of_deleted_topic(*half, self._parts.topics):
                    end = self._queues.prepare(transaction, TransactionEvent.ROLL_BACK, None)
                    yield from self._queues.written(end)
                    continue
                read.append((transaction, offset, half and half[0]))
        # No step waits from here to the write, so no transaction ends in between.
        moves = []
        for transaction, offset, record in read:
            if not transaction.is_open or transaction.offset != offset:
                continue  # A newer copy arrived, which the next round checks.
            if record is None:
                _log.error(
                    "%s is discarded: the log no longer has its half message", transaction.key
                )
                self._table.ended(transaction, TransactionEvent.GIVE_UP)
            else:
                moves.append(self._move(transaction, record, now_ms))
        yield from self._carry_out(moves)

    def _move(self, transaction: OpenTransaction, record: Record, now_ms: int) -> _Move:
        """Return a half message's new copy, for the half topic (one more check if due) or that of discarded ones."""
        properties = record.properties()
        checks = number_of(properties, keys_of.TRANSACTION_CHECK_TIMES) or 0
        # Java marks a copy whose original was not checked yet; here the original is already done.
        properties.pop(keys_of.TRAN_PREPARED_QUEUE_OFFSET, None)
        is_too_old = (
            now_ms - transaction.born_ms > self._parts.settings.reserved_hours * 3_600_000
        )
        if checks >= self._parts.settings.transaction_check_max or is_too_old:
            message = self._given_up(record, properties)
            return _Move(transaction, record, properties, message, is_given_up=True)
        is_asked = self._may_be_asked(transaction, now_ms)
        if is_asked:
            properties[keys_of.TRANSACTION_CHECK_TIMES] = str(checks + 1)
        message = once_more(record, self._queues.half_topic(), 0, properties)
        return _Move(transaction, record, properties, message, is_asked=is_asked)

    def _given_up(self, record: Record, properties: dict[str, str]) -> InnerMessage:
        topic = self._parts.topics.ensure(
            TRANS_CHECK_MAX_TIME_TOPIC, queues=1, perm=PERM_READ_WRITE
        )
        return once_more(record, topic, 0, properties)

    # --- writing

    def _carry_out(self, moves: list[_Move]) -> Steps[None]:
        if not moves:
            return
        try:
            results = self._write(moves)
        except (RecordIllegal, CodecError) as error:
            if len(moves) > 1:
                for move in moves:
                    # Others ran between two of these writes and may have ended a transaction.
                    if move.transaction.is_open:
                        yield from self._carry_out([move])
                return
            # The property of the count does not fit into the record, so it cannot be checked.
            move = moves[0]
            _log.error(
                "the half message of %s cannot be stored again for a check: %s",
                move.transaction.key,
                error,
            )
            message = self._given_up(move.record, move.record.properties())
            results = self._write([move._replace(message=message, is_given_up=True)])
            moves = []
        yield from self._queues.inner.durable(results)
        for move, result in zip(moves, results, strict=False):
            if move.is_asked and not move.is_given_up:
                self._ask(move, result)

    def _write(self, moves: list[_Move]) -> list[PutResult]:
        done = [offset for move in moves for offset in move.transaction.offsets]
        results = self._queues.write([move.message for move in moves], done)
        now_ms = self._parts.clock.now_ms()
        for move, (offset, _, _) in zip(moves, results, strict=False):
            if move.is_given_up:
                _log.error(
                    "%s is discarded: no producer has reported its outcome in time; "
                    "`cometmq transactions resume` reopens it",
                    move.transaction.key,
                )
                self._table.on(move.transaction, TransactionEvent.GIVE_UP)
            else:
                self._table.stored_anew(
                    move.transaction, offset, stored_ms=now_ms, is_asked=move.is_asked
                )
        return results

    def _ask(self, move: _Move, result: PutResult) -> None:
        key = move.transaction.key
        offset, physical_offset, _ = result
        host = self._parts.store.store_host
        record = move.record._replace(
            queue_offset=offset, physical_offset=physical_offset, store_host=host
        )
        header = CheckTransaction(
            offset,
            physical_offset,
            topic=HALF_TOPIC,
            msg_id=key.message_id,
            transaction_id=key.message_id,
            offset_msg_id=encode_message_id(host, physical_offset),
            broker_name=self._parts.settings.broker_name,
        )
        self._ask_producer(key, header, as_asked(record, move.properties))

    # --- resuming

    def resume(self, message_id: str) -> Steps[None]:
        """Reopen a discarded transaction: later rounds check it from count 0. Do nothing if it is still or again open.

        `message_id` is the offset message id of the half message in TRANS_CHECK_MAX_TIME_TOPIC.

        Raises:
            RequestError: The message is not a discarded half message, its transaction is known to have ended, or its
                topic was deleted.
            StoreError, CodecError, OSError: The message could not be read or stored.
        """
        record = yield from self._read_given_up(message_id)
        yield from self._queues.catch_up()
        properties = record.properties()
        key = key_of(record, properties)
        if key in self._table.open:
            return
        before = self._table.outcome(key)
        if before not in (None, OpenTransactionState.GIVEN_UP):
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction {key.message_id} has ended and cannot be reopened: it was {before.value}",
            )
        if is_of_deleted_topic(record, properties, self._parts.topics):
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"the transaction {key.message_id} belongs to topic {key.topic}, which was deleted",
            )
        self._table.resume(key)
        properties[keys_of.TRANSACTION_CHECK_TIMES] = "0"
        again = once_more(record, self._queues.half_topic(), 0, properties)
        yield from self._queues.inner.durable(self._queues.inner.put(again))

    def _read_given_up(self, message_id: str) -> Steps[Record]:
        try:
            _, physical_offset = decode_message_id(message_id)
        except CodecError as error:
            raise invalid_parameter(str(error)) from None
        found = yield from dispatched_record(self._parts.store, physical_offset)
        record = None if found is None else decode_record(found)
        if record is None or record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{message_id} is not the id of a discarded half message; topic {TRANS_CHECK_MAX_TIME_TOPIC} has them",
            )
        return record
