"""The batch source: a read with a fixed beginning and end.

Next: cometmq.spark.source.pull
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cometmq.spark.columns.schema import arrow_schema
from cometmq.spark.source import planning
from cometmq.spark.source.client_cluster import source_cluster
from cometmq.spark.source.planning import RangesPartition
from cometmq.spark.source.pull import RangeReader
from cometmq.spark.source.settings import SourceSettings


class RocketMQReader(DataSourceReader):
    """Plans and reads a batch.

    Args:
        settings: the options.
        schema: the columns to read.
    """

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The tasks; "latest" is resolved here, once, so every task sees the same end."""
        settings, cluster = self._settings, source_cluster(self._settings)
        queues = planning.covered_queues(settings.topics, cluster)
        starts = planning.resolve(settings.starting, queues, cluster)
        ends = planning.resolve(settings.ending, queues, cluster)
        ranges = planning.between(starts, ends)
        tasks: list[InputPartition] = list(planning.partitions(ranges, settings))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a task, in an executor."""
        # Spark makes one partition without a value of an empty list.
        ranges = partition.ranges if isinstance(partition, RangesPartition) else ()
        reader = RangeReader(
            source_cluster(self._settings), self._settings, arrow_schema(self._schema)
        )
        return reader.batches(ranges)
