"""Reads the messages of a store as Arrow batches, without Spark."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, in_quotes
from cometmq.offline.choices import SPLIT_BYTES, Mode
from cometmq.offline.columns.schema import stored_schema
from cometmq.offline.conditions import ANY_ROW, LEAST, MOST
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_queues import known_queues_in
from cometmq.offline.plan import LogRange, Task, plan_tasks
from cometmq.offline.pruning import narrowed
from cometmq.offline.rows import RowRules, message_batches

Moment = datetime | int
"""A time: with a time zone, or ms since 1970."""


def read_store(
    path: str | os.PathLike[str] | StoreFolder,
    *,
    topics: Sequence[str] = (),
    queues: Sequence[int] = (),
    start: Moment | None = None,
    end: Moment | None = None,
    columns: Sequence[str] = (),
    mode: str = "PERMISSIVE",
    with_deleted: bool = False,
) -> pa.RecordBatchReader:
    """Return a lazy Arrow reader of a store's messages; `cometmq.offline.read` describes arguments and errors."""
    for name, given in (("topics", topics), ("columns", columns)):
        if isinstance(given, str):
            raise SettingsError(
                f"{name}={in_quotes(given)} must be a list: [{in_quotes(given)}]"
            )
    folder = path if isinstance(path, StoreFolder) else StoreFolder(os.fspath(path))
    schema = stored_schema(columns)
    times = LogRange(start_ms=_ms("start", start), end_ms=_ms("end", end))
    rules = RowRules(
        mode=_mode(mode),
        known=None if with_deleted else known_queues_in(folder),
        topics=tuple(topics),
        queues=tuple(queues),
        range=times,
    )
    first = LEAST if times.start_ms is None else times.start_ms
    last = MOST if times.end_ms is None else times.end_ms - 1
    spared = ANY_ROW.with_bounds("storeTimestamp", first, last)
    tasks = narrowed(folder, plan_tasks(folder, times), spared, split_bytes=SPLIT_BYTES)
    return pa.RecordBatchReader.from_batches(schema, _batches(folder, tasks, schema, rules))


def _batches(
    folder: StoreFolder, tasks: Sequence[Task], schema: pa.Schema, rules: RowRules
) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(message_batches(folder, task, schema, rules) for task in tasks)


def _ms(name: str, moment: Moment | None) -> int | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise SettingsError(
            f"{name}={moment.isoformat()} has no time zone; pass datetime(…, tzinfo=UTC), or ms since 1970"
        )
    return int(moment.timestamp() * 1000)


def _mode(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise SettingsError(f"mode={as_given(text)} is not one of {', '.join(Mode)}") from None
