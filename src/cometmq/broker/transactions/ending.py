"""END_TRANSACTION: a producer commits or rolls back, of itself or when it was asked.

The checks, their order, codes and words follow EndTransactionProcessor of RocketMQ 5.3.3.

Next: cometmq.broker.transactions.settling
"""

import logging
from collections.abc import Awaitable

from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.parts import Parts
from cometmq.broker.redelivery import real_place
from cometmq.broker.transactions.halves import Key, committed, key_of
from cometmq.broker.transactions.halves import number_of as number
from cometmq.broker.transactions.ledger import Ledger
from cometmq.broker.transactions.settling import Settling
from cometmq.broker.transactions.witness import COMMITTED, Witness
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.record import Record
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

ROLLED_BACK = "rolled back"
_BECOMES = {TRANSACTION_COMMIT: COMMITTED, TRANSACTION_ROLLBACK: ROLLED_BACK}


class Ending:
    """Answers END_TRANSACTION."""

    def __init__(
        self, parts: Parts, ledger: Ledger, settling: Settling, witness: Witness
    ) -> None:
        self._parts = parts
        self._ledger = ledger
        self._settling = settling
        self._witness = witness

    def end(self, command: Command, _peer: Peer) -> Awaitable[Answer] | Answer:
        """END_TRANSACTION 37.

        Differs: who does not know yet is answered, too; clients send it one-way and never see the answer, and
        whoever waits for one need not wait for its timeout.
        """
        request = decode_fields(EndTransaction, command.fields)
        became = _BECOMES.get(request.commit_or_rollback)
        if became is None:
            _log.debug(
                "the transaction %s of %s is pending: %s",
                request.msg_id, request.producer_group, command.remark or "not known yet",
            )  # fmt: skip
            return Answer(remark="the transaction is pending; its producer will be asked")
        return self._end(request, became)

    async def _end(self, request: EndTransaction, became: str) -> Answer:
        await self._ledger.catch_up()
        record = await self._ledger.halves.read_at(request.tran_state_table_offset)
        if record is None:
            raise _refused("Find prepared transaction message failed")
        properties = record.properties()
        self._check(request, record, properties)
        key = key_of(record, properties)
        half = self._ledger.find(record.queue_offset, key)
        if half is None or not await self._witness.is_open(half):
            return self._ended_before(key, became)
        message = self._message_of(record, properties) if became == COMMITTED else None
        await self._settling.end(half, message, became=became)
        return Answer()

    def _check(
        self, request: EndTransaction, record: Record, properties: dict[str, str]
    ) -> None:
        immunity = number(properties, keys_of.CHECK_IMMUNITY_SECONDS)
        age_ms = self._parts.clock.now_ms() - record.born_timestamp
        if (
            immunity is not None
            and not request.from_transaction_check
            and age_ms > max(immunity * 1000, self._parts.settings.transaction_timeout_ms)
        ):
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the end came {age_ms} ms after the message was born, which is beyond its "
                "CHECK_IMMUNITY_TIME_IN_SECONDS; the producer will be asked",
            )
        if properties.get(keys_of.PRODUCER_GROUP) != request.producer_group:
            raise _refused("The producer group wrong")
        if record.physical_offset != request.commit_log_offset:
            raise _refused("The commit log offset wrong")

    def _message_of(self, record: Record, properties: dict[str, str]) -> InnerMessage:
        place = real_place(record, properties, self._parts.topics)
        if place is None:
            raise _refused(f"no topic {properties.get(keys_of.REAL_TOPIC)!r} to commit to")
        return committed(record, properties, *place)

    def _ended_before(self, key: Key, became: str) -> Answer:
        """A second end: nothing is done; whether it is welcome depends on the first."""
        before = self._ledger.ended.get(key, became)
        if before == became:
            return Answer()
        raise RequestError(
            ResponseCode.ILLEGAL_OPERATION,
            f"the transaction {key.message_id} was {before} before; it stays so",
        )


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, remark)
