"""The job "stats": how many messages, how large, by topic, queue, tag, hour, key or producer.

Next: cometmq.spark.jobs.origin
"""

from dataclasses import dataclass
from math import ceil

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.columns.schema import nearest
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch
from cometmq.spark.jobs.progress import Progress
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.watching import watched_tasks

_COLUMN_OF = {
    "topic": "topic",
    "broker": "brokerName",
    "queue": "queueId",
    "tag": "tags",
    "key": "keys",
    "producer": "bornHost",
    "hour": "storeTimestamp",
    "day": "storeTimestamp",
    "minute": "storeTimestamp",
}
_TIMES = ("minute", "hour", "day")
_SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class StatsOptions(FromOptions, JobOptions):
    """What to count.

    Attributes:
        by: the groups: some of topic, broker, queue, tag, key, producer, minute, hour, day.
        top: the largest groups only; 0: all of them.
        to: a folder for the table as Parquet; empty: the table is only shown.
    """

    by: str = option(
        "Groups: topic, broker, queue, tag, key, producer, minute, hour, day.", "topic"
    )
    top: int = option("Only so many groups, those with the most messages; 0: all.", 0)
    to: str = option("Write the table as Parquet to this folder, too.", "")


def run(spark: SparkSession, options: StatsOptions) -> Report:
    """Count messages and bytes by topic, queue, tag, key, producer or time.

    Raises:
        SettingsError: a group that there is not, or no place to read from.
    """
    groups = _groups(options.by)
    if options.dry_run:
        return plan(options)
    with running("stats", options, place=options.to) as this:
        if this.is_finished:
            return this.earlier()
        return this.finish(_answer(spark, options, groups, this.progress))


def table_of(messages: DataFrame, groups: dict[str, Column]) -> DataFrame:
    """Messages, bytes, sizes and times of each group; the groups with the most messages first.

    `share` is the group's part of all messages: one key or queue with far more than the others
    is what a skewed topic looks like.
    """
    sizes = f.percentile_approx("storeSize", list(_SHARES)).alias("sizes")
    counted = messages.groupBy(*(column.alias(name) for name, column in groups.items())).agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("storeSize").alias("bytes"),
        sizes,
        f.min("storeTimestamp").alias("first"),
        f.max("storeTimestamp").alias("last"),
    )
    return counted.select(
        *groups,
        "messages",
        "bytes",
        *(
            f.col("sizes")[place].alias(f"p{ceil(share * 100)}")
            for place, share in enumerate(_SHARES)
        ),
        "first",
        "last",
    ).orderBy(f.desc("messages"), *groups)


def _groups(by: str) -> dict[str, Column]:
    names = [name.strip() for name in by.split(",") if name.strip()]
    for name in names:
        if name not in _COLUMN_OF:
            raise SettingsError(
                f"--by: there is no group {name!r}{nearest(name, list(_COLUMN_OF))}"
            )
    return {
        name: f.date_trunc(name, "storeTimestamp")
        if name in _TIMES
        else f.col(_COLUMN_OF[name])
        for name in names
    }


def _answer(
    spark: SparkSession, options: StatsOptions, groups: dict[str, Column], progress: Progress
) -> Report:
    columns = dict.fromkeys(
        ["topic", "storeSize", "storeTimestamp", *(_COLUMN_OF[name] for name in groups)]
    )
    # A condition may look at any column.
    wanted = "" if options.where else ",".join(columns)
    planned = plan(options).counts
    progress.expect(planned.get("rows"), planned.get("bytes", 0))
    table = table_of(read_batch(spark, options, wanted), groups)
    with watched_tasks(spark, "stats", progress):
        report = Report.of_table(table.limit(options.top) if options.top else table)
    place = report.columns.index("messages")
    report.counts = {
        "groups": len(report.rows),
        "rows": sum(row[place] for row in report.rows),
        "bytes": sum(row[place + 1] for row in report.rows),
    }
    if options.to:
        spark.createDataFrame(report.rows, table.schema).coalesce(1).write.mode(
            "overwrite"
        ).parquet(options.to)
    return report


JOB = Job("stats", StatsOptions, run)
