"""Applies the changes of tables that are in a group's log to the tables of a member (docs/design/0068).

Only committed records are in the queue that is read. A member that has just started, or that led, may have changes that
never were committed. It reads from the last complete snapshot on, and sets its tables to exactly that content.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.codec.bodies.table_changes import (
    END_TAG,
    TABLES_TOPIC,
    Changes,
    SnapshotPlace,
    decode_changes,
    decode_place,
)
from cometmq.codec.record import Record
from cometmq.model.errors import CodecError
from cometmq.model.java_hash import java_hash
from cometmq.model.properties import TAGS
from cometmq.steps.steps import Steps, elsewhere, turn_end
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# Number of entries of the queue that are read together in the search for the last snapshot.
_ENTRIES_AT_ONCE = 4_096
# Number of keys that are applied per iteration of the loop, some 1 ms.
_KEYS_AT_ONCE = 200
_END_CODE = java_hash(END_TAG)


class TableLogReader:
    """Reads the records of a group's tables, and applies them to the tables of this member.

    Attributes:
        snapshot: The place of the last complete snapshot that is known; None if none is.
        has_read: Whether the tables have had the content of the log since the start.
        lasting: The tables that stay when the role of this member changes.
    """

    def __init__(self, store: MessageStore, lasting: Sequence[LoggedTable]) -> None:
        self.snapshot: SnapshotPlace | None = None
        self.has_read = False
        self.lasting = lasting
        self._store = store
        self.apply_to(())
        # Queue offset of the next record; None: the tables may differ from the log.
        self._next: int | None = None

    def apply_to(self, tables: Iterable[LoggedTable]) -> None:
        """Apply changes to these tables, too; they belong to the features of the member's new role."""
        self._tables = (*self.lasting, *tables)
        self._readers = {table.name: table.read for table in self._tables}

    def rewind(self) -> None:
        """Read again from the last snapshot on, because the tables may have changes that are not in the log."""
        self._next = None

    def catch_up(self) -> Steps[None]:
        """Apply all records that are in the queue now. After an error, applied records may be applied again.

        Raises:
            StoreBusy: The log is being truncated.
            OSError: The disk failed.
        """
        queue = self._store.queue(TABLES_TOPIC, 0)
        if queue is None:
            return
        if self._next is None:
            yield from self._read_all(queue)
            return
        cursor = self._cursor(self._next)
        while records := (yield from cursor.next_records()):
            for record in records:
                yield from self._apply(self._changes_of(record))
            self._next = cursor.offset

    def _read_all(self, queue: ConsumeQueue) -> Steps[None]:
        """Read from the last snapshot on, and give the tables of its leader exactly that content.

        Without a snapshot, which is one of the first things in a log, keys that no record has stay as they are; so do those
        of a table that the snapshot does not name, because its leader does not have the feature.
        """
        self.snapshot = None
        self.snapshot = place = yield from self._find_snapshot(queue)
        cursor = self._cursor(queue.min_offset if place is None else place.first)
        content: Changes = {name: {} for name in self._readers}
        of_snapshot = {table.name for table in self.lasting}  # Earlier versions name none.
        while records := (yield from cursor.next_records()):
            for record in records:
                changes = self._changes_of(record)
                for name, values in changes.items():
                    content[name].update(values)
                if place is not None and record.queue_offset == place.first:
                    of_snapshot.update(changes)
                yield from turn_end()
        if place is not None:
            for table in (each for each in self._tables if each.name in of_snapshot):
                missing = set(table.all_keys()).difference(content[table.name])
                content[table.name].update(dict.fromkeys(missing))
        yield from self._apply(content)
        self._next, self.has_read = cursor.offset, True

    def _cursor(self, offset: int) -> QueueCursor:
        return QueueCursor(self._store, TABLES_TOPIC, 0, offset=offset)

    def _find_snapshot(self, queue: ConsumeQueue) -> Steps[SnapshotPlace | None]:
        """Return the place of the last complete snapshot; None without one, or if its first records were deleted."""
        end = yield from elsewhere(partial(self._last_end, queue))
        if end is None:
            return None
        record = yield from self._cursor(end).record_at(end)
        if record is not None:
            self._changes_of(record)
        place = self.snapshot
        return None if place is None or place.first < queue.min_offset else place

    def _last_end(self, queue: ConsumeQueue) -> int | None:
        """Return the queue offset of the last record that ends a snapshot, or None; may block."""
        end = queue.max_offset
        while end > queue.min_offset:
            start = max(queue.min_offset, end - _ENTRIES_AT_ONCE)
            entries = self._store.entries(queue, start, end - start)
            for at in range(len(entries) - 1, -1, -1):
                if entries[at].tags_code == _END_CODE:
                    return start + at
            end = start
        return None

    def _changes_of(self, record: Record) -> Changes:
        """Return the changes in a record; none if it is malformed or ends a snapshot; note where that is."""
        try:
            tag = record.properties().get(TAGS)
            if tag == END_TAG:
                self.snapshot = decode_place(record.body)
                return {}
            return decode_changes(record.body, self._readers)
        except CodecError as error:
            _log.error(
                "the record at physical offset %d in topic %s is ignored: %s",
                record.physical_offset,
                TABLES_TOPIC,
                error,
            )
            return {}

    def _apply(self, changes: Changes) -> Steps[None]:
        for table in self._tables:
            values = iter(changes.get(table.name, {}).items())
            while some := dict(islice(values, _KEYS_AT_ONCE)):
                yield from table.apply(some)
                yield from turn_end()
