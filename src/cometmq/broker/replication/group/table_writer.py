"""Writes the changes of the leader's tables to the log of its group, and snapshots of all tables (docs/design/0068).

The change of a topic is appended when it is made, before records that depend on it, such as messages of a new topic. Other
changes are noted: they are written once per second, or when a request waits for them. Progress, for which no request waits,
is written once per second, a record at a time. A snapshot is due at the start of a
log file, so that older files may be deleted, and when many changes were written since the last one. It is written in
pieces, and changes are written between them: the records from the start of a snapshot to the end of the log have the last
value of each key.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.parts import LastingParts
from cometmq.broker.replication.group.logged_tables import (
    DELETIONS,
    OFFSETS,
    TOPICS,
    delete_queues,
)
from cometmq.broker.tables.deleted_topics import group_of_deletion
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.saving import not_logged
from cometmq.codec.bodies.table_changes import (
    BEGIN_TAG,
    CHANGE_TAG,
    END_TAG,
    TABLES_TOPIC,
    SnapshotPlace,
    encode_changes,
    encode_place,
)
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError, RequestError, StoreReadOnly
from cometmq.model.properties import TAGS
from cometmq.model.topic import TopicConfig
from cometmq.steps.on_loop import RunSteps
from cometmq.steps.steps import Steps, confirmed, turn_end
from cometmq.store.appender import PutResult
from cometmq.store.positions import Durability

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0
# Maximum number of JSON members in the values of a record with more than one key: some 2 ms and 50 KB. A text counts as
# one member for each 25 characters.
_MEMBERS_AT_ONCE = 2_000
_TEXT_SIZE = 25
# A snapshot is due after this many bytes of changes, if it is not larger itself.
_CHANGES_SIZE_MAX = 4 << 20
_TOPIC = TopicConfig(TABLES_TOPIC, 1, 1)

# A changed key: the name of its table, and the key.
Key = tuple[str, str]


class TableLogWriter:
    """Writes the tables of a leader to the log, for one term.

    Attributes:
        touched: Each "topic@group" with commits that are not in the log yet.
    """

    def __init__(
        self,
        parts: LastingParts,
        tables: Iterable[LoggedTable],
        *,
        snapshot: SnapshotPlace | None,
        run: RunSteps,
        leads: Callable[[], bool],
    ) -> None:
        """Write to the log of this broker, as long as `leads` returns that it leads its group in the same term.

        `snapshot` is the last one in the log; `run` runs steps to their end.
        """
        self.touched: set[str] = set()
        self._parts = parts
        self._tables: dict[str, LoggedTable] = {}
        self._lasting = tuple(tables)
        self._snapshot = snapshot
        self._run = run
        self._leads = leads
        self._changed: dict[Key, None] = {}
        self._progress: dict[
            Key, None
        ] = {}  # Changed keys of tables for which no request waits.
        self._deleted: dict[str, int] = {}
        self._end = 0  # Physical offset after the last record.
        self._size = 0  # Of the changes since the snapshot, in bytes.
        self._has_failed = False

    def begin(self) -> None:
        """Write every change from now on; a wait for one ends once a majority has it."""
        topics = self._parts.topics
        self._parts.offsets.lead(self.touched)
        topics.is_logged = True
        topics.deleted.on_note.append(self._note_gone)
        self.join(self._lasting)
        topics.on_change.append(self._append_topic)  # Once it is noted.

    def join(self, tables: Iterable[LoggedTable]) -> None:
        """Write the changes of these tables, too."""
        for table in tables:
            self._tables[table.name] = table
            table.on_change.append(partial(self.note, table.name))
            if table.waiter is not None:
                table.waiter.logged = self.logged

    def stop(self) -> None:
        """Write nothing any more: from now on no change counts as stored by the group."""
        self._leads = lambda: False

    def end(self) -> None:
        """Let later saves not wait for the log; the owner of the callback lists removes the callbacks of `begin`."""
        self._parts.topics.is_logged = False
        for table in self._lasting:
            if table.waiter is not None:
                table.waiter.logged = not_logged

    # --- changes

    def note(self, table: str, key: str) -> None:
        """Note a change; it is written within a second, or earlier with the next one if requests wait for those of its table."""
        noted = self._progress if self._tables[table].waiter is None else self._changed
        noted[table, key] = None

    def _note_gone(self, name: str) -> None:
        """Note that a deleted topic is gone; one record has this and the deletion, as a leader may die between two."""
        if group_of_deletion(name) is None:
            self.note(TOPICS, name)

    def _append_topic(self, _name: str) -> None:
        """Append the changes noted until now; if the store refuses them they are written later, see `logged`."""
        try:
            self._append_changes()
        except CometError:
            return

    def _append_changes(self) -> None:
        """Append the changes that were noted, in their order.

        Raises:
            StoreError, CodecError: The store refuses them now.
        """
        self._check_leads()
        for keys, body in self._bodies(list(self._changed)):
            self._append(CHANGE_TAG, body)
            for table, name in keys:
                del self._changed[table, name]
                if table == DELETIONS and group_of_deletion(name) is None:
                    found = self._parts.topics.deleted.get(name)
                    self._deleted[name] = 0 if found is None else found.end

    def _check_leads(self) -> None:
        if not self._leads():
            raise StoreReadOnly("this broker does not lead its group any more")

    def _bodies(self, keys: Iterable[Key]) -> Iterator[tuple[list[Key], bytes]]:
        """Yield the bodies of records with the current values of these keys, and the keys in each."""
        some: list[Key] = []
        changes: dict[str, dict[str, Mapping[str, object] | None]] = {}
        count = 0
        for table, key in keys:
            value = self._tables[table].value(key)
            changes.setdefault(table, {})[key] = value
            some.append((table, key))
            count += _weight(value or {})
            if count >= _MEMBERS_AT_ONCE:
                yield some, encode_changes(changes)
                some, changes, count = [], {}, 0
        if some:
            yield some, encode_changes(changes)

    def _append(self, tag: str, body: bytes) -> PutResult:
        parts = self._parts
        message = InnerMessage(
            _TOPIC, 0, body, {TAGS: tag}, parts.clock.now_ms(), parts.store.store_host
        )
        (result,) = parts.inner.put(message)
        self._end = result[1] + result[2]
        self._size += result[2]
        return result

    def logged(self) -> "asyncio.Future[None]":
        """Return a future that is done when a majority has all changes until now (`saving.Logged`)."""
        return self._run(self._logged())

    def _logged(self) -> Steps[None]:
        """Wait until a majority has all changes, then delete the queues of topics that were deleted.

        Raises:
            RequestError: No majority has them in time, or the store refuses them.
        """
        try:
            self._append_changes()
            deleted = dict(self._deleted)  # Later deletions are not confirmed by this wait.
            durability = yield from confirmed(self._end)
            self._check_leads()  # Or these bytes may be those of another leader.
        except CometError as error:
            raise _not_logged(f"may not be in the log: {error}") from None
        if durability is not Durability.OK:
            raise _not_logged(f"was {durability.value}")
        for name, end in deleted.items():
            if self._deleted.get(name) == end:  # It was not handled during another wait.
                delete_queues(self._parts.store, name, end)
                del self._deleted[name]
                yield from turn_end()

    # --- each second

    def step(self) -> Steps[float]:
        """Write progress, changes that the store refused, and a snapshot if one is due."""
        try:
            yield from self._write_progress()
            if self._changed:
                self._append_changes()
            if self._is_due():
                yield from self._write_snapshot()
            self._has_failed = False
        except CometError as error:
            if not self._has_failed:
                _log.warning("changes of tables cannot be written to the log now: %s", error)
            self._has_failed = True
        return PERIOD_SECONDS

    def _write_progress(self) -> Steps[None]:
        """Write the offsets that were committed, and the changes of tables for which no request waits."""
        committed = ((OFFSETS, key) for key in self.touched)
        for keys, body in self._bodies([*committed, *self._progress]):
            self._append(CHANGE_TAG, body)
            self.touched.difference_update(key for table, key in keys if table == OFFSETS)
            for each in keys:
                self._progress.pop(each, None)
            yield from turn_end()

    def finish(self) -> Steps[None]:
        """Write all changes a last time, and wait until a majority has them, if this broker still leads."""
        try:
            yield from self._write_progress()
            yield from self._logged()
        except CometError as error:
            _log.info("the last changes of this leader may be missing in the log: %s", error)

    def _is_due(self) -> bool:
        place, store = self._snapshot, self._parts.store
        if place is None or self._size > max(_CHANGES_SIZE_MAX, 2 * place.size):
            return True
        file_size = store.replica_side.file_size
        # One that fills files itself counts from its end, or it would be due again at once.
        at = place.begin + (place.size if 2 * place.size > file_size else 0)
        return at // file_size < store.max_offset // file_size

    def _write_snapshot(self) -> Steps[None]:
        self._size = 0
        first, begin, _ = self._append(
            BEGIN_TAG, encode_changes({name: {} for name in self._tables})
        )
        for _, body in self._bodies(self._keys()):
            self._append(CHANGE_TAG, body)
            yield from turn_end()
        place = SnapshotPlace(first, begin, self._size)
        self._append(END_TAG, encode_place(place))
        if (yield from confirmed(self._end)) is Durability.OK:
            self._snapshot, self._size = place, 0

    def _keys(self) -> Iterator[Key]:
        for name, table in self._tables.items():
            for key in table.all_keys():
                yield name, key


def _weight(value: object) -> int:
    """Return the estimated number of JSON members of a value and all its parts."""
    if isinstance(value, str):
        return 1 + len(value) // _TEXT_SIZE
    if not isinstance(value, dict | list):
        return 1
    parts = value.values() if isinstance(value, dict) else value
    return 1 + len(parts) + sum(_weight(part) for part in parts if type(part) is not int)


def _not_logged(why: str) -> RequestError:
    return RequestError(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"the change {why}; a later leader may lack it. Look at it again, and repeat it if it is missing",
    )
