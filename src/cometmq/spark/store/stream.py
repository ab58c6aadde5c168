"""Stream of the Spark format "rocketmq-store" over a growing commit log; it reads records known to be durable.

A micro-batch has the wanted records that start between two physical offsets, which the checkpoint holds. Any offset can
be its end, and a repeated batch has the same records, unless topics were deleted. If a broker deletes its oldest files
before the stream has read them, the query fails with an error.
"""

# ruff: noqa: N802  Spark gives these names.

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from cometmq.model.errors import StoreDamaged
from cometmq.offline.log_end import durable_end, used_files
from cometmq.offline.splits import between, cut, joined
from cometmq.spark.schema import arrow_schema
from cometmq.spark.store.batch import rows_of
from cometmq.spark.store.partitions import StorePartition, living_queues
from cometmq.spark.store.settings import StoreReadSettings

_BEGIN = -1  # Stands for the oldest record at the time when the first batch is planned.

Json = dict[str, Any]


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader of a store's log: plans micro-batches on the driver and reads their messages in executors."""

    def __init__(self, settings: StoreReadSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._target: int | None = None  # End offset of an AvailableNow query.
        self._latest: int | None = None

    def initialOffset(self) -> Json:
        """Return the start as a JSON dict: `startingPhysicalOffset`, or -1 for the oldest record at the first batch."""
        start = self._settings.range.start
        return _offset(_BEGIN if start is None else start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the maximum number of bytes of a micro-batch, or no limit."""
        most = self._settings.trigger_bytes_max
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the current durable end of the log, at which the query stops; raise StoreDamaged without a log."""
        self._target = durable_end(self._settings.folder, self._log_start())

    def latestOffset(self, start: Json, limit: ReadLimit | None = None) -> Json:
        """Return the end of the next micro-batch, or `start` if none; StoreDamaged if the log's files end before `start`."""
        begin = _begin(start)
        at = self._log_start() if begin == _BEGIN else begin
        ends = used_files(self._settings.folder)[-1].end
        if at > ends:
            raise StoreDamaged(
                f"{self._settings.folder.place}: the log ends at {ends}, before the position {at} of the stream: "
                "this is another store, or an older copy of it. Use a new checkpoint"
            )
        latest = (
            durable_end(self._settings.folder, at) if self._target is None else self._target
        )
        self._latest = latest
        end = latest
        if isinstance(limit, ReadMaxBytes):
            end = min(end, at + limit.max_bytes)
        return _offset(end, at if begin == _BEGIN else None) if end > at else start

    def reportLatestOffset(self) -> Json | None:
        """Return the end of the log that `latestOffset` used last, for Spark's report of the lag; None before that."""
        return None if self._latest is None else _offset(self._latest)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Plan the tasks that read from `start` to `end`; raise StoreDamaged if the log now begins after `start`."""
        settings = self._settings
        begin = end.get("from", _begin(start))
        if begin == _BEGIN:
            return []  # The log is empty.
        files = used_files(settings.folder)
        if begin < files[0].start:
            raise StoreDamaged(
                f"{settings.folder.place}: the log starts at {files[0].start}, but the stream is at {begin}: the "
                "files in between are deleted. Messages may have been lost; use a new checkpoint and "
                "startingPhysicalOffset, and set archiveGuard or a longer fileReservedTime"
            )
        splits = between(cut(files, settings.split_bytes), begin, _begin(end))
        tasks = joined(splits, settings.split_bytes)
        known = living_queues(settings)
        return [StorePartition(log=task, known=known) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the messages of a task as Arrow batches; runs in an executor."""
        if not isinstance(partition, StorePartition):
            return iter(())
        return rows_of(self._settings, partition, arrow_schema(self._schema))

    def commit(self, end: Json) -> None:
        """Do nothing: the checkpoint holds the offset."""

    def stop(self) -> None:
        """Do nothing: no file stays open."""

    def _log_start(self) -> int:
        return used_files(self._settings.folder)[0].start


def _offset(physical_offset: int, begin: int | None = None) -> Json:
    """Return a physical offset as a JSON dict with keys in a fixed order, because Spark compares offsets as text."""
    first = {} if begin is None else {"from": begin}
    return {**first, "physicalOffset": physical_offset, "v": 1}


def _begin(offset: Json) -> int:
    return int(offset["physicalOffset"])
