"""The transaction feature: half messages, their ends and checks, and the positions from which a start reads."""

import logging
from collections.abc import Iterator
from functools import partial

from cometmq.broker.counters.events import Gauge
from cometmq.broker.inner.put_marks import PutMarks
from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.members import who_may
from cometmq.broker.transactions.checks import StateChecks
from cometmq.broker.transactions.ends import TransactionEnds
from cometmq.broker.transactions.prepared_messages import TransactionKey, as_half, is_half
from cometmq.broker.transactions.queues import TransactionQueues
from cometmq.broker.transactions.table import OPEN_MAX, TransactionTable
from cometmq.broker.transactions.waiting_counts import SAVE_SECONDS, WaitingCounts
from cometmq.codec.bodies.waiting_counts import TRANSACTION
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE, TRANSACTION_MASK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from cometmq.model.rights import Action, topic_access
from cometmq.model.text import plural
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps
from cometmq.store.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

_POSITIONS_SECONDS = 1.0
_POSITIONS_SECONDS_AT_REST = 10.0


class Transactions(Feature):
    """The feature that implements transactions: half messages, their ends, checks, and resuming discarded ones.

    Attributes:
        ends: Ends transactions.
        checks: Asks producers about open transactions, and reopens discarded ones.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings
        half_messages, ops = self._cursors()
        self._table = TransactionTable(next_op=ops.offset)
        self._queues = TransactionQueues(
            parts, self._table, half_messages=half_messages, ops_read=ops
        )
        self.ends = TransactionEnds(parts, self._table, self._queues)
        self.checks = StateChecks(parts, self._table, self._queues, ask=self._ask)
        parts.reroutes.append(self._reroute)
        # The fast path stores half messages until it is stopped: `_reroute` then refuses them.
        self._table.on_full = partial(parts.lanes.forget, HALF_TOPIC)
        parts.in_force.on_change.append(self._table.on_full)
        self._counts = WaitingCounts(parts, "transactionMetrics", TRANSACTION)
        self._machines = Machines(parts.world, "transactions")
        self._is_running = False
        self._asked = 0
        # Offsets in the half and op queues, to be committed once the log is flushed up to the third value.
        self._seen = (half_messages.offset, ops.offset, 0)
        # Positions before each part of the log, to go back after a truncation.
        self._marks: PutMarks[tuple[int, int]] = PutMarks()

    def _cursors(self) -> tuple[QueueCursor, QueueCursor]:
        """Return the read positions of half messages and ops: those that were committed last, within the queues.

        If one is beyond its queue's end, it may belong to another log, and earlier half messages may be open here. Then
        both queues are read from their start, and the index shows which transactions were committed.
        """
        topics = (HALF_TOPIC, OP_HALF_TOPIC)
        starts = [self._parts.offsets.get(TRANSACTION_GROUP, topic, 0) or 0 for topic in topics]
        ends = [self._clipped(topic, 1 << 62) for topic in topics]
        if starts[0] > ends[0] or starts[1] > ends[1]:
            _log.warning(
                "Offsets of transactions are beyond the end of their queues; all half messages are read again"
            )
            starts = [0, 0]
        half_messages, ops = (
            QueueCursor(
                self._parts.store, topic, 0,
                offset=self._clipped(topic, start),
            )
            for topic, start in zip(topics, starts, strict=True)
        )  # fmt: skip
        return half_messages, ops

    async def start(self) -> None:
        """Restore open transactions and start the background jobs."""
        self._parts.counters.events.gauges.append(self._gauges)
        self._counts.load()
        await self._machines.run(self._queues.load())
        self._is_running = True
        if self._table.open:
            count = len(self._table.open)
            _log.info("restored %d open %s", count, plural(count, "transaction"))
        interval = self._settings.transaction_check_interval_ms / 1000
        checks = self._machines.keep(
            "checks",
            self._check,
            first_seconds=interval,
            rest_seconds=interval,
            period_seconds=interval,
        )
        positions = self._machines.keep(
            "positions",
            self._keep_positions,
            first_seconds=_POSITIONS_SECONDS,
            period_seconds=_POSITIONS_SECONDS,
        )
        counts = self._machines.keep("counts", self._save_counts, period_seconds=SAVE_SECONDS)

        def wake(_queue: ConsumeQueue) -> None:
            for machine in (checks, positions, counts):
                machine.wake()

        self._parts.store.on_truncated += [self.truncated, lambda _: checks.wake()]
        for topic in (HALF_TOPIC, OP_HALF_TOPIC):
            self._parts.polls.watch(self._parts.store.queue_to_watch(topic, 0), wake)

    async def follow(self) -> None:
        """Do nothing on a slave: its master ends transactions, and they are read when the slave is promoted."""

    def forget_topic(self, topic: str) -> None:
        """Forget the count of a deleted topic; its messages are discarded when they are processed."""
        self._counts.forget(topic)

    async def close(self) -> None:
        """Stop the background jobs; on a master, commit the read positions if possible, and save the counts."""
        await self._machines.close()
        if not self._is_running:
            return
        if self._queues.is_known:
            self._commit_positions()
        self._count()
        await self._counts.saver.close()

    def facts(self) -> dict[str, str]:
        """Return the number of open transactions, and when the producer created the first of them, ms since 1970."""
        table = self._table.open
        if not table:
            return {"openTransactions": "0"}
        # They are in the order in which they came, or after a start in the order of their last copies.
        first = next(iter(table.values()))
        return {
            "openTransactions": str(len(table)),
            "oldestTransactionTimestamp": str(first.born_ms),
        }

    def _gauges(self) -> Iterator[Gauge]:
        for topic, count in self._table.counts.items():
            yield Gauge("rocketmq_half_messages", (topic,), count)
        oldest = next(iter(self._table.open.values()), None)
        now_ms = self._parts.clock.now_ms()
        age_ms = 0 if oldest is None else max(now_ms - oldest.born_ms, 0)
        yield Gauge("cometmq_oldest_half_message_seconds", (), age_ms / 1000)

    def _count(self) -> None:
        self._counts.set_all(self._table.counts)

    def _save_counts(self) -> float:
        self._count()
        self._counts.saver.save_if_dirty()
        return NEVER

    def _check(self) -> Steps[float]:
        pause = yield from self.checks.check()
        return pause if self._table.open else NEVER

    # --- sends

    def _reroute(self, sent: RoutedSend) -> RoutedSend:
        """Return the send of a half message with the half topic as its destination, and any other send unchanged.

        Raises:
            RequestError: Half messages are refused, too many transactions are open, `as_half` refuses this one, or the
                send has transaction bits but not the property TRAN_MSG.
        """
        if not is_half(sent):
            if sent.sys_flag & TRANSACTION_MASK:
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"sysFlag {sent.sys_flag} marks the message as part of a transaction, but its "
                    "property TRAN_MSG does not; set both or neither",
                )
            return sent
        if self._settings.is_transaction_refused:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.broker_name}] sending transaction message is "
                "forbidden (rejectTransactionMessage)",
            )
        if len(self._table.open) >= OPEN_MAX:
            self._parts.counters.refused("open_transactions")
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{OPEN_MAX} transactions are open, and no more are allowed; wait until some have ended",
            )
        topic = self._parts.topics.ensure(HALF_TOPIC, queues=1, perm=PERM_READ_WRITE)
        return as_half(sent, topic)

    def _ask(self, key: TransactionKey, header: CheckTransaction, record: bytes) -> None:
        """Ask a connected producer of the group whose user may send to the topic, round robin; log if there is none."""
        group, wanted = key.producer_group, topic_access(key.topic, frozenset({Action.PUB}))
        clients = [client for client in who_may(self._parts.members.producers(group), wanted)
                   if not client.peer.is_closed]  # fmt: skip
        self._asked += 1
        ready = [client for client in clients if not client.peer.is_paused] or clients
        if not ready:
            _log.warning(
                "no producer of group %s that may send to topic %s is connected, so its transactions cannot be checked",
                group,
                key.topic,
            )
            return
        peer = ready[self._asked % len(ready)].peer
        peer.notify(RequestCode.CHECK_TRANSACTION_STATE, encode_fields(header), record)

    # --- positions from which a start reads

    def _keep_positions(self) -> float:
        if not self._queues.is_known:
            return _POSITIONS_SECONDS
        is_said, before = self._commit_positions(), self._seen
        self._see()
        is_at_rest = is_said and self._seen[:2] == before[:2]
        if not is_at_rest:
            return _POSITIONS_SECONDS
        # The positions also change without a write that wakes this job: when a check reads half messages or the index.
        return _POSITIONS_SECONDS_AT_REST if self._table.open else NEVER

    def _see(self) -> None:
        half_offset, op_offset, log_end = self._seen
        self._seen = (*self._queues.positions(), self._parts.store.max_offset)
        if self._seen[2] > log_end:
            self._marks.note(self._seen[2], (half_offset, op_offset))

    def truncated(self, end: int) -> None:
        """Commit earlier read positions after a truncation of the log, and let open transactions be read again from there."""
        positions = self._marks.go_back(end) or self._seen[:2]
        low_half, low_op = (
            self._clipped(*each)
            for each in zip((HALF_TOPIC, OP_HALF_TOPIC), positions, strict=True)
        )
        self._queues.begin_again(low_half, low_op)
        for topic, offset in ((HALF_TOPIC, low_half), (OP_HALF_TOPIC, low_op)):
            self._parts.offsets.commit(TRANSACTION_GROUP, topic, 0, offset=offset)
        self._seen = (low_half, low_op, end)

    def _clipped(self, topic: str, offset: int) -> int:
        queue = self._parts.store.queue(topic, 0)
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        return min(max(offset, low), high)

    def _commit_positions(self) -> bool:
        """Commit the positions that `_see` noted last if the log below them is flushed; return whether it is."""
        half_offset, op_offset, log_end = self._seen
        if self._parts.store.flushed_offset < log_end:
            return False
        for topic, offset in ((HALF_TOPIC, half_offset), (OP_HALF_TOPIC, op_offset)):
            if (self._parts.offsets.get(TRANSACTION_GROUP, topic, 0) or 0) != offset:
                self._parts.offsets.commit(TRANSACTION_GROUP, topic, 0, offset=offset)
        return True
