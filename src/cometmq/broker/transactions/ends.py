"""Ends transactions: a producer commits or rolls back, on its own or after a check.

Most checks, their order and codes follow EndTransactionProcessor of RocketMQ 5.3.3.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.redelivery import is_of_deleted_topic, real_place
from cometmq.broker.parts import Parts
from cometmq.broker.transactions.prepared_messages import (
    TransactionKey,
    committed,
    key_of,
    number_of,
)
from cometmq.broker.transactions.queues import PreparedEnd, TransactionQueues
from cometmq.broker.transactions.table import (
    OpenTransactionState,
    TransactionEvent,
    TransactionTable,
)
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.record import Record
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from cometmq.model.text import in_quotes
from cometmq.steps.prepared import stored_alone
from cometmq.steps.steps import Steps

# Reading an attribute of an enumeration takes ten times as long as one of another object.
_COMMIT, _UNSURE = TransactionEvent.COMMIT, OpenTransactionState.UNSURE
_SAYS = {
    TRANSACTION_COMMIT: (_COMMIT, OpenTransactionState.COMMITTED),
    TRANSACTION_ROLLBACK: (TransactionEvent.ROLL_BACK, OpenTransactionState.ROLLED_BACK),
}


class TransactionEnds:
    """The service for END_TRANSACTION: commits or rolls back a half message."""

    def __init__(
        self, parts: Parts, table: TransactionTable, queues: TransactionQueues
    ) -> None:
        self._parts = parts
        self._events = parts.counters.events
        self._table = table
        self._queues = queues

    def end(self, request: EndTransaction, may: Callable[[str], bool]) -> Steps[str | None]:
        """End a transaction; return a remark if it stays open, or None.

        Raises:
            RequestError: See `prepare`.
            StoreError, CodecError, OSError: A read or write failed, and this request ended nothing; or the transaction
                has ended, but the flush is late or failed.
        """
        end = yield from stored_alone(self.prepare(request, may), self.store)
        return end.remark

    def prepare(
        self, request: EndTransaction, may: Callable[[str], bool]
    ) -> Steps[PreparedEnd]:
        """Read and check the half message of a transaction, and return its end, for `store`.

        The transaction stays open if the request neither commits nor rolls back. A commit to a deleted topic rolls
        back. A transaction that has ended already is left as it is. `may` returns whether the producer may send to a
        topic.

        Raises:
            RequestError: The request is refused, for example because the transaction has ended with another outcome.
            StoreError, CodecError, OSError: A read failed.
        """
        says = _SAYS.get(request.commit_or_rollback)
        if says is None:
            return PreparedEnd(
                remark="the transaction stays open; the broker will ask its producer later"
            )
        event, outcome = says
        if not self._queues.is_read:
            yield from self._queues.catch_up()
        half = yield from self._queues.half_at(request.tran_state_table_offset)
        if half is None:
            raise _refused("Find prepared transaction message failed")
        record, properties = half
        if not may(properties.get(keys_of.REAL_TOPIC, "")):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                "the transaction belongs to a topic that this user may not send to",
            )
        self._check(request, record, properties)
        transaction = self._table.find(record.queue_offset)
        key = key_of(record, properties) if transaction is None else transaction.key
        transaction = transaction or self._table.open.get(key)
        if transaction is not None and transaction.state is _UNSURE:
            yield from self._queues.look_up(transaction)
        self._check_known()
        if transaction is not None and transaction.is_open:
            message = None
            if is_of_deleted_topic(record, properties, self._parts.topics):
                event = TransactionEvent.ROLL_BACK
            if event is _COMMIT:
                message = self._message_of(record, properties)
            return self._queues.prepare(transaction, event, message)
        self._check_outcome(key, outcome)
        prepared = None if transaction is None else self._queues.prepared(transaction)
        return prepared or PreparedEnd()

    def store(self, ends: Sequence[PreparedEnd]) -> Steps[None]:
        """Write the ends that were prepared, with one write; set the errors of those that fail, and wait for the flush.

        Raises:
            StoreError: The flush is late or failed; the next start finds out whether the transactions have ended.
        """
        results = self._queues.write_ends()
        self._count(dict.fromkeys(ends))  # Two requests may end the same transaction.
        yield from self._queues.inner.durable(results)

    def _count(self, ends: Iterable[PreparedEnd]) -> None:
        now_ms = self._parts.clock.now_ms()
        rolled_back: Counter[str] = Counter()
        committed: defaultdict[str, list[int]] = defaultdict(list)  # Their ages, ms.
        for end in ends:
            if end.transaction is None or end.error is not None:
                continue
            topic = end.transaction.key.topic
            if end.message is None:
                rolled_back[topic] += 1
            else:
                committed[topic].append(max(now_ms - end.transaction.stored_ms, 0))
        for topic, count in rolled_back.items():
            self._events.add("rocketmq_rollback_messages_total", topic, count=count)
        for topic, ages_ms in committed.items():
            self._events.add("rocketmq_commit_messages_total", topic, count=len(ages_ms))
            took = self._events.latencies("rocketmq_finish_message_latency_milliseconds", topic)
            if took is not None:
                for age_ms in ages_ms:
                    took.add(age_ms * 1_000)

    def _check_outcome(self, key: TransactionKey, outcome: OpenTransactionState) -> None:
        """Raise RequestError if a transaction has already ended with another outcome."""
        before = self._table.outcome(key)
        if before not in (None, outcome):
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction {key.message_id} has already ended with another outcome: it was {before.value}",
            )

    def _check_known(self) -> None:
        """Raise RequestError (SYSTEM_BUSY) if the log was truncated and the queues are not read again yet."""
        if not self._queues.is_known:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, "the log was truncated; end the transaction again"
            )

    def _check(
        self, request: EndTransaction, record: Record, properties: dict[str, str]
    ) -> None:
        immunity = number_of(properties, keys_of.CHECK_IMMUNITY_SECONDS)
        if immunity is not None and not request.from_transaction_check:
            self._check_age(record, immunity)
        if properties.get(keys_of.PRODUCER_GROUP) != request.producer_group:
            raise _refused("The producer group wrong")
        if record.physical_offset != request.commit_log_offset:
            raise _refused("The commit log offset wrong")

    def _check_age(self, record: Record, immunity_seconds: int) -> None:
        age_ms = self._parts.clock.now_ms() - record.born_timestamp
        if age_ms > max(immunity_seconds * 1000, self._parts.settings.transaction_timeout_ms):
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction was ended {age_ms} ms after its message was created, which is later than its "
                "CHECK_IMMUNITY_TIME_IN_SECONDS allows; the broker will ask the producer",
            )

    def _message_of(self, record: Record, properties: dict[str, str]) -> InnerMessage:
        place = real_place(record, properties, self._parts.topics)
        if place is None:
            topic = in_quotes(properties.get(keys_of.REAL_TOPIC, ""))
            raise _refused(
                f"the message cannot be committed to topic {topic}; the log of the broker says why"
            )
        return committed(record, properties, *place)


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, remark)
