"""Job "compact": keeps the last message or the last few of each key; an empty body deletes the key.

A version of its table has the layout of an archive, so it can be replayed.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.streaming import FlowOptions, counted, drain
from cometmq.spark.jobs.versions import GONE, NewestByKey

_KEYS = ("topic", "keys")


@dataclass(frozen=True, kw_only=True)
class CompactOptions(FromOptions, FlowOptions):
    """Options of the job `compact`, which keeps the last messages of each key as a table."""

    to: str = option("Folder or URI of the table.")
    keep_last: int = option("Number of messages to keep for each key.", 1)


def run(spark: SparkSession, options: CompactOptions) -> Report:
    """Keep the last message of each key in a table; a message with an empty body deletes its key.

    The key is the topic with the whole property KEYS; messages without it are ignored. All messages of a key must be in
    one queue. `keep_last` sets how many messages after the last empty body are kept.

    Raises:
        SettingsError: An option is wrong, or does not fit the folder's table; or the session is of Spark Connect.
    """
    check_has_driver(spark, options, "compact")
    if options.keep_last < 1:
        raise SettingsError(f"--keep-last {options.keep_last}: it must be at least 1")
    if options.dry_run:
        return plan(options, read_before("compact", options, options.to))
    with running("compact", options, place=options.to, is_alone=True) as this:
        table = NewestByKey(
            this,
            options.to,
            _KEYS,
            f.struct("storeTimestamp", "queueOffset"),
            last=options.keep_last,
            split_by=["topic"],
        )
        stream = read_stream(spark, options, rows_max=options.rows_max)
        table.check(spark, stream.schema)

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(batch)
            keyed = whole.where("keys IS NOT NULL").withColumn(GONE, f.length("body") == 0)
            added = table.merge(keyed, number)
            return {**seen.get(), **added}

        drain(stream, this, options, write)
        table.finish(spark)
    return this.report(notes=[f"the table: {table.current}"])


JOB = Job("compact", CompactOptions, run)
