"""Batch source of the Spark format "rocketmq": a read of topics with fixed start and end offsets."""

# ruff: noqa: N802  Spark gives these names.

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from cometmq.model.queue import MessageQueue
from cometmq.spark import push_down
from cometmq.spark.schema import arrow_schema
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import source_cluster
from cometmq.spark.source.filters import PushedFilters
from cometmq.spark.source.missing import BrokerSilent, check_missing, missing_queues
from cometmq.spark.source.planning import PlannedRange, RangesPartition
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.settings import SourceSettings


def batch_reader(settings: SourceSettings, schema: StructType) -> "RocketMQReader":
    """Create a batch reader of topics; it accepts filters only in Spark's push-down step."""
    reader = FilteredReader if push_down.is_asked() else RocketMQReader
    return reader(settings, schema)


class RocketMQReader(DataSourceReader):
    """Batch reader of topics: plans the tasks on the driver and reads their messages in executors."""

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks, with offsets fixed now; raise CometError, for example if a named topic does not exist.

        A needed broker known to be missing is an error, too, but usually only logged without `failOnDataLoss`.
        """
        settings, cluster = self._settings, source_cluster(self._settings)
        covered = planning.covered_queues(settings.topics, cluster)
        check_missing(
            missing_queues(settings, covered, cluster), settings, wanted=self._filters.queues
        )
        for bound in (settings.starting, settings.ending):
            planning.check_places(bound, covered)
        planning.check_order(settings.starting, settings.ending, covered)
        queues = self._filters.queues(covered)
        covered_ranges = self._between(queues)
        ranges = self._filters.ranges(
            covered_ranges, cluster, is_index_asked=settings.is_index_asked
        )
        tasks: list[InputPartition] = list(planning.partitions(ranges, settings))
        return tasks

    def _between(self, queues: Sequence[MessageQueue]) -> list[PlannedRange]:
        """Return the ranges to read; for an unreachable broker, raise BrokerSilent or, without `failOnDataLoss`, leave it out."""
        settings, cluster = self._settings, source_cluster(self._settings)
        try:
            starts = planning.resolve(settings.starting, queues, cluster)
            ends = planning.resolve(settings.ending, queues, cluster)
        except BrokerSilent as silent:
            if settings.fail_on_data_loss:
                raise
            check_missing(silent.missing, settings)
            away = {each.broker for each in silent.missing}
            return self._between([each for each in queues if each.broker_name not in away])
        return planning.between(starts, ends)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the messages of a task as Arrow batches; runs in an executor."""
        # If there are no partitions, Spark still runs one task, with a partition of its own class.
        ranges = partition.ranges if isinstance(partition, RangesPartition) else ()
        reader = RangePuller(
            source_cluster(self._settings), self._settings, arrow_schema(self._schema)
        )
        return reader.batches(ranges)


class FilteredReader(RocketMQReader):
    """Batch reader that accepts filters; created only in Spark's push-down step, as Spark may reject it elsewhere."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters that help to read fewer messages; return all filters, so that Spark applies them again."""
        self._filters = push_down.conditions_of(filters, PushedFilters())
        self._settings = self._filters.settings(self._settings)
        return filters
