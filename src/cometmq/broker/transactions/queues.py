"""Reads and writes the half queue and the op queue; a committed message is written before its op.

All ends of one loop iteration usually share a write and a flush, so a crash cannot come between a commit and its op.
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
from cometmq.model.errors import CodecError, StoreBusy
from cometmq.model.flags import PERM_READ_WRITE, TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere, turn_end
from cometmq.store.appender import PutResult
from cometmq.store.message_search import MessageSearch

_log = logging.getLogger(__name__)

# A half message and its properties.
Half = tuple[Record, dict[str, str]]
_RECENT_SIZE_MAX = 1 << 20
# Messages of one key: the committed one, and others that users sent with the same key.
_LOOKED_AT_MAX = 8


@dataclass(slots=True, eq=False)
class _End:
    """An end that is being written.

    Attributes:
        message: The committed message; None for a rollback, or if only the op is missing.
        results: Positions of all messages of the write that contained it.
        error: Why the end was not written.
    """

    transaction: OpenTransaction
    message: InnerMessage | None
    results: Sequence[PutResult] = ()
    error: Exception | None = None


class _RecentHalves:
    """Half messages that were read last and have not ended, up to 1 MiB: most end soon, and are then not read again."""

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
        self._ends: dict[OpenTransaction, _End] = {}
        # After a truncation, the half offset and op offset from which to read again; and whether that is in progress.
        self._load_from: tuple[int, int] | None = None
        self._is_loading = False

    # --- reading

    @property
    def is_known(self) -> bool:
        """Whether the queues need not be read again; False from a truncation until `catch_up` has done that."""
        return self._load_from is None and not self._is_loading

    def begin_again(self, half_offset: int, op_offset: int) -> None:
        """Let both queues be read again after a truncation; ends that wait to be written fail."""
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end.error = StoreBusy(
                "the log was truncated before the transaction had ended; end it again"
            )
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
        copy = PreparedCopy(
            record.queue_offset,
            key_of(record, properties),
            record.born_timestamp,
            record.store_timestamp,
            number_of(properties, keys_of.CHECK_IMMUNITY_SECONDS),
            number_of(properties, keys_of.TRAN_PREPARED_QUEUE_OFFSET),
        )
        self._table.feed(copy)

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

    # --- transactions of which a start is unsure

    def look_up(self, transaction: OpenTransaction) -> Steps[None]:
        """Search the index for the commit of an UNSURE transaction, open at the start; if found, write only its op.

        Raises:
            StoreError, CodecError, OSError: The search or the write failed.
        """
        if transaction.state is not OpenTransactionState.UNSURE:
            return
        key = transaction.key
        search = self._parts.store.search(key.topic, key.message_id, max_count=_LOOKED_AT_MAX)
        is_found = yield from elsewhere(lambda: _is_committed(search, key))
        yield from self._looked_up(transaction, is_found=is_found)

    def _looked_up(self, transaction: OpenTransaction, *, is_found: bool) -> Steps[None]:
        if transaction.state is not OpenTransactionState.UNSURE:
            return  # Another request looked it up meanwhile.
        if is_found:
            yield from self.end(transaction, TransactionEvent.FOUND, None)
        else:
            self._table.on(transaction, TransactionEvent.NOT_FOUND)

    # --- writing

    def end(
        self,
        transaction: OpenTransaction,
        event: TransactionEvent,
        message: InnerMessage | None,
    ) -> Steps[None]:
        """End an open transaction, and wait until that is flushed as a send is; `message` is the one to commit, if any.

        Raises:
            StoreError, CodecError: The write failed, and the transaction is still open; or it has ended, but the flush
                is late or failed.
        """
        self._table.on(transaction, event)
        self._ends[transaction] = _End(transaction, message)
        return self.join(transaction)

    def join(self, transaction: OpenTransaction) -> Steps[None]:
        """Wait for the end of a transaction that is being written; raises as `end` does."""
        end = self._ends[transaction]
        return self._written(end)

    def _written(self, end: _End) -> Steps[None]:
        yield from turn_end()
        # The first to get here writes all ends of this loop iteration.
        ends, self._ends = list(self._ends.values()), {}
        if ends:
            self._write_ends(ends)
        if end.error is not None:
            raise end.error
        # If the flush fails, that is the answer; the next start finds out whether the transaction has ended.
        yield from self.inner.durable(end.results)

    def _write_ends(self, ends: Sequence[_End]) -> None:
        for part, outcome in in_parts(self._write_part, ends):
            for end in part:
                if isinstance(outcome, list):
                    end.results, event = outcome, TransactionEvent.WRITTEN
                else:
                    end.error, event = outcome, TransactionEvent.NOT_WRITTEN
                self._table.on(end.transaction, event)

    def _write_part(self, ends: Sequence[_End]) -> list[PutResult]:
        messages = [end.message for end in ends if end.message is not None]
        return self.write(
            messages, [offset for end in ends for offset in end.transaction.offsets]
        )

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


def _is_committed(search: MessageSearch, key: TransactionKey) -> bool:
    for content in search.run().records:
        record = decode_record(content)
        if (
            record.topic == key.topic
            and record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
            and record.properties().get(keys_of.UNIQ_KEY) == key.message_id
        ):
            return True
    return False
