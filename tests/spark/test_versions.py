"""Tables of the newest by key: what waits for a version, versions, micro-batches that come again, and kills."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs import versions
from cometmq.spark.jobs.compact import CompactOptions
from cometmq.spark.jobs.run import Run, running
from cometmq.spark.jobs.versions import CHANGES_FOLDER, GONE, NewestByKey

pytestmark = pytest.mark.slow

Change = tuple[int, int, str, bool]  # Key, time, value, whether it is deleted.
FIRST: list[Change] = [(key, 0, "old", False) for key in range(50)]
# The second has one key twice, an old change, a new key and a deletion.
SECOND: list[Change] = [
    (1, 5, "a", False),
    (1, 6, "b", False),
    (2, -1, "older", False),
    (60, 5, "new", False),
    (3, 5, "", True),
]
THIRD: list[Change] = [(3, 4, "late", False), (60, 7, "", True), (4, 7, "c", False)]
LEFT = {**dict.fromkeys(range(50), "old"), 1: "b", 4: "c"}
del LEFT[3]


@pytest.fixture
def now() -> list[float]:
    return [0.0]


def table_of(run: Run, folder: Path, now: list[float], last: int = 1) -> NewestByKey:
    order = f.struct("at")
    return NewestByKey(run, str(folder), ["id"], order, last=last, clock=lambda: now[0])


def frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    return spark.createDataFrame(changes, f"id INT, at INT, value STRING, {GONE} BOOLEAN")


def options(folder: Path) -> CompactOptions:
    return CompactOptions(topic="t", to=str(folder), progress="none")


def rows_of(spark: SparkSession, folder: Path, name: str | None) -> list[tuple[int, str]]:
    return sorted(
        (row.id, row.value) for row in spark.read.parquet(f"{folder}/{name}").collect()
    )


def rows_seen(spark: SparkSession, folder: Path) -> list[tuple[int, str]]:
    """What a reader of the whole folder gets, who knows nothing of versions."""
    return rows_of(spark, folder, "")


def take_for_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every table for a large one, and every change for nothing beside it."""
    monkeypatch.setattr(versions, "_SMALL_BYTES", 0)
    monkeypatch.setattr(versions, "_SHARE", 0)


def test_changes_of_a_large_table_wait_and_the_run_ends_with_a_whole_version(
    spark, tmp_path, monkeypatch, now
):
    take_for_large(monkeypatch)
    with running("compact", options(tmp_path), place=str(tmp_path)) as run:
        table = table_of(run, tmp_path, now)
        run.count_batch(0, table.merge(frame(spark, FIRST), 0))
        whole = table.current
        for number, changes in enumerate((SECOND, THIRD), 1):
            run.count_batch(number, table.merge(frame(spark, changes), number))
            assert table.current == whole, "nothing but the changes was written"
        assert rows_of(spark, tmp_path, whole) == [(key, "old") for key in range(50)]
        assert rows_seen(spark, tmp_path) == [(key, "old") for key in range(50)]
        table.finish(spark)
    assert rows_of(spark, tmp_path, table.current) == sorted(LEFT.items())
    assert rows_seen(spark, tmp_path) == sorted(LEFT.items()), "no key twice"
    assert len([*tmp_path.glob("cometmq_version=*")]) == 2
    assert run.manifest.counts["keys"] == len(LEFT)
    assert table.current != whole


def test_a_killed_run_finds_what_waits_and_a_micro_batch_that_comes_again_counts_once(
    spark, tmp_path, monkeypatch, now
):
    take_for_large(monkeypatch)

    def killed() -> None:
        with running("compact", options(tmp_path), place=str(tmp_path)) as run:
            table = table_of(run, tmp_path, now)
            run.count_batch(0, table.merge(frame(spark, FIRST), 0))
            run.count_batch(1, table.merge(frame(spark, SECOND), 1))
            raise InterruptedError("killed")

    with pytest.raises(InterruptedError):
        killed()
    with running("compact", options(tmp_path), place=str(tmp_path)) as run:
        table = table_of(run, tmp_path, now)
        run.count_batch(1, table.merge(frame(spark, SECOND), 1))
        run.count_batch(2, table.merge(frame(spark, THIRD), 2))
        table.finish(spark)
        # Spark had not noted the last one: it comes again behind the version that has it.
        run.count_batch(2, table.merge(frame(spark, THIRD), 2))
        table.finish(spark)
    assert rows_of(spark, tmp_path, table.current) == sorted(LEFT.items())
    assert rows_seen(spark, tmp_path) == sorted(LEFT.items())
    assert run.manifest.counts["keys"] == len(LEFT)


def test_of_several_rows_of_a_key_none_is_doubled_by_waiting(spark, tmp_path, monkeypatch, now):
    take_for_large(monkeypatch)
    with running("compact", options(tmp_path), place=str(tmp_path)) as run:
        table = table_of(run, tmp_path, now, last=2)
        for number, changes in enumerate((FIRST, SECOND, THIRD)):
            run.count_batch(number, table.merge(frame(spark, changes), number))
        table.finish(spark)
    rows = rows_of(spark, tmp_path, table.current)
    assert [value for key, value in rows if key == 1] == ["a", "b"]
    assert [value for key, value in rows if key == 4] == ["c", "old"]
    assert [value for key, value in rows if key in (3, 60)] == []
    assert run.manifest.counts["kept"] == len(rows)


def test_who_reads_the_folder_while_a_version_is_written_again_has_the_one_before(
    spark, tmp_path, monkeypatch, now
):
    folder = tmp_path / "a folder"  # In a URI a space is another.
    with running("compact", options(folder), place=str(folder)) as run:
        table = table_of(run, folder, now)
        run.count_batch(0, table.merge(frame(spark, FIRST), 0))
        run.count_batch(1, table.merge(frame(spark, SECOND), 1))
        second = rows_seen(spark, folder)
        assert dict(second)[1] == "b"
        assert len(second) == len(dict(second))
        seen = []

        def count(alive: DataFrame) -> dict[str, int]:
            """Look when the files of a version are there and it is not the newest yet."""
            seen.append(rows_seen(spark, folder))
            return {"keys": alive.count()}

        monkeypatch.setattr(table, "_counts", count)
        run.count_batch(1, table.merge(frame(spark, SECOND), 1))
    assert seen == [[(key, "old") for key in range(50)]]
    assert rows_seen(spark, folder) == second


def test_a_version_is_made_when_changes_are_a_share_of_it_and_when_it_is_old(
    spark, tmp_path, monkeypatch, now
):
    monkeypatch.setattr(versions, "_SMALL_BYTES", 0)
    with running("compact", options(tmp_path), place=str(tmp_path)) as run:
        table = table_of(run, tmp_path, now)
        run.count_batch(0, table.merge(frame(spark, FIRST), 0))
        made = []
        for number in range(1, 4):
            run.count_batch(number, table.merge(frame(spark, THIRD), number))
            made.append(str(table.current).endswith(f"-{number}"))
        assert made == [False, True, False], "ten times what waited was more than the version"
        monkeypatch.setattr(versions, "_SHARE", 0)
        run.count_batch(4, table.merge(frame(spark, THIRD), 4))
        assert not str(table.current).endswith("-4")
        now[0] = 601.0
        run.count_batch(5, table.merge(frame(spark, SECOND), 5))
        assert str(table.current).endswith("-5")
    assert rows_of(spark, tmp_path, table.current) == sorted(LEFT.items())
    kept = {path.name for path in (tmp_path / CHANGES_FOLDER).iterdir()}
    assert len(kept) == 2, (
        "those between the last two versions, for a micro-batch that comes again"
    )
