"""Reads and writes the half queue and the op queue; a committed message is written before its op.

A commit and its op share a write and a flush, so a crash cannot come between them.
Only a power failure during the write can separate them, or the kill of a Java broker, which writes its ops up to 3 s
later. Transactions that were open at the start are therefore looked up in the index first: a committed message has the
half message's unique key.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from cometmq.broker.inner.puts import InnerMessage, in_parts
from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.parts import Parts
from cometmq.broker.transactions.prepared_messages import (
    TransactionKey,
    decode_op,
    key_of,
    number_of,
    ops,
)
from cometmq.broker.transactions.table import (
    OpenTransaction,
    OpenTransactionState,
    PreparedCopy,
    TransactionEvent,
    TransactionTable,
)
from cometmq.codec.record import Record, decode_record
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError
from cometmq.model.flags import PERM_READ_WRITE, TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, at_once_or_elsewhere, turn_end
from cometmq.store.appender import PutResult

_log = logging.getLogger(__name__)
_new_tuple = tuple.__new__

# A half message and its properties.
Half = tuple[Record, dict[str, str]]
_RECENT_SIZE_MAX = 1 << 20
# Messages of one key: the committed one, and others that users sent with the same key.
_LOOKED_AT_MAX = 8


@dataclass(slots=True, eq=False)
class PreparedEnd:
    """A checked request to end a transaction, with the records to write for it.

    Attributes:
        transaction: The transaction that ends; None if there is nothing to write.
        message: The committed message; None for a rollback.
        remark: Why the transaction stays open; None if it ends or has ended.
        error: Why the end was not written; the transaction is then still open.
    """

    transaction: OpenTransaction | None = None
    message: InnerMessage | None = None
    remark: str | None = None
    error: Exception | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the end writes something (`Prepared`)."""
        return self.transaction is not None


class _RecentHalves:
    """The last half messages that were read, until they end, up to 1 MiB. Most end soon, without a second read."""

    def __init__(self) -> None:
        self._halves: dict[int, Half] = {}
        self._size = 0

    def add(self, record: Record, properties: dict[str, str]) -> None:
        """Keep a half message, and forget the oldest ones beyond the limit."""
        self._halves[record.queue_offset] = record, properties
        self._size += record.store_size
        while self._size > _RECENT_SIZE_MAX:
            self.take(next(iter(self._halves)))

    def take(self, offset: int) -> Half | None:
        """Remove and return the half message at an offset of the half queue; None if it is not kept."""
        half = self._halves.pop(offset, None)
        if half is not None:
            self._size -= half[0].store_size
        return half


class TransactionQueues:
    """Reads and writes the half queue and the op queue; `inner` writes messages and waits until they are durable."""

    def __init__(
        self,
        parts: Parts,
        table: TransactionTable,
        *,
        half_messages: QueueCursor,
        ops_read: QueueCursor,
    ) -> None:
        """Set the readers of the half and the op queue, each at the offset from which `load` begins to read."""
        self._parts = parts
        self._table = table
        self._half_messages = half_messages
        self._ops_read = ops_read
        self.inner = parts.inner
        self._recent = _RecentHalves()
        self._ends: dict[OpenTransaction, PreparedEnd] = {}
        # After a truncation, the half offset and op offset from which to read again; and whether that is in progress.
        self._load_from: tuple[int, int] | None = None
        self._is_loading = False

    # --- reading

    @property
    def is_known(self) -> bool:
        """Whether the queues need not be read again; False from a truncation until `catch_up` has done that."""
        return self._load_from is None and not self._is_loading

    @property
    def is_read(self) -> bool:
        """Whether `catch_up` has nothing to do."""
        return self.is_known and self._half_messages.is_at_end

    def begin_again(self, half_offset: int, op_offset: int) -> None:
        """Let both queues be read again after a truncation."""
        self._load_from = (half_offset, op_offset)
        self._recent = _RecentHalves()
        self._table.begin_again(next_op=op_offset)

    def load(self) -> Steps[None]:
        """Read the half queue and the op queue to their ends; must be called first.

        Raises:
            CodecError, OSError: A record cannot be read.
        """
        while records := (yield from self._ops_read.next_records()):
            for record in records:
                self._table.feed_op(record.queue_offset, decode_op(record.body))
        yield from self._read_halves()
        self._table.loaded()

    def catch_up(self) -> Steps[None]:
        """Read the half messages that have arrived since the last read, or after a truncation both queues again.

        Raises as `load` does.
        """
        while self._is_loading:
            yield from turn_end()
        while self._load_from is not None:
            yield from self._load_again(*self._load_from)
        yield from self._read_halves()

    def _load_again(self, half_offset: int, op_offset: int) -> Steps[None]:
        """Read both queues as at a start; must be repeated if it fails or the log is truncated meanwhile."""
        begun = self._load_from
        self._half_messages.offset, self._ops_read.offset = half_offset, op_offset
        self._table.begin_again(next_op=op_offset)
        self._is_loading = True
        try:
            yield from self.load()
            if self._load_from is begun:
                self._load_from = None
        finally:
            self._is_loading = False

    def _read_halves(self) -> Steps[None]:
        while not self._half_messages.is_at_end:
            for record in (yield from self._half_messages.next_records()):
                self._feed(record)

    def _feed(self, record: Record) -> None:
        try:
            properties = record.properties()
        except CodecError as error:
            _log.error(
                "the half message at queue offset %d cannot be decoded and is skipped: %s",
                record.queue_offset, error,
            )  # fmt: skip
            return
        self._recent.add(record, properties)
        self._table.feed(_new_tuple(PreparedCopy, (
            record.queue_offset, key_of(record, properties), record.born_timestamp, record.store_timestamp,
            number_of(properties, keys_of.CHECK_IMMUNITY_SECONDS),
            number_of(properties, keys_of.TRAN_PREPARED_QUEUE_OFFSET),
        )))  # fmt: skip

    def half_at(self, offset: int) -> Steps[Half | None]:
        """Return the half message at an offset of the half queue and its properties, or None; raises as `load` does."""
        recent = self._recent.take(offset)
        if recent is not None:
            return recent
        record = yield from self._half_messages.record_at(offset)
        return None if record is None else (record, record.properties())

    def positions(self) -> tuple[int, int]:
        """Return the half offset and the op offset from which a start must read."""
        return self._table.positions(self._half_messages.offset)

    # --- transactions whose outcome is not known at a start

    def look_up(self, transaction: OpenTransaction) -> Steps[None]:
        """Search the index for the commit of an UNSURE transaction, open at the start; if found, it has ended, without its op.

        Raises CodecError or OSError if the search failed.
        """
        if transaction.state is not OpenTransactionState.UNSURE:
            return
        key = transaction.key
        search = self._parts.store.search(key.topic, key.message_id, max_count=_LOOKED_AT_MAX)
        found = yield from at_once_or_elsewhere(search.run)
        is_found = any(_is_commit(decode_record(content), key) for content in found.records)
        # Another request may have looked it up meanwhile.
        if transaction.state is OpenTransactionState.UNSURE:
            if is_found:
                self._table.ended(transaction, TransactionEvent.FOUND)
            else:
                self._table.on(transaction, TransactionEvent.NOT_FOUND)

    # --- writing

    def prepare(
        self,
        transaction: OpenTransaction,
        event: TransactionEvent,
        message: InnerMessage | None,
    ) -> PreparedEnd:
        """End an open transaction with the next `write_ends`, which must follow at once; `message` is the one to commit."""
        self._table.on(transaction, event)
        end = self._ends[transaction] = PreparedEnd(transaction, message)
        return end

    def prepared(self, transaction: OpenTransaction) -> PreparedEnd | None:
        """Return the end of a transaction that the next `write_ends` writes, or None."""
        return self._ends.get(transaction)

    def write_ends(self) -> Sequence[PutResult]:
        """Write the prepared ends together, and set the errors of those that fail; return positions up to the last one."""
        ends, self._ends = self._ends, {}
        written: Sequence[PutResult] = ()
        for part, outcome in in_parts(self._write_part, [*ends.items()]) if ends else ():
            event = TransactionEvent.NOT_WRITTEN
            if isinstance(outcome, list):
                written, event = outcome, TransactionEvent.WRITTEN
            for transaction, end in part:
                end.error = None if isinstance(outcome, list) else outcome
                self._table.on(transaction, event)
        return written

    def _write_part(
        self, ends: Sequence[tuple[OpenTransaction, PreparedEnd]]
    ) -> list[PutResult]:
        messages = [end.message for _, end in ends if end.message is not None]
        return self.write(
            messages, [offset for transaction, _ in ends for offset in transaction.offsets]
        )

    def written(self, end: PreparedEnd) -> Steps[None]:
        """Write a prepared end, and wait until that is flushed as a send is.

        Raises:
            StoreError, CodecError: The write failed, and the transaction is still open; or it has ended, but the flush
                is late or failed.
        """
        results = self.write_ends()
        if end.error is not None:
            raise end.error
        # If the flush fails, that is the answer; the next start finds out whether the transaction has ended.
        yield from self.inner.durable(results)

    def write(self, messages: list[InnerMessage], done: list[int]) -> list[PutResult]:
        """Write messages, then ops, which mark half messages as ended; return all positions in order.

        The ops name the half offsets in `done`, whose transactions end now, and those that ended without an op before.

        Raises:
            StoreError, CodecError: Nothing was written.
        """
        table = self._table
        done = sorted(done + table.unmarked)
        marks = ops(
            done,
            self._parts.topics.ensure(OP_HALF_TOPIC, queues=1, perm=PERM_READ_WRITE),
            now_ms=self._parts.clock.now_ms(),
            host=self._parts.store.store_host,
        )
        results = self.inner.put(*messages, *marks)
        table.unmarked = []
        for offset, _, _ in results[len(messages) :]:
            table.op_written(offset, done)
        return results

    def half_topic(self) -> TopicConfig:
        """Return the topic of half messages; create it if it is missing."""
        return self._parts.topics.ensure(HALF_TOPIC, queues=1, perm=PERM_READ_WRITE)


def _is_commit(record: Record, key: TransactionKey) -> bool:
    return (
        record.topic == key.topic
        and record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        and record.properties().get(keys_of.UNIQ_KEY) == key.message_id
    )
