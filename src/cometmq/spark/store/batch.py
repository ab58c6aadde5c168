"""The batch source of a store: what is there when the read is planned.

Next: cometmq.spark.store.views
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cometmq.spark.columns.schema import arrow_schema
from cometmq.spark.store.settings import StoreReadSettings
from cometmq.spark.store.views import Work, plan, rows_of


@dataclass
class WorkPartition(InputPartition):
    """One task."""

    work: Work


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
        return [WorkPartition(work) for work in plan(self._settings)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, in an executor."""
        # Spark makes one partition without a value of an empty list.
        if not isinstance(partition, WorkPartition):
            return iter(())
        return rows_of(self._settings, partition.work, arrow_schema(self._schema))
