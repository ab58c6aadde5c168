"""Jobs that write Delta tables: every row once, whatever is killed, and what changes rewrites what it is in."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pytest

from cometmq import Message, Producer
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.spark import read_delta
from cometmq.spark.jobs import cdc, compact, table
from tests.spark.conftest import save
from tests.spark.test_jobs import BODIES, SCHEMA, place
from tests.spark.test_jobs_moving import CHANGES
from tests.support.processes import wait_until

pytestmark = pytest.mark.slow

ROWS = 2_000
BATCH_ROWS = 400
PERSON = "id BIGINT, name STRING"


def forget_last_commit(folder: Path) -> None:
    """Spark's checkpoint as a kill leaves it between a batch's transaction and Spark's own note of it."""
    (commits,) = folder.glob("_jobs/*.checkpoint/commits")
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def log_of(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("_delta_log/*.json"))


def test_a_table_has_each_row_once_where_its_last_batch_comes_again(
    spark, cluster, topic, tmp_path
):
    given = table.TableOptions(
        schema=SCHEMA,
        to=str(tmp_path),
        table_format="delta",
        batch_rows=40,
        **place(cluster, topic),
    )
    save(spark.range(100).selectExpr(BODIES), cluster, topic)
    report = table.run(spark, given)
    assert report.counts == {**report.counts, "rows": 100, "bad": 20}
    rows = read_delta(spark, given.to)
    wanted = sorted(n for n in range(100) if n % 10 not in (3, 4))
    assert sorted(row.id for row in rows.collect()) == wanted
    assert [row.at.x for row in rows.where("id = 20").collect()] == [1.5]
    log = log_of(tmp_path)
    forget_last_commit(tmp_path)
    assert table.run(spark, given).counts == report.counts
    assert log_of(tmp_path) == log
    # Any reader of Delta reads it; its times are in UTC.
    seen = deltalake.DeltaTable(given.to).to_pyarrow_table()
    assert sorted(seen["id"].to_pylist()) == wanted
    age = datetime.now(UTC) - max(seen["_storeTimestamp"].to_pylist())
    assert 0 <= age.total_seconds() < 600
    assert spark.read.parquet(str(tmp_path / "_bad")).count() == 20
    wider = replace(given, schema=f"{SCHEMA}, more INT")
    save(spark.sql("""SELECT '{"id": 500, "more": 7}' AS body"""), cluster, topic)
    assert table.run(spark, wider).counts["rows"] == 101
    assert read_delta(spark, given.to).where("more = 7 AND id = 500").count() == 1


def driver(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.timeout(300)
def test_a_driver_that_is_killed_between_and_in_batches_leaves_each_row_once(
    spark, cluster, topic, send, tmp_path
):
    send(0, ROWS)
    to = tmp_path / "table"
    command = [
        sys.executable, "-m", "cometmq.cli", "pipeline", "table", "--topic", topic, "-n", cluster.nameserver,
        "--format", "csv", "--schema", "n BIGINT", "--to", str(to), "--table-format", "delta",
        "--batch-rows", str(BATCH_ROWS), "--master", "local[2]", "--progress", "none",
    ]  # fmt: skip
    # As soon as a batch more is committed, and as soon as files of one lie there that is not.
    for pattern in ("_delta_log/*.json", "*/*/part-*"):
        before = len([*to.glob(pattern)])
        running = driver(command, tmp_path)
        try:
            wait_until(
                lambda: len([*to.glob(pattern)]) > before + 1 or running.poll() is not None,  # noqa: B023
                seconds=90,
                what=pattern,
            )
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    assert 0 < deltalake.DeltaTable(str(to)).count() < ROWS
    done = driver(command, tmp_path)
    assert done.wait(90) == ExitStatus.WELL, (tmp_path / "log").read_text()[-3000:]
    found = [row.n for row in read_delta(spark, str(to)).select("n").collect()]
    assert sorted(found) == list(range(ROWS))


def changes(cluster, topic, *of: object) -> None:
    with Producer(cluster.nameserver) as producer:
        producer.send_many([Message(topic, json.dumps(each).encode()) for each in of])


def people(spark, to: str) -> list[tuple[int, str]]:
    return sorted((row.id, row.name) for row in read_delta(spark, to).collect())


@pytest.fixture
def given(cluster, topic, tmp_path) -> cdc.CdcOptions:
    """A table of people by the changes of the topic."""
    return cdc.CdcOptions(
        schema=PERSON,
        key="id",
        to=str(tmp_path),
        table_format="delta",
        **place(cluster, topic),
    )


def test_cdc_merges_by_key_and_a_batch_that_comes_again_changes_nothing(
    spark, cluster, topic, tmp_path, given
):
    changes(cluster, topic, *CHANGES)
    report = cdc.run(spark, given)
    assert report.counts == {**report.counts, "rows": 6, "keys": 1, "bad": 1}
    assert report.status is ExitStatus.FOUND
    assert report.notes == [f"the table: {tmp_path}"]
    assert people(spark, given.to) == [(1, "a2")]
    log = log_of(tmp_path)
    forget_last_commit(tmp_path)
    assert cdc.run(spark, given).counts == report.counts
    assert log_of(tmp_path) == log
    # A deleted key stays deleted when an older change comes late, and is back with a newer one.
    changes(cluster, topic, {"op": "u", "after": {"id": 2, "name": "late"}, "ts_ms": 12})
    cdc.run(spark, given)
    assert people(spark, given.to) == [(1, "a2")]
    changes(cluster, topic, {"op": "c", "after": {"id": 2, "name": "back"}, "ts_ms": 50})
    assert cdc.run(spark, given).counts["keys"] == 2
    assert people(spark, given.to) == [(1, "a2"), (2, "back")]


def test_a_micro_batch_of_changes_rewrites_the_files_of_its_keys_and_no_others(
    spark, cluster, topic, given
):
    kept: set[str] = set()
    for first in (0, 100, 200):
        before = set(kept)
        named = [{"id": first + n, "name": "n"} for n in range(100)]
        changes(cluster, topic, *({"op": "c", "after": each, "ts_ms": 1} for each in named))
        cdc.run(spark, given)
        kept = set(deltalake.DeltaTable(given.to).file_uris())
        assert before < kept  # New keys rewrite nothing.
    changes(cluster, topic, {"op": "u", "after": {"id": 150, "name": "new"}, "ts_ms": 2})
    assert cdc.run(spark, given).counts["keys"] == 300
    now = set(deltalake.DeltaTable(given.to).file_uris())
    assert len(kept - now) == 1
    assert len(kept & now) >= 2
    assert (150, "new") in people(spark, given.to)


def test_a_place_has_a_table_of_one_form(spark, cluster, topic, tmp_path):
    changes(cluster, topic, {"op": "c", "after": {"id": 1, "name": "a"}, "ts_ms": 1})
    given = cdc.CdcOptions(schema=PERSON, key="id", to="", **place(cluster, topic))
    parquet, delta = (
        replace(given, to=str(tmp_path / form), table_format=form)
        for form in ("parquet", "delta")
    )
    for each in (parquet, delta):
        cdc.run(spark, each)
    with pytest.raises(
        SettingsError,
        match=r"has cometmq_version=\S+ and no Delta table: name another",
    ):
        cdc.run(spark, replace(parquet, table_format="delta"))
    to = delta.to
    rows = table.TableOptions(schema=PERSON, to=to, **place(cluster, topic))
    for job, options in (
        (cdc, replace(delta, table_format="parquet")),
        (table, rows),
        (compact, compact.CompactOptions(to=to, **place(cluster, topic))),
    ):
        with pytest.raises(
            SettingsError, match="is a Delta table: add --table-format delta, or"
        ):
            job.run(spark, options)
    with pytest.raises(
        SettingsError, match="the table has the column id bigint, the schema has no such col"
    ):
        table.run(spark, replace(rows, schema="other INT", table_format="delta"))
    with pytest.raises(SettingsError, match="is not a usable Delta table: "):
        read_delta(spark, parquet.to)
