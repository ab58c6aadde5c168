"""The slot of the timer wheel that is being delivered: reads its units, and finds those that are due.

A unit is an entry of timerlog for one timed message or recall. While the slot lasts, it is read repeatedly, because
messages may still be added or recalled. A pending unit is kept as one int: its due time and its position in timerlog.
"""

import logging
from typing import NamedTuple

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.redelivery import (
    BATCH_SIZE_MAX,
    is_of_deleted_topic,
    once_more,
    real_place,
)
from cometmq.broker.parts import Parts
from cometmq.broker.tables.topics import Topics
from cometmq.broker.timer.times import delete_key, is_of_topic, timer_topic
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, join_blocks
from cometmq.codec.record import Record, decode_record
from cometmq.codec.timer_files import UNIT_DELETE, UNIT_ROLL, TimerUnit
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.store.disk import Buffer
from cometmq.store.timer.files import TimerFiles

_log = logging.getLogger(__name__)

# Layout of a pending unit: high bits: ms within the slot; low bits: position in timerlog.
_POSITION_BITS = 48
_POSITION_MASK = (1 << _POSITION_BITS) - 1
# TIMER_ENQUEUE_MS of a message that was due on arrival: Long.MAX_VALUE.
NEVER_WAITED = (1 << 63) - 1


class FoundUnit(NamedTuple):
    """A timer unit with its message's record and properties."""

    unit: TimerUnit
    record: Record
    properties: dict[str, str]


class DueMessages(NamedTuple):
    """The messages made from due units of the timer wheel.

    Attributes:
        messages: To be stored: in their own topic, or again in the timer's if they were due beyond the wheel's range.
            A recalled or undeliverable one is missing.
        taken: Number of units that were processed, maybe fewer than the caller named.
        topics: Topics of the timed messages that leave the wheel, also of recalled ones; no deleted topics.
    """

    messages: list[InnerMessage]
    taken: int
    topics: list[str]


class GatheredUnits(NamedTuple):
    """The units that were read: as ints, with the keys of recalled messages and the position up to which they were read."""

    keys: list[int]
    deleted: set[str]
    last: int


class RunningSlot:
    """The slot of the timer wheel that is being delivered.

    Attributes:
        time_ms: Start of the slot, epoch ms.
        pending: Units not yet delivered, as ints; the next one is last.
        seen: Position of the last unit read, in timerlog; -1 if none.
    """

    def __init__(self, parts: Parts, files: TimerFiles) -> None:
        self._parts = parts
        self._store = parts.store
        self.time_ms = files.read_ms
        self.pending: list[int] = []
        self.seen = -1
        self._deleted: set[str] = set()
        self._files = files
        self._end_ms = self.time_ms + parts.settings.timer_precision_ms - 1

    @property
    def has_more(self) -> bool:
        """Whether the slot has units that were not read yet."""
        return self._files.wheel.slot(self.time_ms).last != self.seen

    def due(self, now_ms: int, count: int) -> list[int]:
        """Return the positions in timerlog of the next due units, at most `count`; they stay pending until `delivered`."""
        found = []
        for key in reversed(self.pending[-count:]):
            if self.time_ms + (key >> _POSITION_BITS) >= now_ms:
                break
            found.append(key & _POSITION_MASK)
        return found

    def next_due_ms(self) -> int | None:
        """Return when the next pending unit is due, epoch ms; None if there is none."""
        if not self.pending:
            return None
        return self.time_ms + (self.pending[-1] >> _POSITION_BITS) + 1

    def delivered(self, count: int) -> None:
        """Remove the next `count` units from the pending ones, after delivery."""
        del self.pending[len(self.pending) - count :]

    # --- in the pool

    def gather(self, last: int) -> GatheredUnits:
        """Read the slot's new units up to timerlog position `last`; log a fault and skip the rest. For any thread."""
        keys, deleted = [], set()
        try:
            for position, unit in self._files.log.back_from(last, self.seen):
                if unit.magic & UNIT_DELETE and not unit.magic & UNIT_ROLL:
                    found = self._found(unit, self._store.read_record(*_place_of(unit)))
                    if found is not None:
                        key = found.properties.get(keys_of.TIMER_DEL_UNIQKEY, "")
                        if is_of_topic(key, found.properties.get(keys_of.REAL_TOPIC, "")):
                            deleted.add(key)
                else:
                    keys.append((self._within_slot(unit) << _POSITION_BITS) | position)
        except (CodecError, OSError) as error:
            # Follows RocketMQ: the rest of a broken chain cannot be found.
            _log.error(
                "not all messages of the timer slot at %d ms can be read: %s",
                self.time_ms,
                error,
            )
        return GatheredUnits(keys, deleted, last)

    def add(self, gathered: GatheredUnits) -> None:
        """Add units that were read to the pending ones; call on the event loop."""
        self.pending += gathered.keys
        self.pending.sort(reverse=True)
        self._deleted |= gathered.deleted
        self.seen = gathered.last

    def _within_slot(self, unit: TimerUnit) -> int:
        """Return the ms within the slot after which a unit is due: the slot's end for a unit of RocketMQ, which has no ms."""
        within = unit.time_ms - self.time_ms
        return (
            within if 0 < within < self._end_ms - self.time_ms else self._end_ms - self.time_ms
        )

    def messages(self, positions: list[int]) -> DueMessages:
        """Create messages of the units, in order, until they have about 1 MiB. May block; callable in any thread."""
        made: list[InnerMessage] = []
        topics: list[str] = []
        units: list[TimerUnit] = []
        size = 0
        for position in positions:
            if size >= BATCH_SIZE_MAX:
                break
            unit = self._files.log.read(position)
            units.append(unit)
            size += unit.message_size
        now_ms = self._parts.clock.now_ms()
        contents = self._store.read_records([_place_of(unit) for unit in units])
        for unit, content in zip(units, contents, strict=True):
            found = self._found(unit, content)
            message = self._message(found, now_ms) if found is not None else None
            if message is not None:
                made.append(message)
            if (
                found is not None
                and not unit.magic & UNIT_DELETE
                and not is_of_deleted_topic(found.record, found.properties, self._parts.topics)
            ):
                topics.append(found.properties.get(keys_of.REAL_TOPIC, ""))
        return DueMessages(made, len(units), topics)

    def _found(self, unit: TimerUnit, content: Buffer | None) -> FoundUnit | None:
        """Decode the record of a unit; None if it is gone, cannot be decoded, or the log has another one in its place."""
        if content is None:
            _log.warning(
                "the timer skips physical offset %d: the log has no record there",
                unit.physical_offset,
            )
            return None
        try:
            record = decode_record(content)
            properties = record.properties()
            out_ms = int(properties.get(keys_of.TIMER_OUT_MS, 0))
        except (CodecError, ValueError) as error:
            _log.error(
                "the timer skips physical offset %d: its record cannot be decoded: %s",
                unit.physical_offset, error,
            )  # fmt: skip
            return None
        is_its_own = (
            record.topic == WHEEL_TIMER_TOPIC and record.store_size == unit.message_size
        )
        if is_its_own and (unit.magic & UNIT_ROLL or self._files.floor(out_ms) == self.time_ms):
            return FoundUnit(unit, record, properties)
        _log.warning(
            "the timer skips physical offset %d: another message is there now",
            unit.physical_offset,
        )
        return None

    def _message(self, found: FoundUnit, now_ms: int) -> InnerMessage | None:
        unit, record, properties = found
        if unit.magic & UNIT_ROLL:
            times = properties.get(keys_of.TIMER_ROLL_TIMES, "0")
            properties[keys_of.TIMER_ENQUEUE_MS] = str(unit.write_ms)
            properties[keys_of.TIMER_DEQUEUE_MS] = str(now_ms)
            properties[keys_of.TIMER_ROLL_TIMES] = str(
                int(times) + 1 if times.isdecimal() and len(times) < 10 else 1
            )
            return once_more(record, timer_topic(self._parts.topics), 0, properties)
        if self._deleted:
            topic = properties.get(keys_of.REAL_TOPIC, "")
            if delete_key(topic, properties.get(keys_of.UNIQ_KEY, "")) in self._deleted:
                return None
        return delivery(
            self._parts.topics, record, properties, enqueued_ms=unit.write_ms, now_ms=now_ms
        )


def _place_of(unit: TimerUnit) -> tuple[int, int]:
    return unit.physical_offset, unit.message_size


def delivery(
    topics: Topics,
    record: Record,
    properties: dict[str, str],
    *,
    enqueued_ms: int,
    now_ms: int,
) -> InnerMessage | None:
    """Return a timed message for its own topic, with the times in and out of the wheel; None if undeliverable."""
    place = real_place(record, properties, topics)
    if place is None:
        return None
    return once_more(
        record, *place, properties, block=_marked(record.property_block, enqueued_ms, now_ms)
    )


def _marked(block: bytes, enqueued_ms: int, now_ms: int) -> bytes:
    """Return the properties with the times of entering and leaving the wheel appended, if there is room."""
    marks = (
        f"{keys_of.TIMER_ENQUEUE_MS}\1{enqueued_ms}\2{keys_of.TIMER_DEQUEUE_MS}\1{now_ms}\2"
    ).encode()
    if len(block) + len(marks) >= PROPERTIES_SIZE_MAX:
        return block
    return join_blocks(block, marks)
