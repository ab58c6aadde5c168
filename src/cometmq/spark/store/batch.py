"""Batch source of the Spark format "rocketmq-store": plans a read of a store's files, and reads their rows in tasks."""

# ruff: noqa: N802  Spark gives these names.

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from cometmq.offline.conditions import ANY_ROW
from cometmq.offline.rows import message_batches
from cometmq.spark import push_down
from cometmq.spark.schema import arrow_schema
from cometmq.spark.store.partitions import StorePartition, plan
from cometmq.spark.store.schema import MESSAGES
from cometmq.spark.store.settings import StoreReadSettings


def store_reader(settings: StoreReadSettings, schema: StructType) -> "StoreReader":
    """Create a batch reader of a store; it accepts filters only for messages and in Spark's push-down step."""
    is_filtered = settings.view == MESSAGES and push_down.is_asked()
    reader = FilteredStoreReader if is_filtered else StoreReader
    return reader(settings, schema)


class StoreReader(DataSourceReader):
    """Batch reader of a store directory: plans the tasks on the driver and reads their rows in executors."""

    def __init__(self, settings: StoreReadSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks from the store's files that exist now; raise CometError or OSError if they cannot be read."""
        return list(plan(self._settings))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a task as Arrow batches; runs in an executor."""
        # If there are no partitions, Spark still runs one task, with a partition of its own class.
        if not isinstance(partition, StorePartition):
            return iter(())
        return rows_of(self._settings, partition, arrow_schema(self._schema))


class FilteredStoreReader(StoreReader):
    """Reader of messages that accepts filters; created only in Spark's push-down step (`push_down.is_asked`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters that help to read fewer messages; return all filters, so that Spark applies them again."""
        rules = replace(
            self._settings.rules, conditions=push_down.conditions_of(filters, ANY_ROW)
        )
        self._settings = replace(self._settings, rules=rules)
        return filters


def rows_of(
    settings: StoreReadSettings, partition: StorePartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Iterate over a task's rows as Arrow batches; raise CometError for damage (of messages by `mode`), or OSError."""
    if settings.view == MESSAGES:
        rules = replace(settings.rules, known=partition.known)
        return message_batches(settings.folder, partition.log, schema, rules)
    from cometmq.spark.store.views import view_rows

    return view_rows(settings, partition, schema)
