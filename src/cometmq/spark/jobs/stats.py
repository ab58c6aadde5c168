"""Job "stats": counts messages and bytes by topic, queue, tag, key, producer or time window."""

from dataclasses import dataclass
from math import ceil

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model import properties as keys_of
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.offline.columns.names import nearest
from cometmq.offline.place import hadoop_place
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch, read_stream
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.streaming import counted, drain
from cometmq.spark.jobs.watching import watched_tasks
from cometmq.spark.jobs.windows import (
    WINDOW,
    OpenWindows,
    WindowOptions,
    check_follow,
    window_of,
)
from cometmq.spark.options import words

_COLUMN_OF = {
    "topic": "topic",
    "broker": "brokerName",
    "queue": "queueId",
    "tag": "tags",
    "key": "keys",
    "producer": "bornHost",
    "group": "properties",
    "hour": "storeTimestamp",
    "day": "storeTimestamp",
    "minute": "storeTimestamp",
}
_TIMES = ("minute", "hour", "day")
_FOLLOWED = "stats windows"  # Distinct from a batch run with the same options.
_SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class StatsOptions(FromOptions, WindowOptions):
    """Options of the job `stats`, which counts messages and bytes by topic, queue, tag or other groups."""

    by: str = option(
        "What to group by: any of topic, broker, queue, tag, key, producer, group, minute, hour, day.",
        "topic",
    )
    top: int = option("Only so many rows, those with the most messages; 0: all.", 0)
    to: str = option("Also write the table as Parquet to this folder.", "")


def run(spark: SparkSession, options: StatsOptions) -> Report:
    """Count messages and bytes by topic, broker, queue, tag, key, producer (its host or group) or time.

    Raises:
        SettingsError: An option is invalid, `by` has another word, or no origin, or a store and an archive, were given.
    """
    if options.top < 0:
        raise SettingsError(f"--top {options.top}: it must be at least 0, which means all rows")
    groups = groups_of(options)
    check_follow(options, options.to)
    if options.follow:
        return follow(spark, options, groups)
    if options.dry_run:
        return plan(options)
    with running("stats", options, place=options.to) as this:
        if this.is_finished:
            return this.earlier()
        return this.finish(_answer(spark, options, groups, this))


def follow(spark: SparkSession, options: StatsOptions, groups: dict[str, Column]) -> Report:
    """Count a stream's messages by time window and group; write a window as Parquet once newer messages have closed it."""
    check_has_driver(spark, options, "stats --follow")
    if options.dry_run:
        return plan(options, read_before(_FOLLOWED, options, options.to))
    with running(_FOLLOWED, options, place=options.to) as this:
        windows = OpenWindows(
            this,
            options.to,
            options,
            time=f.unix_millis("last"),
            fold=lambda rows: _folded(rows, groups),
            table=_finished,
            left=lambda rows, over_ms: rows.where(f.col(WINDOW) >= over_ms),
        )

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(batch)
            added = windows.write(_single(whole, options, groups), number)
            return {**seen.get(), **added}

        stream = read_stream(
            spark, options, rows_max=options.rows_max, columns=_columns(options, groups)
        )
        drain(stream, this, options, write)
        return this.report(notes=[f"the windows: {windows.place}"])


def _single(messages: DataFrame, options: StatsOptions, groups: dict[str, Column]) -> DataFrame:
    """Return a row for each message, with its window, groups, bytes and times, that can be summed up."""
    return messages.select(
        window_of(f.unix_millis("storeTimestamp"), options.window_ms),
        *(column.alias(name) for name, column in groups.items() if name != WINDOW),
        f.lit(1).cast("bigint").alias("messages"),
        f.col("storeSize").cast("bigint").alias("bytes"),
        f.col("storeTimestamp").alias("first"),
        f.col("storeTimestamp").alias("last"),
    )


def _folded(rows: DataFrame, groups: dict[str, Column]) -> DataFrame:
    return rows.groupBy(WINDOW, *(name for name in groups if name != WINDOW)).agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
    )


def _finished(rows: DataFrame, over_ms: int) -> DataFrame:
    """Return the rows of closed windows, with the window as a timestamp."""
    over = rows.where(f.col(WINDOW) < over_ms)
    return over.withColumn(WINDOW, f.timestamp_millis(WINDOW))


def table_of(messages: DataFrame, groups: dict[str, Column]) -> DataFrame:
    """Return a row for each combination of the grouping columns' values, those with the most messages first.

    A row has the number of messages, their bytes, about the 50th, 95th and 99th percentile of their stored sizes,
    and the first and last store time. A key or queue with far more messages than the others indicates a skewed topic.

    Args:
        messages: Messages with "storeSize" and "storeTimestamp".
        groups: Columns to group by, such as the topic or the key, under the names that the result has for them.
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


def groups_of(options: StatsOptions) -> dict[str, Column]:
    """Return the grouping columns by name, a window first if one is set; SettingsError if a group or the window is invalid."""
    names = words(options.by)
    for name in names:
        if name not in _COLUMN_OF:
            raise SettingsError(
                f"--by: cannot group by {in_quotes(name)}{nearest(name, list(_COLUMN_OF))}"
            )
    stored, groups = f.col("storeTimestamp"), dict[str, Column]()
    if options.window_ms:
        begin = window_of(f.unix_millis(stored), options.window_ms)
        groups[WINDOW] = f.timestamp_millis(begin)
    for name in names:
        if name in _TIMES:
            groups[name] = f.date_trunc(name, stored)
        elif name == "group":
            groups[name] = f.col("properties")[keys_of.PRODUCER_GROUP]
        else:
            groups[name] = f.col(_COLUMN_OF[name])
    return groups


def _columns(options: StatsOptions, groups: dict[str, Column]) -> str:
    """Return the columns to read, separated by commas; empty, for all, if there is an SQL condition (`where`)."""
    wanted = ["topic", "storeSize", "storeTimestamp"]
    wanted += [_COLUMN_OF[name] for name in groups if name != WINDOW]
    return "" if options.where else ",".join(dict.fromkeys(wanted))


def _answer(
    spark: SparkSession, options: StatsOptions, groups: dict[str, Column], this: Run
) -> Report:
    planned = plan(options).counts
    this.progress.expect(planned.get("rows"), planned.get("bytes", 0))
    table = table_of(read_batch(spark, options, _columns(options, groups)), groups)
    with watched_tasks(spark, "stats", this.progress):
        report = Report.of_table(table.limit(options.top) if options.top else table)
    at = report.columns.index("messages")
    report.counts = {
        "groups": len(report.rows),
        "rows": sum(row[at] for row in report.rows),
        "bytes": sum(row[at + 1] for row in report.rows),
    }
    if options.to:
        # A separate folder, so that nothing else in `to` is overwritten.
        place = f"{hadoop_place(options.to)}/run={this.short_id}"
        rows = spark.createDataFrame(report.rows, table.schema).coalesce(1)
        rows.write.mode("overwrite").parquet(place)
    return report


JOB = Job("stats", StatsOptions, run)
