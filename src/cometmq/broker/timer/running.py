"""The slot whose time runs: its units are gathered, and each is delivered at its millisecond.

The slot is looked at again and again while its second lasts, since messages may still come into it, or
be taken back. What waits in it is one int each: when it is due, and where its unit stands.
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
from cometmq.broker.tables.topics import Topics
from cometmq.broker.timer.times import delete_key, is_of_topic, timer_topic
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, join_blocks
from cometmq.codec.record import Record, decode_record
from cometmq.codec.timer_files import UNIT_DELETE, UNIT_ROLL, TimerUnit
from cometmq.model import properties as keys_of
from cometmq.model.clock import Clock
from cometmq.model.errors import CodecError
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.store.message_store import MessageStore
from cometmq.store.timer.files import TimerFiles

_log = logging.getLogger(__name__)

# A pending unit is one int: ms within the slot above, position in timerlog below.
_POSITION_BITS = 48
_POSITION_MASK = (1 << _POSITION_BITS) - 1
NEVER_WAITED = (1 << 63) - 1  # TIMER_ENQUEUE_MS of what was due on its arrival: Long.MAX_VALUE.


class FoundUnit(NamedTuple):
    """A unit with its record and the record's properties."""

    unit: TimerUnit
    record: Record
    properties: dict[str, str]


class DueMessages(NamedTuple):
    """The messages that leave the slot, the number of their units, and their topics."""

    messages: list[InnerMessage]
    taken: int
    topics: list[str]


class GatheredUnits(NamedTuple):
    """The result of a look at the slot: new units by key, what they take back, and how far it got."""

    keys: list[int]
    deleted: set[str]
    last: int


class RunningSlot:
    """One slot while it is delivered.

    Attributes:
        time_ms: its start.
        pending: keys of units that are not delivered, the next one last.
        seen: position of the last unit that was gathered; -1: none.
    """

    def __init__(
        self,
        files: TimerFiles,
        *,
        precision_ms: int,
        store: MessageStore,
        topics: Topics,
        clock: Clock,
    ) -> None:
        self.time_ms = files.read_ms
        self.pending: list[int] = []
        self.seen = -1
        self._deleted: set[str] = set()
        self._files = files
        self._store = store
        self._topics = topics
        self._clock = clock
        self._end_ms = self.time_ms + precision_ms - 1

    @property
    def has_more(self) -> bool:
        """Whether units came that were not gathered yet."""
        return self._files.wheel.slot(self.time_ms).last != self.seen

    def due(self, now_ms: int, count: int) -> list[int]:
        """Positions of the next units that are due, at most `count`; they stay pending."""
        found = []
        for key in reversed(self.pending[-count:]):
            if self.time_ms + (key >> _POSITION_BITS) >= now_ms:
                break
            found.append(key & _POSITION_MASK)
        return found

    def next_due_ms(self) -> int | None:
        """The time when the next pending unit is due, ms since 1970; None without one."""
        if not self.pending:
            return None
        return self.time_ms + (self.pending[-1] >> _POSITION_BITS) + 1

    def delivered(self, count: int) -> None:
        """The next `count` units are done."""
        del self.pending[len(self.pending) - count :]

    # --- in the pool

    def gather(self, last: int) -> GatheredUnits:
        """The units up to `last` that were not seen. May wait; any thread."""
        keys, deleted = [], set()
        try:
            for position, unit in self._files.log.back_from(last, self.seen):
                if unit.magic & UNIT_DELETE and not unit.magic & UNIT_ROLL:
                    found = self._read(unit)
                    if found is not None:
                        key = found.properties.get(keys_of.TIMER_DEL_UNIQKEY, "")
                        if is_of_topic(key, found.properties.get(keys_of.REAL_TOPIC, "")):
                            deleted.add(key)
                else:
                    keys.append((self._within_slot(unit) << _POSITION_BITS) | position)
        except (CodecError, OSError) as error:
            # Follows RocketMQ: the rest of a broken chain cannot be found.
            _log.error("the timer's slot %d ends early: %s", self.time_ms, error)
        return GatheredUnits(keys, deleted, last)

    def add(self, gathered: GatheredUnits) -> None:
        """Let what was gathered wait for its millisecond; on the loop."""
        self.pending += gathered.keys
        self.pending.sort(reverse=True)
        self._deleted |= gathered.deleted
        self.seen = gathered.last

    def _within_slot(self, unit: TimerUnit) -> int:
        """Ms of the slot after which a unit is due; RocketMQ's units know the slot alone."""
        within = unit.time_ms - self.time_ms
        return (
            within if 0 < within < self._end_ms - self.time_ms else self._end_ms - self.time_ms
        )

    def messages(self, positions: list[int]) -> DueMessages:
        """The messages to put for the units of these positions; may wait for the device; any thread."""
        made: list[InnerMessage] = []
        topics: list[str] = []
        size = taken = 0
        now_ms = self._clock.now_ms()
        for position in positions:
            unit = self._files.log.read(position)
            found = self._read(unit)
            message = self._message(found, now_ms) if found is not None else None
            if message is not None:
                made.append(message)
            if (
                found is not None
                and not unit.magic & UNIT_DELETE
                and not is_of_deleted_topic(found.record, found.properties, self._topics)
            ):
                topics.append(found.properties.get(keys_of.REAL_TOPIC, ""))
            taken += 1
            size += unit.message_size
            if size >= BATCH_SIZE_MAX:
                break
        return DueMessages(made, taken, topics)

    def _read(self, unit: TimerUnit) -> FoundUnit | None:
        """The record of a unit; None where it is another one's, after a power cut say, or gone."""
        content = self._store.read_record(unit.physical_offset, unit.message_size)
        if content is None:
            _log.warning("the timer passes over %d: no such record", unit.physical_offset)
            return None
        try:
            record = decode_record(content)
            properties = record.properties()
            out_ms = int(properties.get(keys_of.TIMER_OUT_MS, 0))
        except (CodecError, ValueError) as error:
            _log.error("the timer's message at %d: %s", unit.physical_offset, error)
            return None
        is_its_own = (
            record.topic == WHEEL_TIMER_TOPIC and record.store_size == unit.message_size
        )
        if is_its_own and (unit.magic & UNIT_ROLL or self._files.floor(out_ms) == self.time_ms):
            return FoundUnit(unit, record, properties)
        _log.warning("the timer passes over %d, which is not its message", unit.physical_offset)
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
            return once_more(record, timer_topic(self._topics), 0, properties)
        if self._deleted:
            topic = properties.get(keys_of.REAL_TOPIC, "")
            if delete_key(topic, properties.get(keys_of.UNIQ_KEY, "")) in self._deleted:
                return None
        return delivery(
            self._topics, record, properties, enqueued_ms=unit.write_ms, now_ms=now_ms
        )


def delivery(
    topics: Topics,
    record: Record,
    properties: dict[str, str],
    *,
    enqueued_ms: int,
    now_ms: int,
) -> InnerMessage | None:
    """A timed message as it goes to its own topic; None where that cannot be.

    Args:
        topics: of the broker.
        record: as it waited.
        properties: of it.
        enqueued_ms: when it came into the wheel.
        now_ms: when it leaves it.
    """
    place = real_place(record, properties, topics)
    if place is None:
        return None
    return once_more(
        record, *place, properties, block=_marked(record.property_block, enqueued_ms, now_ms)
    )


def _marked(block: bytes, enqueued_ms: int, now_ms: int) -> bytes:
    """The properties, with when it came and went behind them if there is room for it."""
    marks = (
        f"{keys_of.TIMER_ENQUEUE_MS}\1{enqueued_ms}\2{keys_of.TIMER_DEQUEUE_MS}\1{now_ms}\2"
    ).encode()
    if len(block) + len(marks) >= PROPERTIES_SIZE_MAX:
        return block
    return join_blocks(block, marks)
