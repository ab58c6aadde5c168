"""Delivers the messages of delay levels when they are due.

A level's messages mostly become due in the order of its queue, so the delivery only waits for the first. Due messages
are read in a pool thread and stored in batches. Follows ScheduleMessageService of RocketMQ 5.3.3, but with one
background job for all levels.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cometmq.broker.delay.delivered_offsets import DeliveredOffsets
from cometmq.broker.inner.put_marks import PutMarks
from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.redelivery import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_MAX,
    DOUBT_MS,
    not_delivered,
    once_more,
    put_deliverable,
    real_place,
)
from cometmq.broker.parts import Parts
from cometmq.codec.queue_entry import QueueEntry
from cometmq.codec.record import Record, decode_record
from cometmq.model.clock import seconds_until
from cometmq.model.errors import CodecError, StoreError
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1  # DELAY_FOR_A_WHILE: messages due within it are delivered together.
_AFTER_ERROR_SECONDS = 1.0  # Differs: RocketMQ waits 10 s.
_DISCARDED = "the delayed message at physical offset %d cannot be decoded and is discarded: %s"


@dataclass(slots=True)
class DelayLevel:
    """A delay level and its progress.

    Attributes:
        number: The level, from 1.
        delay_ms: How long its messages wait.
        due_ms: When its first message is due, epoch ms; None if unknown.
        rests_until: Monotonic seconds until which it is skipped after an error.
        marks: Its offsets before the last deliveries, to undo them.
    """

    number: int
    delay_ms: int
    due_ms: int | None = None
    rests_until: float = 0.0
    marks: PutMarks[int] = field(default_factory=PutMarks)


@dataclass(slots=True)
class DueOfLevel:
    """The due messages of a delay level.

    Attributes:
        records: The due records; None for a record that the log has lost or that cannot be decoded.
        next_offset: Queue offset after them.
        due_ms: When the next message is due, epoch ms; None if unknown.
    """

    records: list[Record | None] = field(default_factory=list)
    next_offset: int = 0
    due_ms: int | None = None


class DelayedDelivery:
    """The delivery of all delay levels; `on_delivered` is called when there may be an offset to save."""

    def __init__(
        self, parts: Parts, delays_ms: Sequence[int], delivered: DeliveredOffsets
    ) -> None:
        """`delays_ms` has the delay of each level, starting with level 1."""
        self._parts = parts
        self._levels = [
            DelayLevel(number, delay_ms) for number, delay_ms in enumerate(delays_ms, start=1)
        ]
        self.on_delivered: Callable[[], None] = lambda: None
        self._delivered = delivered
        self._truncations = 0
        # Until when, and up to which offset of each level, messages are checked for an earlier delivery by another broker.
        self._doubt_until_ms = 0
        self._doubted: dict[int, int] = {}

    def doubt(self) -> None:
        """For 60 s, check whether due messages that are in the queues now were already delivered.

        This broker was a slave, and its offsets are some seconds old.
        """
        self._doubt_until_ms = self._parts.clock.now_ms() + DOUBT_MS
        for level in self._levels:
            queue = self._parts.store.queue(SCHEDULE_TOPIC, level.number - 1)
            self._doubted[level.number] = 0 if queue is None else queue.max_offset

    def correct_offsets(self) -> None:
        """Move offsets that are outside of their queues back into them (correctDelayOffset)."""
        offsets = self._delivered.offsets
        for number, offset in offsets.items():
            queue = self._parts.store.queue(SCHEDULE_TOPIC, number - 1)
            low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
            if not low <= offset <= high:
                offsets[number] = min(max(offset, low), high)
                _log.error(
                    "delayOffset.json has offset %d for delay level %d, but its queue has %d to %d; "
                    "delivery continues at %d", offset, number, low, high, offsets[number],
                )  # fmt: skip

    def truncated(self, end: int) -> None:
        """Move levels back if the log, truncated to `end`, has lost their deliveries or messages that waited.

        Lost deliveries are repeated.
        """
        self._truncations += 1
        offsets = self._delivered.offsets
        for level in self._levels:
            level.due_ms = None
            queue = self._parts.store.queue(SCHEDULE_TOPIC, level.number - 1)
            high = queue.max_offset if queue is not None else 0
            before = level.marks.go_back(end)
            known = offsets.get(level.number, 0)
            offset = min(known, high, known if before is None else before)
            if offset != known:
                _log.warning(
                    "delay level %d: delivery returns from offset %d to %d, because the log was truncated",
                    level.number,
                    known,
                    offset,
                )
                offsets[level.number] = offset
        self.on_delivered()

    def queues(self) -> list[ConsumeQueue]:
        """Return the queues of the levels; an arrival in one must wake the delivery."""
        return [
            self._parts.store.queue_to_watch(SCHEDULE_TOPIC, level.number - 1)
            for level in self._levels
        ]

    def deliver(self) -> Steps[float]:
        """Deliver the due messages of all levels not resting after an error; return the seconds to the next call."""
        for level in self._levels:
            yield from self._look(level)
        return max(min(map(self._pause_seconds, self._levels), default=NEVER), LOOK_SECONDS)

    def _pause_seconds(self, level: DelayLevel) -> float:
        rest = level.rests_until - self._parts.clock.monotonic()
        if rest > 0:
            return rest
        if not self._has_any(level):
            return NEVER
        return 0.0 if level.due_ms is None else seconds_until(self._parts.clock, level.due_ms)

    def _look(self, level: DelayLevel) -> Steps[None]:
        """Deliver the due messages of a level; after an error it is skipped for a while."""
        clock = self._parts.clock
        if clock.monotonic() < level.rests_until:
            return
        try:
            while self._may_be_due(level):
                yield from self._deliver_batch(level)
        except (StoreError, CodecError, OSError) as error:
            _log.warning(
                "messages of delay level %d cannot be delivered: %s; next attempt in %.0f s",
                level.number,
                error,
                _AFTER_ERROR_SECONDS,
            )
            level.rests_until = clock.monotonic() + _AFTER_ERROR_SECONDS
        except Exception:  # noqa: BLE001
            # A fault in one level must not end the deliveries of the others.
            _log.exception("the delivery of delay level %d failed and is retried", level.number)
            level.rests_until = clock.monotonic() + _AFTER_ERROR_SECONDS

    def _may_be_due(self, level: DelayLevel) -> bool:
        if not self._has_any(level):
            level.due_ms = None
            return False
        return level.due_ms is None or not self._waits(level.due_ms, level)

    def _has_any(self, level: DelayLevel) -> bool:
        queue = self._parts.store.queue(SCHEDULE_TOPIC, level.number - 1)
        return (
            queue is not None
            and self._delivered.offsets.get(level.number, 0) < queue.max_offset
        )

    def _waits(self, due_ms: int, level: DelayLevel) -> bool:
        """Return whether a message is not due yet.

        A due time that is further ahead than the level's delay was set before the clock was set back, or when this number
        was that of a longer level; such a message is due now (correctDeliverTimestamp).
        """
        now_ms = self._parts.clock.now_ms()
        return now_ms < due_ms <= now_ms + level.delay_ms

    def _deliver_batch(self, level: DelayLevel) -> Steps[None]:
        offset = self._delivered.offsets.get(level.number, 0)
        truncations = self._truncations
        found = yield from elsewhere(lambda: self._read_due(level, offset))
        records = [record for record in found.records if record is not None]
        is_doubted = offset < self._doubted.get(level.number, 0)
        if is_doubted and self._parts.clock.now_ms() < self._doubt_until_ms:
            records = yield from not_delivered(self._parts.store, records)
        messages = [
            message for record in records if (message := self._message(record)) is not None
        ]
        if self._truncations != truncations:
            return  # The records may be gone; the next call reads again.
        level.marks.note_put(
            put_deliverable(self._parts.inner, self._parts.topics, messages), offset
        )
        # Nothing is awaited between the put and this, so a cancellation cannot cause a second delivery.
        self._delivered.offsets[level.number] = found.next_offset
        level.due_ms = found.due_ms
        self.on_delivered()

    def _read_due(self, level: DelayLevel, offset: int) -> DueOfLevel:
        """Return a level's due messages from queue offset `offset` on, at most a batch. Called in the pool."""
        store = self._parts.store
        queue = store.queue(SCHEDULE_TOPIC, level.number - 1)
        assert queue is not None
        found = DueOfLevel(next_offset=max(offset, queue.min_offset))
        due: list[QueueEntry] = []
        size_left = BATCH_SIZE_MAX
        for entry in store.entries(queue, found.next_offset, BATCH_COUNT_MAX):
            if self._waits(entry.tags_code, level):
                found.due_ms = entry.tags_code
                break
            if size_left <= 0:
                break
            due.append(entry)
            size_left -= entry.size
        contents = store.read_records([(each.physical_offset, each.size) for each in due])
        for entry, read in zip(due, contents, strict=True):
            content = read
            if content is None:
                mended = store.mended_entry(queue, found.next_offset)
                if mended is not None:
                    if self._waits(mended.tags_code, level):
                        found.due_ms = mended.tags_code
                        break
                    content = store.read_record(mended.physical_offset, mended.size)
            found.records.append(None if content is None else _decoded(content, entry))
            found.next_offset += 1
        return found

    def _message(self, record: Record) -> InnerMessage | None:
        """Return a delayed message as it will be stored in its own topic, or None if it cannot be delivered."""
        try:
            properties = record.properties()
        except CodecError as error:
            _log.error(_DISCARDED, record.physical_offset, error)
            return None
        place = real_place(record, properties, self._parts.topics)
        if place is None:
            return None
        # Follows RocketMQ: the delivered message keeps DELAY, REAL_TOPIC and REAL_QID.
        return once_more(record, *place, properties, block=record.property_block)


def _decoded(content: Buffer, entry: QueueEntry) -> Record | None:
    """Decode a record; None if it cannot be decoded, because retrying it would block its level for ever."""
    try:
        return decode_record(content)
    except CodecError as error:
        _log.error(_DISCARDED, entry.physical_offset, error)
        return None
