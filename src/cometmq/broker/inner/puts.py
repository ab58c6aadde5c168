"""Writes the broker's own messages: retries, due delays, transaction marks, dead letters.

The messages of one put are appended to the log together, without waiting for a flush; with SYNC_FLUSH, consumers see
them only after the flush. `durable` waits until they are confirmed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from cometmq.broker.counters.counters import Counters
from cometmq.broker.tables.lanes import Lanes
from cometmq.broker.tables.topics import Topics
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record
from cometmq.model.errors import CodecError, RecordIllegal, StoreError
from cometmq.model.java_hash import java_hash
from cometmq.model.properties import TAGS
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, confirmed
from cometmq.store.appender import Put, PutResult
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability

T = TypeVar("T")


class InnerMessage(NamedTuple):
    """A message that the broker writes.

    Attributes:
        topic: The destination; if the broker knows the topic, the put uses its current configuration.
        queue_id: The wanted queue; except in the delay topic, the put takes it modulo the topic's `shared_queues`.
        body: The body as the record stores it (compressed if `sys_flag` says so).
        properties: All properties, except for a CRC that the store may add.
        flag: The user's flag.
        sys_flag: System flag without the bits of hosts.
        born_ms: When the client or this broker created the message, epoch ms.
        born_host: The host that created it, 8 or 20 bytes.
        reconsume_times: How often consumption has failed so far.
        prepared_offset: Physical offset of its half message; 0 if it has none.
        transaction: Transaction bits of `sys_flag`; with prepared or rollback it gets no queue entry.
        is_due_coded: Whether its queue entry has the due time of its delay level, not the tag's hash (delay topic).
        block: The encoded `properties`; None if the put must encode them.
        record: The stored message that this one was made from; None for a new message.
    """

    topic: TopicConfig
    queue_id: int
    body: bytes
    properties: dict[str, str]
    born_ms: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    transaction: int = 0
    is_due_coded: bool = False
    block: bytes | None = None
    record: Record | None = None


class InnerPuts:
    """The writer of the broker's own messages."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        lanes: Lanes,
        counters: Counters,
        on_written: Callable[[], None],
    ) -> None:
        """`on_written` is called after each write (broker.loop.flusher)."""
        self._store = store
        self._topics = topics
        self._lanes = lanes
        self._counters = counters
        self._on_written = on_written

    def put(self, *messages: InnerMessage) -> list[PutResult]:
        """Append messages, all or none, and dispatch what consumers may see; return queue offset, physical offset, size of each.

        Raises:
            StoreError, CodecError: None of them was stored.
        """
        began = self._counters.now()
        puts = [self._pack(message) for message in messages]
        results = self._store.put_many(puts)
        self._counters.count_puts(puts, results, began, self._counters.inner_puts)
        self.written()
        return results

    def written(self) -> None:
        """Dispatch those stored messages that consumers may see now, and notify the flusher."""
        self._store.dispatch_pending()
        self._on_written()

    def durable(self, results: Sequence[PutResult]) -> Steps[None]:
        """Wait until messages are confirmed, or until replicas that they need are late or missing, which is no error.

        The messages are stored, and writing them again would not help (as in EndTransactionProcessor of RocketMQ 5.3.3).

        Raises:
            StoreError: The flush failed, it is late and replicas are not, a truncation removed the messages, or no majority
                of a group that elects its leader has them.
        """
        if not results:
            return
        _, physical_offset, size = results[-1]
        end = physical_offset + size
        if end <= self._store.positions.confirmed:
            return
        durability = yield from confirmed(end)
        if durability in (Durability.DISK_LATE, Durability.NOT_COMMITTED):
            raise StoreError(
                f"the messages up to physical offset {end} were {durability.value}"
            )

    def _pack(self, message: InnerMessage) -> Put:
        topic = self._topics.get(message.topic.name) or message.topic
        queue_id = message.queue_id
        # The delay topic has a queue per level, whatever its configuration says.
        if not message.is_due_coded:
            queue_id %= topic.shared_queues
        lane = self._lanes.open(topic, queue_id, is_kept=False)
        tag = message.properties.get(TAGS)
        code = java_hash(tag) if tag else 0
        return (
            lane.queue, lane.topic_block, message.body, message.block or encode_properties(message.properties),
            None if message.is_due_coded else code,
            message.flag, message.sys_flag | lane.sys_flag, message.born_ms, message.born_host,
            message.reconsume_times, message.prepared_offset, message.transaction,
        )  # fmt: skip


def in_parts(
    put: Callable[[Sequence[T]], list[PutResult]], items: Sequence[T]
) -> Iterator[tuple[Sequence[T], list[PutResult] | Exception]]:
    """Store all items together; if that fails because one is illegal, try each half separately.

    Yields the parts in order, each with the places of its items, or with the error because of which none is stored.
    """
    outcome: list[PutResult] | Exception
    try:
        outcome = put(items)
    except Exception as error:  # noqa: BLE001  Whoever waits for an item must not take it for stored.
        # Its traceback would refer to this frame, and the frame to it.
        outcome = error.with_traceback(None)
    if isinstance(outcome, (RecordIllegal, CodecError)) and len(items) > 1:
        middle = len(items) // 2
        yield from in_parts(put, items[:middle])
        yield from in_parts(put, items[middle:])
    else:
        yield items, outcome
