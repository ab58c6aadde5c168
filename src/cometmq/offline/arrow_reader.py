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


def read(
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
    """Read the messages of a store's log as Arrow batches, in log order; a broker may have the store open.

    Batches are read lazily. A batch has at most 8,192 rows from at most 8 MiB of the log (64 MiB if it is not on this
    machine), or the messages of one larger record or stored batch; with at most 64 MiB of decompressed bodies plus one
    body.

    Args:
        path: The store directory (storePathRootDir), also Java's: a path, a URI of pyarrow's file systems, or a
            `StoreFolder` if the log is elsewhere (storePathCommitLog).
        topics: Only these topics; empty for all.
        queues: Only queues with these ids; empty for all.
        start: Only messages stored at or after this time: a `datetime` with a time zone, or ms since 1970.
        end: Only messages stored before this time.
        columns: Names from docs/spark/schema.md, `storeFile`, `valid` or `rawRecord`; empty for all but the last.
        mode: Handling of most damage: "PERMISSIVE" warns and returns a row with `valid` false (with `topics` or
            `queues` not for bytes that are no record or readable batch), "DROPMALFORMED" only warns, "FAILFAST" raises.
        with_deleted: Include messages of deleted topics whose records are still in the log. By default they are left
            out, as far as the queue files show which they are.

    Returns:
        A reader of the batches.

    Raises:
        SettingsError: An argument has a wrong value.
        StoreDamaged: There is no readable store, or there is damage; in other modes than "FAILFAST" only rarely.
        OSError: A file cannot be read.
    """
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
