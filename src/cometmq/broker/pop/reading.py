"""Reads messages for a pop from the queues of a topic and, unless in order, of the group's retry topics.

A pop reads the wanted queue, or all starting with a random one, until it has enough or has filtered for some 5 ms. The
messages of each queue are recorded as one check point before they enter the answer, or lock the queue if the pop is in
order. Only reads from the disk wait (docs/design/0040). Follows PopMessageProcessor of RocketMQ 5.3.3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from cometmq.broker.loop.caller import Caller
from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import CheckPoint, Place
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pull.filtered_read import FilteredRead, ReadRequest, TimeBudget
from cometmq.broker.pull.filters import MessageFilter
from cometmq.codec.bodies.pop_journal import CheckPointBody
from cometmq.codec.headers.pop import PopRequest
from cometmq.codec.properties import join_blocks
from cometmq.codec.receipt import NORMAL, ORDER_QUEUE, Receipt, kind_of
from cometmq.codec.record import QUEUE_OFFSET_AT, decode_record, encode_record
from cometmq.model.errors import CodecError, ConnectionLost, StoreError
from cometmq.model.names import pop_retry_topic
from cometmq.model.properties import POP_CK
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.reader import GetResult, GetStatus

_ELSEWHERE = (
    GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL,
)  # fmt: skip
_PASSED_OVER = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)


class Pop(NamedTuple):
    """A pop whose request was checked; `wanted` is the filter of its messages."""

    request: PopRequest
    wanted: MessageFilter
    topic: TopicConfig
    caller: Caller[Any]


@dataclass(slots=True)
class PoppedMessages:
    """The messages that a pop has read so far.

    Attributes:
        pop_time_ms: Pop time of all its check points, epoch ms.
        revive_queue: Revive queue of all its check points, or ORDER_QUEUE.
        pieces: The records of the answer.
        count: Number of messages.
        size: Their size in bytes.
        starts: Topic kind, queue id and start offset of each queue with messages.
        offsets: Topic kind, queue id and queue offsets of each queue with messages.
        order_counts: For pops in order, as in `PopResult`; otherwise empty.
        left: Number of further messages, as far as the pop knows.
        budget: The time that is left for examining messages.
        is_unfinished: Whether to try again, because the time was over or a read found no match before the end of its queue.
        is_cold: Whether the pop has read from the disk, so that messages may have arrived meanwhile.
        began: When this attempt of the pop began to read, monotonic seconds.
    """

    pop_time_ms: int
    revive_queue: int
    budget: TimeBudget
    pieces: list[bytes | memoryview] = field(default_factory=list)
    count: int = 0
    size: int = 0
    starts: list[tuple[str, int, int]] = field(default_factory=list)
    offsets: list[tuple[str, int, list[int]]] = field(default_factory=list)
    order_counts: list[tuple[str, str, int]] = field(default_factory=list)
    left: int = 0
    is_unfinished: bool = False
    is_cold: bool = False
    began: float = 0.0


class PopReader:
    """Reads the messages of pops from queues, at once from memory or in a thread from the disk."""

    def __init__(
        self,
        parts: Parts,
        *,
        journal: Journal,
        offsets: GroupOffsets,
        orders: Orders,
    ) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._store = parts.store
        self._journal = journal
        self._offsets = offsets
        self._orders = orders

    def collect(self, pop: Pop) -> Steps[PoppedMessages]:
        """Read messages for a pop; record a check point for those of each queue or, in order, lock the queue.

        Raises:
            StoreError: The first check point cannot be recorded, so no message is returned.
            ConnectionLost: The client disconnected during a read from the disk.
        """
        is_ordered = pop.request.order
        taken = PoppedMessages(
            self._parts.clock.now_ms(),
            ORDER_QUEUE if is_ordered else self._journal.choose_queue(),
            TimeBudget(self._parts.clock),
            began=self._parts.counters.now(),
        )
        first = self._parts.chance.randrange(100)
        is_retry_first = first < self._settings.retry_share
        if is_retry_first and not is_ordered:
            yield from self._retries(pop, taken, first)
        if pop.request.queue_id >= 0:
            yield from self._queue(pop, taken, pop.topic.name, pop.request.queue_id)
        else:
            yield from self._topic(pop, taken, pop.topic, first)
        if not is_retry_first and not is_ordered and taken.count < pop.request.max_msg_nums:
            yield from self._retries(pop, taken, first)
        return taken

    def retry_topics(self, topic: str, group: str) -> Iterator[TopicConfig]:
        """Yield a group's existing retry topics of a topic that are to be read: v2, v1 or both, by the settings."""
        settings = self._settings
        if settings.is_retry_topic_v2:
            config = self._parts.topics.get(pop_retry_topic(topic, group, is_v2=True))
            if config is not None:
                yield config
        if not settings.is_retry_topic_v2 or settings.is_retry_topic_v1_read:
            config = self._parts.topics.get(pop_retry_topic(topic, group))
            if config is not None:
                yield config

    def has_messages(self, topic: str, group: str, queue_id: int) -> bool:
        """Return whether a queue ends after a group's offset, or without one has messages; ignores filters, locks."""
        queue = self._store.queue(topic, queue_id)
        if queue is None:
            return False
        offset = self._offsets.next_offset((group, topic, queue_id))
        return queue.max_offset > (queue.min_offset if offset is None else offset)

    # --- queues

    def _retries(self, pop: Pop, taken: PoppedMessages, first: int) -> Steps[None]:
        for config in self.retry_topics(pop.topic.name, pop.request.consumer_group):
            yield from self._topic(pop, taken, config, first)

    def _topic(
        self, pop: Pop, taken: PoppedMessages, topic: TopicConfig, first: int
    ) -> Steps[None]:
        count = topic.read_queues
        for number in range(count):
            yield from self._queue(pop, taken, topic.name, (first + number) % count)

    def _queue(self, pop: Pop, taken: PoppedMessages, topic: str, queue_id: int) -> Steps[None]:
        request, busy = pop.request, self._offsets.busy
        place = (request.consumer_group, topic, queue_id)
        queue = self._store.queue(topic, queue_id)
        offset = self._next_offset(place)
        if offset is None:
            offset = yield from self._offsets.begin(place, queue, request.init_mode)
            if queue is not None and queue.deleted:
                return
        if queue is None:
            return
        if request.order and self._orders.is_closed(place, request.attempt_id):
            return
        if taken.budget.is_over or place in busy or taken.count >= request.max_msg_nums:
            left = queue.max_offset - offset
            if left > 0:
                taken.left += left
                taken.is_unfinished |= taken.budget.is_over
            return
        if offset == queue.max_offset:
            return
        busy.add(place)
        try:
            result = yield from self._read(pop, taken, place, offset)
            if result.status in _ELSEWHERE and not queue.deleted:
                self._offsets.reset(place, result.next_offset)
                offset = result.next_offset
                result = yield from self._read(pop, taken, place, offset)
        finally:
            busy.discard(place)
        if queue.deleted:
            return  # It was deleted during the read; the place may belong to a new queue.
        if result.status is GetStatus.FOUND:
            self._hand_out(pop, taken, place, offset, result)
        elif result.status in _PASSED_OVER and result.next_offset > offset:
            self._pass_over(place, result.next_offset, is_ordered=request.order)
            taken.is_unfinished |= result.next_offset < result.max_offset
        taken.left += max(result.max_offset - result.next_offset, 0)

    def _next_offset(self, place: Place) -> int | None:
        group, topic, queue_id = place
        moved = self._parts.offsets.take_reset(group, topic, queue_id)
        if moved is not None:
            self._offsets.reset(place, moved)
            self._orders.forget(place)
            self._journal.record_reset(place, moved)
        return self._offsets.next_offset(place)

    def _read(
        self, pop: Pop, taken: PoppedMessages, place: Place, offset: int
    ) -> Steps[GetResult]:
        _, topic, queue_id = place
        count = pop.request.max_msg_nums - taken.count
        codes, passes, fast = pop.wanted
        if passes is None:
            result = self._store.get(topic, queue_id, offset, max_count=count, match=codes)
            if result.cold is None:
                return result
            found = yield from self._read_cold(pop, taken, result.cold)
            self._parts.counters.count_from_disk(
                topic, pop.request.consumer_group, found.message_count, found.size
            )
            return found
        size_max = self._settings.transfer_bytes_in_memory
        wanted = ReadRequest(topic, queue_id, offset, count, size_max, passes, fast)
        lend = partial(self._read_cold, pop, taken)
        read = FilteredRead(self._store, wanted, taken.budget, lend)
        result = yield from read.steps()
        if read.is_cut:
            self._parts.counters.cut_filter(pop.request.consumer_group, topic)
        return result

    def _read_cold(
        self, pop: Pop, taken: PoppedMessages, cold: Callable[[], GetResult]
    ) -> Steps[GetResult]:
        """Read from the disk; raise ConnectionLost if the client has disconnected, so that other clients get the messages."""
        taken.is_cold = True
        found = yield from elsewhere(cold)
        if pop.caller.is_gone:
            raise ConnectionLost("the client disconnected before its messages were read")
        return found

    # --- what was read

    def _hand_out(
        self, pop: Pop, taken: PoppedMessages, place: Place, start: int, result: GetResult
    ) -> None:
        offsets = _offsets(start, result)
        _, topic, queue_id = place
        if pop.request.order:
            self._keep_order(pop, taken, place, offsets)
        elif not self._put_on_record(pop, taken, place, start, offsets, result.next_offset):
            return
        kind = kind_of(topic)
        taken.starts.append((kind, queue_id, start))
        taken.offsets.append((kind, queue_id, offsets))
        self._parts.counters.count_handed_out(
            topic, pop.request.consumer_group, queue_id, len(offsets), result.size, taken.began
        )
        taken.count += len(offsets)
        taken.size += result.size
        if kind == NORMAL:
            taken.pieces += result.records
            return
        handle = Receipt(
            start, taken.pop_time_ms, pop.request.invisible_time, taken.revive_queue, kind,
            self._settings.broker_name, queue_id,
        )  # fmt: skip
        for record, offset in zip(split_records(result.records), offsets, strict=True):
            receipt = handle._replace(queue_offset=offset)
            taken.pieces.append(_of_origin(record, pop.topic.name, receipt))

    def _put_on_record(
        self,
        pop: Pop,
        taken: PoppedMessages,
        place: Place,
        start: int,
        offsets: list[int],
        next_offset: int,
    ) -> bool:
        """Write the check point of a queue's messages; return False if the pop must leave these messages out.

        Raises StoreError if it cannot be written and the pop has no messages so far.
        """
        group, topic, queue_id = place
        body = CheckPointBody(
            topic, group, queue_id, start, tuple(offsets), taken.pop_time_ms,
            pop.request.invisible_time, broker_name=self._settings.broker_name,
        )  # fmt: skip
        point = CheckPoint(body, taken.revive_queue)
        if point.key in self._journal.check_points:
            return False  # The group's offset was set back within this millisecond.
        try:
            self._journal.record(point)
        except StoreError:
            if not taken.count:
                raise
            return False
        self._parts.counters.check_points.of(topic, group).add(1, 0, 0)
        self._offsets.passed(place, next_offset, point)
        return True

    def _keep_order(
        self, pop: Pop, taken: PoppedMessages, place: Place, offsets: list[int]
    ) -> None:
        request = pop.request
        counts = self._orders.handed_out(
            place, offsets,
            pop_time_ms=taken.pop_time_ms, invisible_ms=request.invisible_time,
            attempt_id=request.attempt_id,
        )  # fmt: skip
        _, topic, queue_id = place
        kind = kind_of(topic)
        taken.order_counts += [
            (kind, f"qo{queue_id}%{offset}", count) for offset, count in counts.items()
        ]
        # Clients before 5.1 use this: the lowest count of the queue.
        least = min(counts.values()) if len(counts) == len(offsets) else 0
        taken.order_counts.append((kind, str(queue_id), least))

    def _pass_over(self, place: Place, next_offset: int, *, is_ordered: bool) -> None:
        if is_ordered:
            self._offsets.reset(place, next_offset)
        else:
            self._offsets.passed(place, next_offset)


def _offsets(start: int, result: GetResult) -> list[int]:
    """Return the queue offsets of the messages that were read from `start` on."""
    if result.message_count == result.next_offset - start:  # No message was filtered out.
        return list(range(start, result.next_offset))
    return [
        int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
        for record in split_records(result.records)
    ]


def split_records(pieces: list[memoryview]) -> list[memoryview]:
    """Return each record of pieces of the log that have whole records."""
    records = []
    for piece in pieces:
        start, end = 0, len(piece)
        while start < end:
            size = int.from_bytes(piece[start : start + 4])
            records.append(piece[start : start + size])
            start += size
    return records


def _of_origin(record: memoryview, topic: str, receipt: Receipt) -> bytes | memoryview:
    """Encode a retried message as one of the requested topic, with its handle as a property (as Java does).

    If that fails, for example without room for the handle, the record is returned unchanged.
    """
    try:
        decoded = decode_record(record)
        handle = f"{POP_CK}\1{receipt}\2".encode()
        block = join_blocks(decoded.property_block, handle)
        return encode_record(decoded._replace(topic=topic, property_block=block))
    except CodecError:
        return record  # No room for the handle: the client builds it from the header.
