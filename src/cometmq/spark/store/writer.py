"""Writer of consume queue files: rows of the view `packed-cq` are written to the positions of their offsets.

Entry n of a queue is at byte 20 n, so rows may come in any order and repeatedly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, in_quotes
from cometmq.offline.lives import WrittenRun
from cometmq.offline.queue_runs import ENTRY, EntryRun, is_place
from cometmq.offline.rebuild import RebuildTarget, finish, write_run
from cometmq.spark.store.schema import VIEWS

_NEEDED = ("topic", "queueId", "queueOffset", "entries")


@dataclass
class WrittenRuns(WriterCommitMessage):
    """Commit message of a task: the runs of consecutive queue entries that it has written."""

    runs: list[WrittenRun]


class QueueWriter(DataSourceArrowWriter):
    """Writer of consume queue files into a local directory; Spark calls it in tasks and on the driver."""

    def __init__(self, target: RebuildTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRuns:
        """Write a task's rows to queue files; raise SettingsError for malformed entries or positions, or OSError."""
        runs: list[WrittenRun] = []
        for batch in iterator:
            names = batch.schema.names
            columns = [batch.column(names.index(name)).to_pylist() for name in _NEEDED]
            rows = zip(*columns, strict=True)
            runs += [write_run(self._target, _run_of(*row)) for row in rows]
        return WrittenRuns(runs)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Complete the files after all tasks: remove entries of deleted topics, write filler into gaps, and sync.

        Raises StoreDamaged if two messages claim one queue offset, and no deletion of their topic between or after them
        is known.
        """
        done = [each.runs for each in messages if isinstance(each, WrittenRuns)]
        finish(self._target, [run for runs in done for run in runs])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the written files remain, and a next attempt can complete them."""


def check_packed(schema: StructType) -> None:
    """Raise SettingsError unless rows have the columns topic, queueId, queueOffset and entries as in view packed-cq."""
    types = {field.name: field.dataType for field in schema.fields}
    for name in _NEEDED:
        wanted = VIEWS["packed-cq"][name]
        if types.get(name) != wanted:
            raise SettingsError(
                f"a store accepts only rows of the view packed-cq: column {in_quotes(name)} must be "
                f'{wanted.simpleString()}; read them with option("view", "packed-cq")'
            )


def _run_of(topic: str, queue_id: int, first: int, entries: bytes) -> EntryRun:
    if not is_place(topic or "", queue_id, first):
        raise SettingsError(
            f"topic {as_given(topic)}, queue {queue_id}, offset {first} is not a position in a queue"
        )
    if not entries or len(entries) % ENTRY.itemsize:
        raise SettingsError(
            f"the {len(entries or b'')} bytes for {topic}/{queue_id} are not a multiple of "
            f"{ENTRY.itemsize}-byte queue entries"
        )
    return EntryRun(topic, queue_id, first, np.frombuffer(entries, ENTRY))
