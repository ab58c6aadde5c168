"""Computes the queue entries of records of the log, grouped into runs by queue.

A run has the packed 20-byte entries of one queue with consecutive offsets (docs/format/queue-entry.md). A hundred
thousand messages of few queues usually make only a few runs. Most entries are computed for all records at once.
Special records (delay topic, light queues) go through `store.stored_record.places_of`, which defines all entries.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.codec.record import PHYSICAL_OFFSET_AT, QUEUE_ID_AT, decode_record
from cometmq.kernel import java_hash_many
from cometmq.model import flags
from cometmq.model import properties as keys_of
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from cometmq.offline.columns.pieces import take_text
from cometmq.offline.columns.properties import PropertyColumn
from cometmq.offline.columns.window import Flags, Longs, RecordWindow
from cometmq.store.stored_record import is_directory_name, places_of

ENTRY = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
assert ENTRY.itemsize == QUEUE_ENTRY_SIZE

_KINDS = flags.TRANSACTION_MASK | flags.INNER_BATCH
_MULTI_QUEUES = "INNER_MULTI_DISPATCH"

Entries = npt.NDArray[np.void]


class EntryRun(NamedTuple):
    """Consecutive entries of a queue, as in its files.

    Attributes:
        first: Queue offset of the first entry.
        is_named: Whether messages list the queue in INNER_MULTI_DISPATCH, besides their own; False for light queues.
    """

    topic: str
    queue_id: int
    first: int
    entries: Entries
    is_named: bool = False

    @property
    def end(self) -> int:
        """Queue offset after the last entry."""
        return self.first + len(self.entries)


class QueueRuns:
    """Collects the queue entries of windows of records and returns them by queue.

    Args:
        delay_levels_ms: Delay of each level, ms (messageDelayLevel).
        topics: Only these topics; empty for all.

    Attributes:
        batches: Number of records that are batches of a batch topic; these have no entry here.
    """

    def __init__(self, delay_levels_ms: Sequence[int], topics: Sequence[str] = ()) -> None:
        self._delay_levels_ms = delay_levels_ms
        self._wanted = frozenset(topics)
        # Numbers by topic name, separately for topics that are only named by messages of other topics.
        self._topics: dict[tuple[str, bool], int] = {}
        self._parts: list[tuple[Longs, Longs, Longs, Longs, Longs, Longs]] = []
        self.batches = 0

    def take(self, window: RecordWindow) -> None:
        """Add the wanted queue entries of a window's records; half, rolled-back and inner-batch records have none."""
        kinds = window.sys_flag & _KINDS
        queued = (kinds == 0) | (kinds == flags.TRANSACTION_COMMIT)
        self.batches += int(np.count_nonzero(window.sys_flag & flags.INNER_BATCH))
        if not queued.all():
            window = window.select(queued)
        if not len(window):
            return
        octets = pa.py_buffer(window.buffer)
        topics = self._topic_codes(take_text(octets, window.topic))
        codes, odd = tags_codes(PropertyColumn(take_text(octets, window.properties)))
        odd |= topics == self._topics.get((SCHEDULE_TOPIC, False), -1)
        part = (
            topics,
            window.int32(QUEUE_ID_AT),
            window.queue_offset,
            window.int64(PHYSICAL_OFFSET_AT),
            window.int32(0),
            codes,
        )
        if odd.any():
            self._take_odd(window, odd)
        plain = ~odd & (topics >= 0)
        self._parts.append(part if plain.all() else _kept(part, plain))

    def runs(self) -> Iterator[EntryRun]:
        """Yield all entries as runs, grouped by topic, `is_named` and queue; in log order within a group."""
        if not self._parts:
            return
        topic, queue, offset, at, size, code = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        order = np.lexsort((at, queue, topic))
        topic, queue, offset = topic[order], queue[order], offset[order]
        entries = np.empty(len(order), ENTRY)
        entries["offset"], entries["size"], entries["tags"] = (
            at[order],
            size[order],
            code[order],
        )
        breaks = (
            (np.diff(topic) != 0) | (np.diff(queue) != 0) | (np.diff(offset) != 1)
        ).nonzero()[0] + 1
        names = list(self._topics)
        for first, stop in zip([0, *breaks], [*breaks, len(order)], strict=True):
            if first < stop:
                name, is_named = names[topic[first]]
                number, begin = int(queue[first]), int(offset[first])
                yield EntryRun(name, number, begin, entries[first:stop], is_named)

    def _topic_codes(self, texts: pa.Array) -> Longs:
        """Return a number for each row's topic; -1 if it is not wanted or cannot have a queue."""
        encoded = texts.dictionary_encode()
        numbers = np.array([self._number(name) for name in encoded.dictionary.to_pylist()])
        found: Longs = numbers[np.asarray(encoded.indices)].astype(np.int64)
        return found

    def _number(self, topic: str, *, is_named: bool = False) -> int:
        if not is_directory_name(topic) or (self._wanted and topic not in self._wanted):
            return -1
        return self._topics.setdefault((topic, is_named), len(self._topics))

    def _take_odd(self, window: RecordWindow, odd: Flags) -> None:
        rows = []
        for start in window.starts[odd].tolist():
            record = decode_record(window.buffer, start)
            places = places_of(record, self._delay_levels_ms)
            for place, (topic, queue_id, offset, code) in enumerate(places):
                is_named = place > 0 and not topic.startswith(LMQ_PREFIX)
                number = self._number(topic, is_named=is_named)
                if number >= 0:
                    at, size = record.physical_offset, record.store_size
                    rows.append((number, queue_id, offset, at, size, code))
        if rows:
            self._parts.append(tuple(np.array(rows, np.int64).T))


def tags_codes(properties: PropertyColumn) -> tuple[Longs, Flags]:
    """Return the hash of each row's tag (0 without one), and a mask of rows that may be in further queues."""
    encoded = properties.column(keys_of.TAGS).dictionary_encode()
    names = [name.encode() for name in encoded.dictionary.to_pylist()]
    hashes = np.array([*java_hash_many(names), 0], np.int64)
    indices = encoded.indices.fill_null(len(names))
    light = properties.column(_MULTI_QUEUES)
    odd = pc.is_valid(light).to_numpy(zero_copy_only=False)
    found: Longs = hashes[np.asarray(indices)]
    return found, odd.copy()


def _kept(
    part: tuple[Longs, Longs, Longs, Longs, Longs, Longs], keep: Flags
) -> tuple[Longs, Longs, Longs, Longs, Longs, Longs]:
    topics, queues, offsets, places, sizes, codes = (column[keep] for column in part)
    return topics, queues, offsets, places, sizes, codes


def is_place(topic: str, queue_id: int, offset: int) -> bool:
    """Return whether a store can have this topic, queue id and queue offset."""
    return is_directory_name(topic) and queue_id >= 0 and offset >= 0
