"""Delta tables: what one refuses, and a micro-batch that is committed once however often it comes. No JVM is needed."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    VariantType,
)

from cometmq.model.errors import SettingsError
from cometmq.spark import delta
from cometmq.spark.delta import DeltaTable

QUERY = "6e1f"
ROW = StructType().add("id", LongType()).add("name", StringType())
# Tables of other programs: what they are made with, and what the refusal names.
FOREIGN: dict[str, tuple[StructType, dict[str, Any], str]] = {
    "deletion vectors": (
        ROW,
        {"configuration": {"delta.enableDeletionVectors": "true"}},
        "deletionVectors",
    ),
    "a column that is never null": (
        StructType().add("id", LongType(), nullable=False),
        {},
        "id",
    ),
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))
    return str(folder)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "a table")


def stage(place: str, number: int, *ids: int) -> None:
    """Files of a micro-batch as Spark's tasks write them."""
    folder = Path(place, QUERY, str(number))
    folder.mkdir(parents=True)
    rows = {"id": pa.array(ids, pa.int64()), "name": pa.array(["n"] * len(ids), pa.string())}
    pq.write_table(pa.table(rows), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def ids_in(place: str) -> list[int]:
    return sorted(deltalake.DeltaTable(place).to_pyarrow_table()["id"].to_pylist())


def test_a_batch_is_committed_once_however_often_it_comes(place, checkpoint):
    table = DeltaTable(place, ROW, checkpoint)
    assert not table.has(0)
    stage(place, 0, 1, 2)
    assert ids_in(place) == []  # Staged is not shown.
    table.commit(0)
    table.commit(0)
    again = DeltaTable(place, ROW, checkpoint)  # The next life of the query.
    assert again.has(0)
    again.commit(0)
    assert ids_in(place) == [1, 2]
    stage(place, 1)
    again.commit(1)  # A batch without rows is done, too.
    assert again.has(1)
    assert not again.has(2)


def test_two_queries_number_their_batches_alike_and_do_not_meet(place, checkpoint, tmp_path):
    table = DeltaTable(place, ROW, checkpoint)
    stage(place, 0, 1)
    table.commit(0)
    other = tmp_path / "other"
    other.mkdir()
    (other / "metadata").write_text(json.dumps({"id": "77aa"}))
    assert not DeltaTable(place, ROW, str(other)).has(0)


def test_a_table_gains_columns_and_never_loses_or_changes_one(place, checkpoint):
    table = DeltaTable(place, ROW, checkpoint)
    stage(place, 0, 1)
    table.commit(0)
    more = StructType([*ROW.fields]).add("at", TimestampNTZType())
    DeltaTable(place, more.add("tags", ArrayType(StringType())), checkpoint)
    rows = deltalake.DeltaTable(place).to_pyarrow_table().to_pylist()
    assert rows == [{"id": 1, "name": "n", "at": None, "tags": None}]
    with pytest.raises(
        SettingsError, match="at timestamp_ntz, the schema has no such column; "
    ):
        DeltaTable(place, ROW, checkpoint)
    other = StructType().add("id", IntegerType())
    with pytest.raises(
        SettingsError, match="the table has the column id bigint, the schema has int; "
    ):
        DeltaTable(place, other, checkpoint)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_table_of_another_program_with_rules_of_its_own_is_refused(place, checkpoint, kind):
    columns, made_with, named = FOREIGN[kind]
    schema = deltalake.Schema.from_json(columns.json())
    deltalake.DeltaTable.create(place, schema, **made_with)
    with pytest.raises(
        SettingsError, match=rf"{place} is a Delta table of another .*\({named}\b"
    ):
        DeltaTable(place, ROW, checkpoint)


def test_a_folder_with_anything_else_is_refused(place, checkpoint):
    (Path(place) / "batch=1f0c-0").mkdir(parents=True)
    with pytest.raises(
        SettingsError, match="has batch=1f0c-0 and no Delta table: name another"
    ):
        DeltaTable(place, ROW, checkpoint)


def test_a_log_that_is_damaged_is_one_line_with_its_place(place, checkpoint):
    DeltaTable(place, ROW, checkpoint)
    (log,) = Path(place, "_delta_log").glob("*.json")
    log.write_text("no json\nat all\n")
    with pytest.raises(SettingsError, match="is not a usable Delta table: ") as raised:
        DeltaTable(place, ROW, checkpoint)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "kind",
    [
        VariantType(),
        DayTimeIntervalType(),
        ArrayType(VariantType()),
        StructType().add("v", VariantType()),
    ],
    ids=str,
)
def test_a_type_that_not_all_readers_of_delta_know_is_refused(
    place, checkpoint, kind: DataType
):
    with pytest.raises(
        SettingsError, match=r"^column x(\.v)? .*cannot be written to a Delta table here"
    ):
        DeltaTable(place, StructType().add("x", kind), checkpoint)
    assert not Path(place).exists()


def test_who_has_not_installed_the_package_is_told_how(monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(
        SettingsError, match=r"need the package deltalake; run pip install 'cometmq\[delta\]'"
    ):
        importlib.reload(delta)
