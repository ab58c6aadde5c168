"""`delta_sink` as a program uses it: whose checkpoint it takes, what the log says of files, partitions and merges."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.errors import StreamingQueryException

from cometmq.model.errors import SettingsError
from cometmq.spark import delta_sink, read_delta
from cometmq.spark.delta import file_statistics

pytestmark = pytest.mark.slow


@pytest.fixture
def checkpoint(tmp_path) -> str:
    """What Spark writes of a query before its first micro-batch."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "1234"}')
    return str(tmp_path / "checkpoint")


def rows_of(frame):
    return sorted((row.id, row.day) for row in frame.collect())


def seen_by_delta(place: str) -> list[tuple[int, str | None]]:
    table = deltalake.DeltaTable(place).to_pyarrow_table().select(["id", "day"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_the_checkpoint_of_another_query_is_refused(spark, tmp_path):
    one, other, table = (str(tmp_path / name) for name in ("one", "other", "table"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("a\nb\n")

    def run(place: str) -> None:
        lines = spark.readStream.text(str(tmp_path / "in")).writeStream
        lines = lines.foreachBatch(delta_sink(table, one)).trigger(availableNow=True)
        lines.option("checkpointLocation", place).start().awaitTermination()

    run(one)
    with pytest.raises(StreamingQueryException, match="is the checkpoint of query"):
        run(other)
    assert read_delta(spark, table).count() == 2


def test_rows_are_merged_by_key_into_partitions_that_all_readers_see(
    spark, checkpoint, tmp_path
):
    to = str(tmp_path / "my table")
    sink = delta_sink(to, checkpoint, partition_by=["day"], merge_keys=["id"])
    first = spark.range(0, 9).selectExpr(
        "CAST(id AS INT) AS id", "elt(id % 3 + 1, 'a b', 'ü/%', '2026-01-01') AS day"
    )
    second = spark.range(6, 12).selectExpr("CAST(id AS INT) AS id", "'new' AS day")
    for number, rows in enumerate((first, second, second)):
        sink(rows, min(number, 1))  # The second one comes again.
    wanted = {n: ("a b", "ü/%", "2026-01-01")[n % 3] for n in range(6)}
    wanted |= dict.fromkeys(range(6, 12), "new")
    assert rows_of(read_delta(spark, to)) == seen_by_delta(to) == sorted(wanted.items())
    assert deltalake.DeltaTable(to).version() == 2, (
        "the table, and a transaction for each batch"
    )
    with pytest.raises(
        SettingsError, match=r"2 rows of one micro-batch have the same keys \{'id': 6\}"
    ):
        sink(second.where("id = 6").unionAll(second.where("id < 8")), 2)
    with pytest.raises(SettingsError, match="id is null in 1 row"):
        sink(spark.sql("SELECT CAST(null AS INT) AS id, 'x' AS day"), 2)
    with pytest.raises(SettingsError, match="merge_keys: the rows have no column 'no'"):
        delta_sink(to, checkpoint, partition_by=["day"], merge_keys=["no"])(second, 2)


def test_appended_rows_lie_in_partitions_and_their_files_have_bounds(
    spark, checkpoint, tmp_path
):
    to = str(tmp_path / "table")
    rows = spark.range(0, 10).selectExpr(
        "CAST(id AS INT) AS id", "if(id = 5, null, concat('a/', id % 2)) AS day"
    )
    for _ in range(2):
        delta_sink(to, checkpoint, partition_by=["day"])(rows, 0)
    wanted = [(n, None if n == 5 else f"a/{n % 2}") for n in range(10)]
    assert rows_of(read_delta(spark, to)) == seen_by_delta(to) == wanted
    log = (Path(to) / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    added = [
        json.loads(each["add"]["stats"]) for line in log if "add" in (each := json.loads(line))
    ]
    assert len(added) >= 3
    for bounds in added:
        assert 0 <= bounds["minValues"]["id"] <= bounds["maxValues"]["id"] <= 9
        assert bounds["nullCount"] == {"id": 0}
    with pytest.raises(SettingsError, match="with the partition columns"):
        delta_sink(to, checkpoint)(rows, 1)
    for wrong in (["no"], ["id", "day"]):
        with pytest.raises(SettingsError, match="partition_by"):
            delta_sink(str(tmp_path / "x"), checkpoint, partition_by=wrong)(rows, 0)


def test_statistics_bound_what_json_holds_exactly_and_nothing_else(tmp_path):
    at = datetime(2026, 5, 1, 12, 0, 0, 1, UTC)
    table = pa.table(
        {
            "n": pa.array([3, None, 2**53 + 1], pa.int64()),
            "day": [date(2026, 1, 2), date(2026, 1, 1), None],
            "at": pa.array([at, at, at], pa.timestamp("us", "UTC")),
            "text": ["b", "a", "ü"],
            "long": ["x" * 33, "y", "z"],
            "real": [1.5, float("nan"), 2.5],
            "yes": [True, False, None],
            "none": pa.array([None, None, None], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "file", row_group_size=2)
    assert file_statistics(pq.read_metadata(tmp_path / "file")) == {
        "numRecords": 3,
        "minValues": {"n": 3, "day": "2026-01-01", "at": "2026-05-01T12:00:00.000Z", "text": "a"},
        "maxValues": {
            "n": 2**53 + 1, "day": "2026-01-02", "at": "2026-05-01T12:00:00.001Z", "text": "ü",
        },
        "nullCount": {
            "n": 1, "day": 1, "at": 0, "text": 0, "long": 0, "real": 0, "yes": 1, "none": 3,
        },
    }  # fmt: skip
