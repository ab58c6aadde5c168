"""Two runs at one place, and messages that two runs would read: refused, or both are right."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cometmq import Message
from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import archive, cdc, compact, table
from cometmq.spark.jobs.manifest import RunGoesOn
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.streaming import CountsLost, counted
from tests.spark.test_jobs import place
from tests.support.job_worlds import send

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_any_run_into_a_place_that_one_run_may_write_is_refused_while_one_goes_on(
    spark, cluster, topic, tmp_path
):
    send(cluster, [Message(topic, b"x", keys="k")])
    given = {"to": str(tmp_path / "a place"), **place(cluster, topic)}
    newest = cdc.CdcOptions(schema="id INT", key="id", **given)
    jobs: list[tuple[Callable[[Any, Any], Any], Any]] = [
        (cdc.run, newest),
        (cdc.run, replace(newest, table_format="delta", where="queueOffset >= 0")),
        (compact.run, compact.CompactOptions(keep_last=2, **given)),
        (archive.archive, archive.ArchiveOptions(**given)),
    ]
    with running("compact", compact.CompactOptions(**given), place=given["to"], is_alone=True):
        for run, options in jobs:
            with pytest.raises(RunGoesOn, match=r"another run writes to .*: wait until it has"):
                run(spark, options)


def test_a_topic_comes_into_a_table_while_a_run_of_another_goes_on(
    spark, cluster, topic, tmp_path
):
    send(cluster, [Message(topic, b'{"n": 1}')])
    to = str(tmp_path / "a table")
    given = table.TableOptions(schema="n INT", to=to, **place(cluster, topic))
    with running("table", replace(given, topic="other"), place=to):
        assert table.run(spark, given).counts["rows"] == 1
        with pytest.raises(RunGoesOn):
            table.run(spark, replace(given, topic="other", batch_rows=1))
    assert [row.n for row in spark.read.parquet(to).collect()] == [1]


def test_messages_that_an_earlier_run_put_into_the_table_are_refused_by_the_option(
    spark, cluster, topic, tmp_path
):
    send(cluster, [Message(topic, b'{"n": 1}', tag="a"), Message(topic, b'{"n": 2}', tag="b")])
    given = table.TableOptions(
        schema="n INT", to=str(tmp_path), where="queueOffset < 1", **place(cluster, topic)
    )
    assert table.run(spark, given).counts["rows"] == 1
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    others: list[dict[str, Any]] = [
        {"where": "queueOffset >= 0"},
        {"where": ""},
        {"topic": f"{topic},other"},
        {"tag": "a"},
        {"since": "2020-01-01T00:00"},
        {"until": "2030-01-01T00:00"},
    ]
    for other in others:
        with pytest.raises(SettingsError, match=r"has rows of a run with --.* in it twice"):
            table.run(spark, replace(given, **other))
    assert {path: path.stat().st_mtime_ns for path in files} == files
    # What cannot be the same message may come in.
    (stored,) = spark.read.parquet(str(tmp_path)).collect()
    ms = int(stored._storeTimestamp.timestamp() * 1000) + 1
    early = replace(given, to=f"{tmp_path}/2", where="", until=str(ms + 60_000), tag="a")
    for each in (
        early,
        replace(early, tag="b"),
        replace(early, until="", since=str(ms + 60_000)),
    ):
        table.run(spark, each)
    found = sorted(row.n for row in spark.read.parquet(f"{tmp_path}/2").collect())
    assert found == [1, 2]


def test_counts_that_spark_does_not_deliver_are_an_error_and_no_wait_without_an_end(spark):
    _, seen = counted(spark.range(3))
    with pytest.raises(CountsLost, match=r"did not report its number of rows within 0\.5 s"):
        seen.get(0.5)
    whole, seen = counted(spark.range(3))
    whole.collect()
    assert seen.get() == {"rows": 3, "bytes": 0}
