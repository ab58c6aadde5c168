"""The job "compact": of each key the last message; an empty body deletes the key.

Next: cometmq.spark.jobs.versions
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.streaming import FlowOptions, counted, drain
from cometmq.spark.jobs.versions import GONE, NewestByKey

_KEYS = ("topic", "keys")


@dataclass(frozen=True, kw_only=True)
class CompactOptions(FromOptions, FlowOptions):
    """What is compacted, and where to.

    Attributes:
        to: the folder or URI of the table.
    """

    to: str = option("The table's folder or URI.")


def run(spark: SparkSession, options: CompactOptions) -> Report:
    """Keep the last message of each key as a table; one with an empty body deletes its key.

    Messages of one key must be in one queue, as for RocketMQ's compaction topics. Messages without
    a key are left out.
    """
    if options.dry_run:
        return plan(options, read_before("compact", options, options.to))
    with running("compact", options, place=options.to) as this:
        table = NewestByKey(this, options.to, _KEYS, f.struct("storeTimestamp", "queueOffset"))

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(batch)
            keyed = whole.where("keys IS NOT NULL").withColumn(GONE, f.length("body") == 0)
            alive = table.merge(keyed, number)
            before = (
                this.manifest.before if number == this.manifest.batch else this.manifest.counts
            )
            return {**seen.get, "keys": alive - before.get("keys", 0)}

        drain(read_stream(spark, options, rows_max=options.rows_max), this, options, write)
    return Report(counts=this.manifest.counts, notes=[f"the table: {table.current}"])


JOB = Job("compact", CompactOptions, run)
