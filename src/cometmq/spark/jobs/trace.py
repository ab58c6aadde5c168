"""The job "trace": what clients traced, as times, failures and messages that nobody consumed.

Next: cometmq.codec.trace
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.codec.trace import FIELD_END, RECORD_END, TraceKind
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import absolute
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.watching import watched_tasks

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_PERCENTILES = (0.5, 0.95, 0.99)
_MISSING = "null"

# Where a kind's fields stand (docs/format/trace.md); the kind itself is field 0.
_FIELDS: dict[str, dict[str, int]] = {
    TraceKind.PUB: {"at": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "cost": 10, "ok": 13},
    TraceKind.SUB_BEFORE: {"at": 1, "group": 3, "request": 4, "msgId": 5, "keys": 7},
    TraceKind.SUB_AFTER: {
        "request": 1, "msgId": 2, "cost": 3, "ok": 4, "keys": 5, "at": 7, "group": 8,
    },
}  # fmt: skip
_NAMES = ("at", "group", "topic", "request", "msgId", "keys", "cost", "ok")


@dataclass(frozen=True, kw_only=True)
class TraceOptions(FromOptions, JobOptions):
    """Which traces.

    Attributes:
        to: a folder or URI for all records as Parquet; empty: only the summary.
    """

    to: str = option("Write every record as Parquet to this folder, too.", "")


def run(spark: SparkSession, options: TraceOptions) -> Report:
    """Sum up traces: sends and consumptions by group, their times and failures, the unconsumed."""
    given = options if options.topic else replace(options, topic=TRACE_TOPIC)
    if options.dry_run:
        return plan(given)
    with running("trace", options, place=options.to) as this:
        if this.is_finished:
            return this.earlier()
        planned = plan(given).counts
        this.progress.expect(planned.get("rows"), planned.get("bytes", 0))
        records = records_of(read_batch(spark, given, "body,storeTimestamp")).persist()
        try:
            with watched_tasks(spark, "trace", this.progress):
                report = Report.of_table(summary(records))
                report.counts = {
                    "records": records.count(),
                    "unconsumed": unconsumed(records).count(),
                }
                if options.to:
                    place = f"{absolute(options.to)}/records"
                    records.write.mode("overwrite").parquet(place)
        finally:
            records.unpersist()
        return this.finish(report)


def records_of(messages: DataFrame) -> DataFrame:
    """The records in the bodies of the trace topic's messages, a row each.

    `at` is ms since 1970, `cost` ms. What a record's kind has not is null.
    """
    texts = f.split(f.col("body").cast("string"), RECORD_END, -1)
    records = messages.select(f.explode(texts).alias("text")).where("text != ''")
    fields = records.select(f.split("text", FIELD_END, -1).alias("fields"))
    kinds = fields.select(f.col("fields")[0].alias("kind"), "fields")
    columns = [_field(name).alias(name) for name in _NAMES]
    typed = kinds.where(f.col("kind").isin(*_FIELDS)).select("kind", *columns)
    return typed.withColumns(
        {
            "at": f.col("at").try_cast("bigint"),
            "cost": f.col("cost").try_cast("bigint"),
            "ok": f.col("ok") == "true",
        }
    )


def _field(name: str) -> Column:
    """The field with this meaning, wherever it stands in a record of its kind."""
    chosen = f.lit(None).cast("string")
    for kind, places in _FIELDS.items():
        if name in places:
            value = f.try_element_at("fields", f.lit(places[name] + 1))
            chosen = f.when(f.col("kind") == kind, value).otherwise(chosen)
    return f.when(chosen != _MISSING, chosen)


def summary(records: DataFrame) -> DataFrame:
    """By what was done and by which group: how often, failures, and percentiles of ms.

    "Pub" is the time of a send, "SubAfter" that of a listener, "delivery" from the begin of a
    send to the begin of the message's first listener.
    """
    sent = records.where(f.col("kind") == TraceKind.PUB).select(
        "msgId", f.col("at").alias("sent")
    )
    begun = records.where(f.col("kind") == TraceKind.SUB_BEFORE)
    first = begun.groupBy("group", "msgId").agg(f.min("at").alias("begun"))
    delivered = first.join(sent, "msgId").select(
        f.lit("delivery").alias("kind"), "group", (f.col("begun") - f.col("sent")).alias("cost"),
        f.lit(True).alias("ok"),  # noqa: FBT003
    )  # fmt: skip
    timed = records.where(f.col("kind") != TraceKind.SUB_BEFORE)
    rows = timed.select("kind", "group", "cost", "ok").unionByName(delivered)
    shares = f.percentile("cost", f.array(*map(f.lit, _PERCENTILES)))
    counted = rows.groupBy("kind", "group").agg(
        f.count(f.lit(1)).alias("count"),
        f.count_if(~f.col("ok")).alias("failed"),
        shares.alias("ms"),
    )
    names = [f"p{round(share * 100)}Ms" for share in _PERCENTILES]
    percentiles = [f.col("ms")[place].alias(name) for place, name in enumerate(names)]
    return counted.select("kind", "group", "count", "failed", *percentiles).orderBy(
        "kind", "group"
    )


def unconsumed(records: DataFrame) -> DataFrame:
    """Sends whose message no listener has ended with success."""
    sent = records.where((f.col("kind") == TraceKind.PUB) & f.col("ok"))
    done = records.where((f.col("kind") == TraceKind.SUB_AFTER) & f.col("ok"))
    return sent.join(done.select("msgId"), "msgId", "left_anti")


JOB = Job("trace", TraceOptions, run)
