"""Job "trace": evaluates clients' message traces: times, failures, and messages that were not consumed.

With time windows it summarizes each window; with `follow` it keeps running, writes each window when it is closed, and
does not count unconsumed messages.
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.admin import TraceKind
from cometmq.model.trace import FIELD_END, RECORD_END
from cometmq.offline.place import hadoop_place
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.streaming import counted, drain
from cometmq.spark.jobs.watching import watched_tasks
from cometmq.spark.jobs.windows import (
    WINDOW,
    OpenWindows,
    WindowOptions,
    check_follow,
    duration,
    window_of,
)

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_PERCENTILES = (0.5, 0.95, 0.99)
_MISSING = "null"
_COLUMNS = "body,storeTimestamp"
_FOLLOWED = "trace windows"  # Distinct from a batch run with the same options.
_TOLD = "isTold"

# Positions of the fields in a record of each kind (docs/format/trace.md); field 0 is the kind.
_FIELDS: dict[str, dict[str, int]] = {
    TraceKind.PUB: {"at": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "cost": 10, "ok": 13},
    TraceKind.SUB_BEFORE: {
        "at": 1, "group": 3, "request": 4, "msgId": 5, "tries": 6, "keys": 7,
    },
    TraceKind.SUB_AFTER: {
        "request": 1, "msgId": 2, "cost": 3, "ok": 4, "keys": 5, "at": 7, "group": 8,
    },
}  # fmt: skip
_NAMES = ("at", "group", "topic", "request", "msgId", "keys", "cost", "ok", "tries")
_NUMBERS = ("at", "cost", "tries")
_OK_OF_4 = 12  # Success of a send in 4.x, which writes no offset message id.


@dataclass(frozen=True, kw_only=True)
class TraceOptions(FromOptions, WindowOptions):
    """Options of the job `trace`, which evaluates the message traces of clients."""

    to: str = option("Folder for the trace records; with --follow, for the windows.", "")
    horizon: str = option("With --follow: how long a send waits for its delivery.", "1h")


def run(spark: SparkSession, options: TraceOptions) -> Report:
    """Summarize message traces: sends and consumptions by group, their times and failures, and unconsumed messages.

    The report has the number of unconsumed messages, but not their ids; with `follow` they are not counted.

    Raises:
        SettingsError: An option is invalid, or `follow` is given without a window or folder.
    """
    check_follow(options, options.to)
    given = options if options.topic else replace(options, topic=TRACE_TOPIC)
    if options.follow:
        return follow(spark, given)
    if options.dry_run:
        return plan(given)
    with running("trace", options, place=options.to) as this:
        if this.is_finished:
            return this.earlier()
        planned = plan(given).counts
        this.progress.expect(planned.get("rows"), planned.get("bytes", 0))
        records = records_of(read_batch(spark, given, _COLUMNS), options.window_ms).persist()
        try:
            with watched_tasks(spark, "trace", this.progress):
                report = Report.of_table(summary(records))
                report.counts = {
                    "records": records.count(),
                    "unconsumed": unconsumed(records).count(),
                }
                if options.to:
                    place = f"{hadoop_place(options.to)}/records/run={this.short_id}"
                    records.write.mode("overwrite").parquet(place)
        finally:
            records.unpersist()
        return this.finish(report)


def follow(spark: SparkSession, options: TraceOptions) -> Report:
    """Write a summary of each window's traces once newer traces have closed it; SettingsError if `horizon` is invalid."""
    check_has_driver(spark, options, "trace --follow")
    if options.dry_run:
        return plan(options, read_before(_FOLLOWED, options, options.to))
    horizon_ms = duration(options.horizon, "--horizon", smallest=0)
    with running(_FOLLOWED, options, place=options.to) as this:
        windows = OpenWindows(
            this,
            options.to,
            options,
            # Use the broker's clock, because clients' clocks may be wrong.
            time=f.col("stored"),
            table=over_windows,
            left=lambda rows, over_ms: still_needed(rows, over_ms, horizon_ms),
        )

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(batch)
            records = records_of(whole, options.window_ms)
            added = windows.write(records.withColumn(_TOLD, f.lit(False)), number)  # noqa: FBT003
            return {**seen.get(), **added}

        stream = read_stream(spark, options, rows_max=options.rows_max, columns=_COLUMNS)
        drain(stream, this, options, write)
        return this.report(notes=[f"the windows: {windows.place}"])


def over_windows(records: DataFrame, over_ms: int) -> DataFrame:
    """Return the summary of newly closed windows; sends of other windows are used only for delivery times."""
    fresh = records.where((f.col(WINDOW) < over_ms) & ~f.col(_TOLD))
    return summary(fresh, sends=records)


def still_needed(records: DataFrame, over_ms: int, horizon_ms: int) -> DataFrame:
    """Return the trace records that later micro-batches need.

    These are the records of time windows that are still open, and the sends of the last `horizon_ms`, because a later
    record may show when a consumer received the message.

    Args:
        records: Records of traces with the columns "window" and "isTold" (whether its window was written).
        over_ms: Windows that begin before this time are closed, ms since 1970.
        horizon_ms: How long before `over_ms` a send may have been made to be kept, ms.
    """
    is_over = f.col(WINDOW) < over_ms
    is_young = (f.col("kind") == TraceKind.PUB) & (f.col("at") >= over_ms - horizon_ms)
    left = records.where((~is_over & ~f.col(_TOLD)) | is_young)
    return left.withColumn(_TOLD, f.col(_TOLD) | is_over)


def records_of(messages: DataFrame, window_ms: int = 0) -> DataFrame:
    """Return the records in the bodies of trace messages, one row each; only kinds Pub, SubBefore and SubAfter.

    `at` (by default `stored`) and `stored` are ms since 1970, `cost` is ms. Other fields that a record lacks are null.

    Args:
        messages: Messages with "body" and "storeTimestamp".
        window_ms: Window length in ms, to add the column "window" with the start of the record's window; 0 for none.
    """
    texts = f.split(f.col("body").cast("string"), RECORD_END, -1)
    stored = f.unix_millis("storeTimestamp").alias("stored")
    records = messages.select(f.explode(texts).alias("text"), stored).where("text != ''")
    fields = records.select(f.split("text", FIELD_END, -1).alias("fields"), "stored")
    kinds = fields.select(f.col("fields")[0].alias("kind"), "fields", "stored")
    columns = [_field(name).alias(name) for name in _NAMES]
    typed = kinds.where(f.col("kind").isin(*_FIELDS)).select("kind", *columns, "stored")
    numbers = {name: f.col(name).try_cast("bigint") for name in _NUMBERS}
    # SubAfter records of old clients have no time.
    numbers["at"] = f.coalesce(numbers["at"], f.col("stored"))
    typed = typed.withColumns({**numbers, "ok": f.col("ok") == "true"})
    return typed.withColumn(WINDOW, window_of(f.col("at"), window_ms)) if window_ms else typed


def _field(name: str) -> Column:
    """Return a column with the field `name` of records of any kind; null if it is missing or the text "null"."""
    chosen = f.lit(None).cast("string")
    for kind, places in _FIELDS.items():
        if name in places:
            value = f.try_element_at("fields", f.lit(places[name] + 1))
            if name == "ok" and kind == TraceKind.PUB:
                value = f.coalesce(value, f.try_element_at("fields", f.lit(_OK_OF_4 + 1)))
            chosen = f.when(f.col("kind") == kind, value).otherwise(chosen)
    return f.when(chosen != _MISSING, chosen)


def summary(records: DataFrame, *, sends: DataFrame | None = None) -> DataFrame:
    """Count Pub, SubAfter and "delivery" rows and failures by kind and group, with percentiles of their times in ms.

    "Pub" is the duration of a send, "SubAfter" the listener's time that the client reports for a message, "delivery" the
    time from the start of a send to that of a group's first listener call (with windows, retries do not count).

    Args:
        records: Records to summarize; separately for each window, if they have windows.
        sends: Records in which the sends of deliveries are looked up; None for the same records.
    """
    of = [WINDOW] if WINDOW in records.columns else []
    timed = records.where(f.col("kind") != TraceKind.SUB_BEFORE)
    columns = [*of, "kind", "group", "cost", "ok"]
    rows = timed.select(*columns).unionByName(
        _deliveries(records, records if sends is None else sends, of)
    )
    shares = f.percentile("cost", f.array(*map(f.lit, _PERCENTILES)))
    counts = rows.groupBy(*of, "kind", "group").agg(
        f.count(f.lit(1)).alias("count"),
        f.count_if(~f.col("ok")).alias("failed"),
        shares.alias("ms"),
    )
    names = [f"p{round(share * 100)}Ms" for share in _PERCENTILES]
    percentiles = [f.col("ms")[place].alias(name) for place, name in enumerate(names)]
    begins = [f.timestamp_millis(WINDOW).alias(WINDOW)] if of else []
    return counts.select(*begins, "kind", "group", "count", "failed", *percentiles).orderBy(
        *of, "kind", "group"
    )


def _deliveries(records: DataFrame, sends: DataFrame, of: list[str]) -> DataFrame:
    """Return a row for the first listener call (with windows no retry) of each group and sent message, with the delay, ms."""
    sent = sends.where(f.col("kind") == TraceKind.PUB).groupBy("msgId")
    begun = records.where(f.col("kind") == TraceKind.SUB_BEFORE)
    # A retry in a later window is not a delivery of that window.
    begun = begun.where("tries IS NULL OR tries = 0") if of else begun
    first = begun.groupBy("group", "msgId").agg(
        f.min("at").alias("begun"), *(f.min_by(name, "at").alias(name) for name in of)
    )
    return first.join(sent.agg(f.min("at").alias("sent")), "msgId").select(
        *of,
        f.lit("delivery").alias("kind"),
        "group",
        (f.col("begun") - f.col("sent")).alias("cost"),
        f.lit(True).alias("ok"),  # noqa: FBT003
    )


def unconsumed(records: DataFrame) -> DataFrame:
    """Return the records of successful sends without a record of a successful consumption, by any group."""
    sent = records.where((f.col("kind") == TraceKind.PUB) & f.col("ok"))
    done = records.where((f.col("kind") == TraceKind.SUB_AFTER) & f.col("ok"))
    return sent.join(done.select("msgId"), "msgId", "left_anti")


JOB = Job("trace", TraceOptions, run)
