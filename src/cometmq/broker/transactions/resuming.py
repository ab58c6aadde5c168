"""RESUME_CHECK_HALF_MESSAGE: a half that was discarded is open again, and checked from the start.

Follows AdminBrokerProcessor.resumeCheckHalfMessage of RocketMQ 5.3.3, which takes any message there is; here it
must be one of the discarded, and one that is open already is not doubled.

Next: cometmq.broker.transactions.ledger
"""

import asyncio

from cometmq.broker.parts import Parts
from cometmq.broker.redelivery import once_more
from cometmq.broker.transactions.checking import DISCARDED
from cometmq.broker.transactions.halves import key_of
from cometmq.broker.transactions.ledger import Ledger
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import ResumeCheck
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.record import Record, decode_record
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer


class Resuming:
    """Answers RESUME_CHECK_HALF_MESSAGE."""

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._parts = parts
        self._ledger = ledger

    async def resume(self, command: Command, _peer: Peer) -> Answer:
        """RESUME_CHECK_HALF_MESSAGE 323."""
        message_id = decode_fields(ResumeCheck, command.fields).msg_id or ""
        record = await self._discarded(message_id)
        await self._ledger.catch_up()
        properties = record.properties()
        key = key_of(record, properties)
        before = self._ledger.ended.get(key, DISCARDED)
        if before != DISCARDED:
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction {key.message_id} was {before} since; it stays so",
            )
        if key not in self._ledger.open:
            self._ledger.ended.pop(key, None)
            properties[keys_of.TRANSACTION_CHECK_TIMES] = "0"
            topic = self._parts.topics.ensure(HALF_TOPIC, queues=1, perm=PERM_READ_WRITE)
            results = self._parts.inner.put(once_more(record, topic, 0, properties))
            await self._parts.inner.flushed(results)
        return Answer()

    async def _discarded(self, message_id: str) -> Record:
        try:
            _, physical_offset = decode_message_id(message_id)
        except CodecError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        store = self._parts.store
        found = None
        if store.min_offset <= physical_offset < store.dispatched_offset:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(
                self._parts.pool, store.read_record, physical_offset
            )
        record = None if found is None else decode_record(found)
        if record is None or record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{message_id} is no discarded half message; {TRANS_CHECK_MAX_TIME_TOPIC} has them",
            )
        return record
