"""The batch source of a store: what is there when the read is planned."""

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
    """The reader for whoever called: of messages with filters only where Spark has some to give."""
    is_filtered = settings.view == MESSAGES and push_down.is_asked()
    reader = FilteredStoreReader if is_filtered else StoreReader
    return reader(settings, schema)


class StoreReader(DataSourceReader):
    """Plans and reads a batch.

    Args:
        settings: the options.
        schema: the columns to read.
    """

    def __init__(self, settings: StoreReadSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        return list(plan(self._settings))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, in an executor."""
        # Spark makes one partition without a value of an empty list.
        if not isinstance(partition, StorePartition):
            return iter(())
        return rows_of(self._settings, partition, arrow_schema(self._schema))


class FilteredStoreReader(StoreReader):
    """A reader for a query whose filters Spark tells (`push_down.is_asked`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less where the filters allow it; Spark checks all of them again."""
        rules = replace(
            self._settings.rules, conditions=push_down.conditions_of(filters, ANY_ROW)
        )
        self._settings = replace(self._settings, rules=rules)
        return filters


def rows_of(
    settings: StoreReadSettings, partition: StorePartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a task.

    Raises:
        StoreDamaged: something is broken that the mode does not pass over.
        OSError: a file cannot be read.
    """
    if settings.view == MESSAGES:
        rules = replace(settings.rules, known=partition.known)
        return message_batches(settings.folder, partition.log, schema, rules)
    from cometmq.spark.store.views import view_rows

    return view_rows(settings, partition, schema)
