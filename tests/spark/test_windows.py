"""Windows of time out of a stream."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import stats, trace
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.windows import (
    WINDOW,
    OpenWindows,
    WindowOptions,
    check_follow,
    floor_ms,
)
from tests.spark.conftest import save
from tests.spark.test_jobs import place

slow = pytest.mark.slow
pytestmark = pytest.mark.timeout(240)  # Several queries of Spark each, on whatever machine.


def test_windows_say_what_is_wrong_with_them():
    assert WindowOptions(window="5m").window_ms == 300_000
    assert floor_ms(299_999, 300_000) == 0
    for window in ("soon", "0s"):
        with pytest.raises(SettingsError, match="--window"):
            WindowOptions(window=window).window_ms  # noqa: B018
    with pytest.raises(SettingsError, match="add --window, like 5m, and --to"):
        check_follow(WindowOptions(follow=True, window="5m"), to="")


def counts_in(spark, folder):
    rows = spark.read.parquet(f"{folder}/windows").collect()
    return sorted((int(row.window.timestamp() * 1000), row["count"], row.batch) for row in rows)


@slow
def test_a_window_is_written_when_it_is_over_and_what_is_late_is_not_lost(spark, tmp_path):
    options = WindowOptions(window="10ms", late="5ms", progress="none")

    def frame(*times):
        rows = [(time, time // 10 * 10) for time in times]
        return spark.createDataFrame(rows, f"at BIGINT, {WINDOW} BIGINT")

    with running("test", options, place=str(tmp_path)) as this:
        windows = OpenWindows(
            this,
            str(tmp_path),
            options,
            time=f.col("at"),
            table=lambda rows, over: (
                rows.where(f.col(WINDOW) < over)
                .groupBy(f.timestamp_millis(WINDOW).alias(WINDOW))
                .count()
            ),
            left=lambda rows, over: rows.where(f.col(WINDOW) >= over),
        )
        assert windows.write(frame(1, 9, 12, 14), 0) == {"windows": 0}
        for _ in range(2):  # The second time as after a kill.
            assert windows.write(frame(8, 25), 1) == {"windows": 2}
        name = this.short_id
        assert counts_in(spark, tmp_path) == [(0, 3, f"{name}-1"), (10, 2, f"{name}-1")]
        assert windows.write(frame(3, 36), 2) == {"windows": 2}
        assert counts_in(spark, tmp_path) == [
            (0, 1, f"{name}-2"), (0, 3, f"{name}-1"), (10, 2, f"{name}-1"), (20, 1, f"{name}-2"),
        ]  # fmt: skip
        assert len(list(tmp_path.glob("_open/*"))) == 2


def frames_of(spark, records):
    """Bodies of the trace topic, stored when their records say."""
    rows = [
        (
            ("\x01".join(map(str, each)) + "\x02").encode(),
            datetime.fromtimestamp(at / 1000, UTC),
        )
        for at, each in records
    ]
    return spark.createDataFrame(rows, "body BINARY, storeTimestamp TIMESTAMP")


def pub(at, message, *, ok="true", is_of_4=False):
    end = (ok,) if is_of_4 else ("7F", ok)
    record = ("Pub", at, "R", "PG", "orders", message, "t", "k", "h", 1, 3, 0, *end)
    return at, record


def before(at, message, tries=0):
    return at, ("SubBefore", at, "R", "CG", f"q{message}{tries}", message, tries, "k")


def after(at, message, *, ok="true"):
    return at, ("SubAfter", f"q{message}", message, 5, ok, "k", 0, at, "CG")


@slow
def test_traces_in_windows_say_how_long_a_message_was_on_its_way(spark):
    records = trace.records_of(
        frames_of(
            spark,
            [
                pub(1000, "A"), pub(1500, "B", ok="false", is_of_4=True), pub(9000, "C"),
                before(1040, "A"), before(12_000, "A", tries=1), before(11_000, "C"),
                after(1045, "A", ok="false"), after(12_005, "A"),
            ],
        ),
        window_ms=10_000,
    ).withColumn("isTold", f.lit(False))  # fmt: skip

    def told(rows, over_ms):
        found = trace.over_windows(rows, over_ms).collect()
        return [(row.kind, row["count"], row.failed, row.p50Ms) for row in found]

    assert told(records, 10_000) == [
        ("Pub", 3, 1, 3.0), ("SubAfter", 1, 1, 5.0), ("delivery", 1, 0, 40.0),
    ]  # fmt: skip
    left = trace.still_needed(records, 10_000, horizon_ms=5000)
    assert sorted((row.kind, row.msgId, row.isTold) for row in left.collect()) == [
        ("Pub", "C", True), ("SubAfter", "A", False), ("SubBefore", "A", False),
        ("SubBefore", "C", False),
    ]  # fmt: skip
    # The send of C was told of before; it still says when C was on its way. A is tried again.
    assert told(left, 20_000) == [("SubAfter", 1, 0, 5.0), ("delivery", 1, 0, 2000.0)]


@slow
def test_stats_follow_a_topic_and_count_each_message_in_one_window(
    spark, cluster, topic, tmp_path
):
    given = stats.StatsOptions(
        by="topic,tag,group", window="1ms", late="0s", to=str(tmp_path), **place(cluster, topic)
    )
    groups = stats.groups_of(given)
    rows = spark.range(60).selectExpr("cast(id AS string) AS body", "'t' AS tags")
    for total in (60, 120):
        save(rows, cluster, topic)
        assert stats.follow(spark, given, groups).counts["rows"] == total
        closed = spark.read.parquet(f"{tmp_path}/windows").agg(f.sum("messages")).first()[0]
        newest = max(tmp_path.glob("_open/*"), key=lambda path: path.stat().st_mtime_ns)
        waiting = spark.read.parquet(str(newest)).agg(f.sum("messages")).first()[0]
        assert closed + waiting == total
    # All of it at once: the same windows, and those that are open.
    batch = stats.run(spark, given)
    assert (batch.columns[0], batch.counts["rows"]) == ("window", 120)
    assert spark.read.parquet(f"{tmp_path}/windows").count() >= 1, "a batch leaves it alone"
