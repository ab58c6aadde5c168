"""Converts windows of the log to rows, and handles damage.

| mode | a body that is checked and whose CRC is wrong, or that does not unpack | bytes that are no record, or a batch that does not unpack |
| --- | --- | --- |
| PERMISSIVE | its row, `valid` false (and no body where it does not unpack), a finding | a row with their place and size, `valid` false (not if only some topics or queues are read), a finding |
| DROPMALFORMED | no row, a finding | no row, a finding |
| FAILFAST | an error | an error |
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cometmq.codec.compression import decompress
from cometmq.codec.record import BODY_CRC_AT, PHYSICAL_OFFSET_AT, QUEUE_ID_AT
from cometmq.kernel import crcs_match
from cometmq.model import flags
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.offline.choices import Mode
from cometmq.offline.columns.body import BODY_SIZE_MAX, UNPACKED_SIZE_MAX
from cometmq.offline.columns.inner_batch import unwrapped
from cometmq.offline.columns.names import RAW_RECORD
from cometmq.offline.columns.pieces import (
    BINARY,
    flag_array,
    indices_of,
    number_array,
    replace_rows,
    same,
    take_pieces,
)
from cometmq.offline.columns.window import Flags, RecordPieces, RecordWindow
from cometmq.offline.columns.window_columns import WindowColumns
from cometmq.offline.conditions import ANY_ROW, Conditions
from cometmq.offline.damage import Damage
from cometmq.offline.findings import Finding, OnFinding, warn
from cometmq.offline.folder import StoreFolder
from cometmq.offline.known_queues import KnownQueues
from cometmq.offline.plan import ALL, LogRange, Task
from cometmq.offline.pruning import wanted_rows
from cometmq.offline.scan import SoundRecords, scan

log = logging.getLogger(__name__)

WINDOW_ROWS = 8192
DAY_MS = 86_400_000

_INT_MAX, _INT_MIN = 2**31 - 1, -(2**31)
_WRAPPED = flags.INNER_BATCH | flags.NEED_UNWRAP


@dataclass(frozen=True)
class RowRules:
    """Rules for converting records to rows.

    Attributes:
        mode: Handling of damage.
        is_crc_checked: Whether to check the CRC of every body.
        is_decompressed: Whether to decompress bodies.
        is_json: Whether properties as text are a JSON object instead of their stored form.
        broker_name: Value of the column `brokerName`, which a log does not contain.
        topics: Only these topics; empty for all.
        queues: Only queues with these ids; empty for all.
        is_grouped: Whether to group the rows of a batch by day of storing and topic, each group in log order.
        range: Only records of its times; its offsets are not used.
        conditions: Only records that may meet them; the caller must check the rows again.
        known: Queues by which messages of deleted topics are left out; None to include these messages.
    """

    mode: Mode = Mode.PERMISSIVE
    is_crc_checked: bool = True
    is_decompressed: bool = True
    is_json: bool = False
    broker_name: str = ""
    topics: tuple[str, ...] = ()
    queues: tuple[int, ...] = ()
    is_grouped: bool = False
    range: LogRange = ALL
    conditions: Conditions = ANY_ROW
    known: KnownQueues | None = None


def message_batches(
    folder: StoreFolder,
    task: Task,
    schema: pa.Schema,
    rules: RowRules,
    *,
    on_finding: OnFinding = warn,
) -> Iterator[pa.RecordBatch]:
    """Yield rows for records of a part of the log (task) as Arrow batches with the columns of `schema`, in log order.

    With `is_grouped`, the rows of a batch are grouped. Calls `on_finding` for damage, unless the mode is FAILFAST.

    Raises:
        StoreDamaged: There is damage; usually only if the mode is FAILFAST.
        OSError: A file cannot be read.
    """
    rows = _Rows(schema, rules, on_finding)
    for split in task:
        for found in scan(folder, split):
            if isinstance(found, Damage):
                yield from rows.of_damage(found)
            else:
                yield from rows.of_records(found)
            del found  # So that `scan` can free its piece of the log before it reads the next.


def record_batches(
    found: SoundRecords, schema: pa.Schema, rules: RowRules
) -> Iterator[pa.RecordBatch]:
    """Yield rows for records that were already read, as Arrow batches with the columns of `schema`.

    Raises:
        StoreDamaged: There is damage, and the mode is FAILFAST.
    """
    return _Rows(schema, rules, warn).of_records(found)


class _Rows:
    def __init__(self, schema: pa.Schema, rules: RowRules, on_finding: OnFinding) -> None:
        self._schema = schema
        self._rules = rules
        self._on_finding = on_finding
        self._names = frozenset(schema.names)

    def of_damage(self, damage: Damage) -> Iterator[pa.RecordBatch]:
        """Report damage, or raise it (FAILFAST); yield a row if PERMISSIVE and all topics and queues are read."""
        if self._rules.mode is Mode.FAILFAST:
            raise _failure(str(damage))
        self._on_finding(damage.finding())
        if self._rules.mode is Mode.DROPMALFORMED or self._rules.topics or self._rules.queues:
            return
        values: dict[str, Any] = {
            "commitLogOffset": damage.start,
            "storeSize": min(damage.end - damage.start, _INT_MAX),
            "storeFile": damage.path,
            "valid": False,
        }
        arrays = [pa.array([values.get(field.name)], field.type) for field in self._schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def of_records(self, found: SoundRecords) -> Iterator[pa.RecordBatch]:
        """Yield the rows of those records that the rules ask for, in Arrow batches."""
        window = found.window
        for first in range(0, len(window), WINDOW_ROWS):
            part = window
            if len(window) > WINDOW_ROWS:
                starts = window.starts[first : first + WINDOW_ROWS]
                part = RecordWindow(window.buffer, starts)
            part = self._wanted(part)
            if len(part):
                yield from self._of_part(part, found)

    def _wanted(self, window: RecordWindow) -> RecordWindow:
        rules, keep = self._rules, np.ones(len(window), np.bool_)
        if rules.range.start_ms is not None:
            keep &= window.stored_ms() >= rules.range.start_ms
        if rules.range.end_ms is not None:
            keep &= window.stored_ms() < rules.range.end_ms
        if rules.topics:
            texts = window.topic_texts.to_numpy(zero_copy_only=False)
            keep &= np.isin(texts, rules.topics)
        if rules.queues:
            keep &= np.isin(window.int32(QUEUE_ID_AT), rules.queues)
        if rules.conditions != ANY_ROW:
            keep &= wanted_rows(window, rules.conditions)
        if rules.known is not None:
            keep &= ~_dead(window, rules.known)
        return window if keep.all() else window.select(keep)

    def _of_part(self, window: RecordWindow, found: SoundRecords) -> Iterator[pa.RecordBatch]:
        valid = np.ones(len(window), np.bool_)
        if self._rules.is_crc_checked:
            valid = sound_bodies(window)
            if not valid.all():
                self._judge(window, valid, found, "the CRC of its body is wrong")
                if self._rules.mode is Mode.DROPMALFORMED:
                    window, valid = window.select(valid), valid[valid]
        wrapped = (window.sys_flag & _WRAPPED) == _WRAPPED
        # A raw record is the whole batch, so with it a batch stays one row.
        if not wrapped.any() or RAW_RECORD in self._names:
            yield from self._batches(window, valid, found)
            return
        edges = np.flatnonzero(wrapped | np.concatenate(([False], wrapped[:-1])))
        for rows in np.split(np.arange(len(window)), edges):
            if len(rows):
                run = RecordWindow(window.buffer, window.starts[rows])
                yield from self._unwrapped(run, valid[rows], found, is_batch=wrapped[rows[0]])

    def _unwrapped(
        self, window: RecordWindow, valid: Flags, found: SoundRecords, *, is_batch: bool
    ) -> Iterator[pa.RecordBatch]:
        if is_batch:
            try:
                window = unwrapped(window)
            except CodecError as error:
                start = found.base + int(window.starts[0])
                end = start + int(window.int32(0)[0])
                why = f"the batch of {_place(window, 0)} cannot be decompressed: {error}"
                damage = Damage(start, end, found.path, start - found.start, why)
                yield from self.of_damage(damage)
                return
            valid = np.full(len(window), valid[0])
        yield from self._batches(window, valid, found)

    def _batches(
        self, window: RecordWindow, valid: Flags, found: SoundRecords
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches; a batch ends when its decompressed bodies have exceeded a limit."""
        if self._rules.is_grouped and len(window):
            window, valid = _grouped(window, valid)
        first = 0
        while first < len(window):
            part = window if not first else RecordWindow(window.buffer, window.starts[first:])
            bodies, broken, count = self._bodies(part)
            keep = np.arange(len(part)) < count
            sound = valid[first:].copy()
            if broken:
                sound[broken] = False
                whole = np.ones(len(part), np.bool_)
                whole[broken] = False
                self._judge(part, whole, found, "its body cannot be decompressed")
                if self._rules.mode is Mode.DROPMALFORMED:
                    keep &= whole
            columns = StoreColumns(
                part,
                self._rules.broker_name,
                bodies=bodies,
                is_json=self._rules.is_json,
                valid=sound,
                path=found.path,
            )
            batch = columns.batch(self._schema)
            if not keep.all():
                batch = batch.filter(pa.array(keep))
            if batch.num_rows:
                yield batch
            first += count

    def _bodies(self, window: RecordWindow) -> tuple[pa.Array | None, list[int], int]:
        """Return the bodies (None: no such column), the rows with broken ones, and the number of rows for a batch."""
        if "body" not in self._names:
            return None, [], len(window)
        bodies = take_pieces(pa.py_buffer(window.buffer), window.body, BINARY)
        packed = np.flatnonzero((window.sys_flag & flags.COMPRESSED) != 0)
        if not self._rules.is_decompressed or not len(packed):
            return bodies, [], len(window)
        plain: list[bytes | None] = []
        broken: list[int] = []
        size, count = 0, len(window)
        for row in packed.tolist():
            if size > UNPACKED_SIZE_MAX:
                count = row
                break
            try:
                body = decompress(
                    bodies[row].as_py(), int(window.sys_flag[row]), limit=BODY_SIZE_MAX
                )
            except CodecError as error:
                log.warning("The body of a record cannot be decompressed: %s", error)
                broken.append(row)
                plain.append(None)
            else:
                plain.append(body)
                size += len(body)
        rows = packed[: len(plain)]
        return replace_rows(bodies, rows, pa.array(plain, BINARY)), broken, count

    def _judge(self, window: RecordWindow, sound: Flags, found: SoundRecords, why: str) -> None:
        """Report the records that are not sound: raise StoreDamaged if the mode is FAILFAST, else call `on_finding`."""
        for row in np.flatnonzero(~sound).tolist():
            broken = Finding("log", f"{found.path}: {_place(window, row)}", why)
            if self._rules.mode is Mode.FAILFAST:
                raise _failure(str(broken))
            self._on_finding(broken)


def sound_bodies(window: RecordWindow) -> Flags:
    """Return a mask of the messages whose body has the CRC that is in its record."""
    said = window.int32(BODY_CRC_AT).tobytes()
    spans = window.body.starts.tobytes(), window.body.ends.tobytes()
    sound: Flags = np.frombuffer(crcs_match(window.buffer, *spans, said), np.bool_)
    return sound


def _dead(window: RecordWindow, known: KnownQueues) -> Flags:
    """Return a mask of the records, of which there must be one at least, that are known to be of deleted topics."""
    topics = window.topic_texts.dictionary_encode()
    numbers = window.int32(QUEUE_ID_AT) - _INT_MIN
    queues = indices_of(topics).astype(np.int64) << 32 | numbers
    places = window.int64(PHYSICAL_OFFSET_AT)
    first = int(places.min())
    dead = np.zeros(len(window), np.bool_)
    names = topics.dictionary.to_pylist()
    for queue in number_array(queues).unique().to_pylist():
        name, number = names[queue >> 32], (queue & 0xFFFFFFFF) + _INT_MIN
        if known.may_be_dead(name, number, first):
            rows = np.flatnonzero(queues == queue)
            offsets = window.queue_offset[rows]
            dead[rows] = known.are_dead(name, number, offsets, places[rows])
    return dead


def _grouped(window: RecordWindow, valid: Flags) -> tuple[RecordWindow, Flags]:
    """Group records, and their mask, by day of storing and topic, which costs less than dividing their columns."""
    topics = window.topic_texts.dictionary_encode()
    days = window.stored_ms() // DAY_MS
    groups = indices_of(topics) + (days - days.min()) * len(topics.dictionary)
    if (groups == groups[0]).all():
        return window, valid
    order = np.argsort(groups, kind="stable")
    return window.select(order), valid[order]


def _place(window: RecordWindow, row: int) -> str:
    topic = window.buffer[int(window.topic.starts[row]) : int(window.topic.ends[row])]
    name = bytes(topic).decode("utf-8", "replace")
    queue = f"{name}/{int(window.int32(QUEUE_ID_AT)[row])}"
    return f"the message at offset {int(window.queue_offset[row])} of {queue}"


def _failure(what: str) -> StoreDamaged:
    return StoreDamaged(
        f"{what}. The mode is FAILFAST: PERMISSIVE continues and marks such rows, DROPMALFORMED skips them"
    )


@dataclass(frozen=True)
class StoreColumns(WindowColumns):
    """The Arrow columns of a window of records, including those that only a store has.

    Attributes:
        valid: Mask of the valid records.
        path: The log file.
    """

    valid: Flags | None = None
    path: str = ""

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name == "valid":
            assert self.valid is not None
            return flag_array(self.valid)
        if field.name == "storeFile":
            return same(self.path, len(self.window))
        if field.name == RAW_RECORD:
            ends = self.window.starts + self.window.int32(0)
            return take_pieces(self.octets, RecordPieces(self.window.starts, ends), BINARY)
        return super()._column(field)
