"""Reads the timer's topic and makes a request to the timer wheel from each message that can be read."""

import logging
from dataclasses import dataclass, field

from cometmq.broker.inner.redelivery import BATCH_SIZE_MAX
from cometmq.broker.timer.times import wanted_ms
from cometmq.codec.queue_entry import QueueEntry
from cometmq.codec.record import Record, decode_record
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError
from cometmq.model.java_hash import java_hash
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.store.message_store import MessageStore
from cometmq.store.timer.files import TimerRequest

_log = logging.getLogger(__name__)

READ_COUNT_MAX = 256


@dataclass(slots=True)
class ArrivedMessages:
    """Messages that were read from the timer's topic.

    Attributes:
        messages: A request to the timer wheel for each, with its record.
        next_offset: Queue offset after them.
    """

    messages: list[tuple[TimerRequest, Record]] = field(default_factory=list)
    next_offset: int = 0


class TimerQueue:
    """Queue 0 of the timer's topic, its only one."""

    def __init__(self, store: MessageStore, precision_ms: int) -> None:
        self._store = store
        self._precision_ms = precision_ms

    def has_any_from(self, offset: int) -> bool:
        """Return whether the queue has a message from an offset on."""
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        return queue is not None and offset < queue.max_offset

    def bounds(self) -> tuple[int, int]:
        """Return the queue's first offset, and the offset after its last message."""
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def read(self, offset: int) -> ArrivedMessages:
        """Read up to 256 messages of about 1 MiB from an offset on; skip lost and damaged ones. May block; for any thread."""
        queue = self._store.queue(WHEEL_TIMER_TOPIC, 0)
        assert queue is not None
        arrived = ArrivedMessages(next_offset=max(offset, queue.min_offset))
        entries: list[QueueEntry] = []
        size_left = BATCH_SIZE_MAX
        for entry in self._store.entries(queue, arrived.next_offset, READ_COUNT_MAX):
            if size_left <= 0:
                break
            entries.append(entry)
            size_left -= entry.size
        places = [(entry.physical_offset, entry.size) for entry in entries]
        for entry, read in zip(entries, self._store.read_records(places), strict=True):
            content, offset = read, arrived.next_offset
            arrived.next_offset += 1
            if content is None:
                mended = self._store.mended_entry(queue, offset)
                if mended is not None:
                    content = self._store.read_record(mended.physical_offset, mended.size)
            if content is None:
                continue
            try:
                record = decode_record(content)
                arrived.messages.append((self._waiting(record), record))
            except (CodecError, ValueError) as error:
                _log.error(
                    "the timed message at physical offset %d cannot be decoded and is discarded: %s",
                    entry.physical_offset,
                    error,
                )
        return arrived

    def _waiting(self, record: Record) -> TimerRequest:
        properties = record.properties()
        out_ms = (
            int(properties[keys_of.TIMER_OUT_MS]) if keys_of.TIMER_OUT_MS in properties else 0
        )
        return TimerRequest(
            record.physical_offset,
            record.store_size,
            out_ms,
            self._due_ms(record, properties, out_ms),
            keys_of.TIMER_DEL_UNIQKEY in properties,
            java_hash(properties.get(keys_of.REAL_TOPIC, "")),
        )

    def _due_ms(self, record: Record, properties: dict[str, str], out_ms: int) -> int:
        """Return the millisecond before the message is due, within its slot; RocketMQ only knows the slot.

        RocketMQ's timer units have the time of the slot's start. Ours never have it: a message due then is 1 ms late.
        """
        wanted = None
        # The store time of a message that was rolled is that of a later copy.
        if keys_of.TIMER_ROLL_TIMES not in properties:
            wanted = wanted_ms(properties, record.store_timestamp)
        last = out_ms + self._precision_ms - 1
        return last if wanted is None else min(max(wanted - 1, out_ms + 1), last)
