"""Jobs as functions, each for real: our broker, one Spark, files."""

import json

import pytest

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import stats
from cometmq.spark.jobs.job import Status
from tests.spark.conftest import save

pytestmark = pytest.mark.slow


def place(cluster, topic, **more):
    return {"nameserver": cluster.nameserver, "topic": topic, "progress": "none", **more}


def manifest(folder, job):
    (path,) = (folder / "_jobs").glob(f"{job}-*.json")
    return json.loads(path.read_text())


def test_stats_count_by_tag_and_a_second_run_gives_the_same_answer(
    spark, cluster, topic, tmp_path
):
    rows = spark.range(300).selectExpr(
        "cast(id AS string) AS body", "concat('t', id % 3) AS tags", "'k' AS keys"
    )
    save(rows, cluster, topic)
    given = stats.StatsOptions(by="tag,key", to=str(tmp_path / "out"), **place(cluster, topic))
    report = stats.run(spark, given)
    assert [row[:3] for row in report.rows] == [(f"t{n}", "k", 100) for n in range(3)]
    assert (report.counts["rows"], report.status) == (300, Status.OK)
    assert report.counts["bytes"] > 300 * 91
    assert spark.read.parquet(given.to).count() == 3
    assert manifest(tmp_path / "out", "stats")["status"] == "done"
    save(rows, cluster, topic)
    again = stats.run(spark, given)
    assert again.counts == report.counts
    assert "done already" in again.notes[0]


def test_a_dry_run_says_ranges_and_rows_and_writes_nothing(
    spark, cluster, topic, send, tmp_path
):
    send(0, 40)
    given = stats.StatsOptions(dry_run=True, to=str(tmp_path / "out"), **place(cluster, topic))
    report = stats.run(spark, given)
    assert report.counts == {"rows": 40}
    assert sum(row[-1] for row in report.rows) == 40
    assert not (tmp_path / "out").exists()


def test_stats_refuse_a_group_that_there_is_not(spark, cluster, topic):
    with pytest.raises(SettingsError, match=r"no group 'topics'.*did you mean 'topic'"):
        stats.run(spark, stats.StatsOptions(by="topics", **place(cluster, topic)))
