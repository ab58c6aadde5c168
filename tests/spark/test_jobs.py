"""Jobs as functions, each for real: our broker, one Spark, files."""

import json
from dataclasses import replace

import pytest

from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.spark.jobs import stats, table
from tests.spark.conftest import save
from tests.support.shop_bodies import avro_body, order_descriptors, protobuf_class

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
    assert (report.counts["rows"], report.status) == (300, ExitStatus.WELL)
    assert report.counts["bytes"] > 300 * 91
    assert spark.read.parquet(given.to).count() == 3
    assert manifest(tmp_path / "out", "stats")["status"] == "done"
    save(rows, cluster, topic)
    again = stats.run(spark, given)
    assert again.counts == report.counts
    assert "already complete" in again.notes[0]


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
    with pytest.raises(SettingsError, match=r"cannot group by 'topics'; did you mean 'topic'"):
        stats.run(spark, stats.StatsOptions(by="topics", **place(cluster, topic)))


BODIES = """
    CASE id % 10
      WHEN 3 THEN 'no json'
      WHEN 4 THEN concat('{"id": "x', id, '", "name": "n"}')
      ELSE concat('{"id": ', id, ', "name": "n', id, '", "at": {"x": 1.5}}')
    END AS body
"""
SCHEMA = "id BIGINT, name STRING, at STRUCT<x: DOUBLE>"


def test_a_table_has_typed_rows_and_keeps_what_does_not_fit_with_the_reason(
    spark, cluster, topic, tmp_path
):
    to = str(tmp_path / "table")
    given = table.TableOptions(schema=SCHEMA, to=to, batch_rows=40, **place(cluster, topic))
    save(spark.range(100).selectExpr(BODIES), cluster, topic)
    report = table.run(spark, given)
    assert report.counts["rows"] == 100
    assert report.counts["bad"] == 20
    assert report.status is ExitStatus.FOUND
    read = spark.read.parquet(to)
    assert sorted(row.id for row in read.collect()) == [
        n for n in range(100) if n % 10 not in (3, 4)
    ]
    row = read.where("id = 7").collect()[0]
    assert (row.name, row["at"].x, row._topic) == ("n7", 1.5, topic)
    bad = spark.read.parquet(f"{to}/_bad").groupBy("reason").count().collect()
    reasons = {row.reason: row["count"] for row in bad}
    assert reasons.pop("not JSON") == 10
    assert reasons == {f"id: x{n} cannot be read as bigint": 1 for n in range(4, 100, 10)}

    # A finished range is not touched; what comes later is added.
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert table.run(spark, given).counts == report.counts
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == files
    save(spark.sql('SELECT \'{"id": 1000, "more": true}\' AS body'), cluster, topic)
    wider = replace(given, schema=SCHEMA + ", more BOOLEAN")
    assert table.run(spark, replace(wider, dry_run=True)).counts == {"rows": 1}
    assert table.run(spark, wider).counts["rows"] == 101
    rows = spark.read.option("mergeSchema", "true").parquet(to).where("more").collect()
    assert [row.id for row in rows] == [1000]
    with pytest.raises(
        SettingsError, match="the table has the column id bigint, the schema has string"
    ):
        table.run(spark, replace(given, schema="id STRING"))


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_a_table_of_binary_bodies_has_its_columns_and_keeps_what_does_not_fit(
    spark, cluster, topic, tmp_path, form
):
    schema, message, to = tmp_path / "schema", "", str(tmp_path / "table")
    if form == "avro":
        small = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
        schema.write_text(json.dumps(small))
        bodies = [avro_body(small, {"id": number}) for number in range(50)]
    else:
        schema.write_bytes(order_descriptors())
        message, order = "shop.Order", protobuf_class()
        bodies = [order(id=number, name="n").SerializeToString() for number in range(50)]
    bodies[10] = b"\xff" * 3
    save(spark.createDataFrame([(each,) for each in bodies], "body BINARY"), cluster, topic)
    given = table.TableOptions(
        format=form, schema=str(schema), message=message, to=to, **place(cluster, topic)
    )
    report = table.run(spark, given)
    assert (report.counts["rows"], report.counts["bad"]) == (50, 1)
    read = spark.read.parquet(to)
    assert sorted(row.id for row in read.collect()) == [n for n in range(50) if n != 10]
    if form == "protobuf":
        assert read.where("id = 7").select("name", "note").collect() == [("n", None)]
    (bad,) = spark.read.parquet(f"{to}/_bad").collect()
    assert bytes(bad.body) == bodies[10]
    assert bad.reason.startswith(f"not {form} of this schema (")
