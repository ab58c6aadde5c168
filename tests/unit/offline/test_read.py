"""`cometmq.offline.read`: a store's messages as Arrow, without Spark and without a broker."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cometmq import offline
from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.place import hadoop_place, open_place, read_path, same_place
from cometmq.spark.jobs.cdc import CdcOptions
from cometmq.spark.jobs.manifest import JobFolder, manifest_id
from tests.support.big_store import SETTINGS, make_big_store
from tests.support.offline_steps import STORES, flip_bit, log_records
from tests.support.store_puts import writable_copy

STORE = STORES / "clean" / "store"


@pytest.fixture(scope="module")
def records():
    return log_records(STORE)


def test_every_message_that_java_stored_is_a_row(records):
    reader = offline.read(STORE)
    assert isinstance(reader, pa.RecordBatchReader)
    table = reader.read_all()
    assert table["topic"].to_pylist() == [record.topic for record in records]
    assert table["commitLogOffset"].to_pylist() == [each.physical_offset for each in records]
    assert pc.all(table["valid"]).as_py()


@pytest.mark.parametrize("queues", [(), (1,), (0, 2)])
@pytest.mark.parametrize("topics", [(), ("GoldenOrders",), ("GoldenOrders", "GoldenBatch")])
def test_topics_and_queues_are_exactly_those_that_are_asked_for(records, topics, queues):
    table = offline.read(STORE, topics=topics, queues=queues, columns=["commitLogOffset"])
    assert table.read_all()["commitLogOffset"].to_pylist() == [
        each.physical_offset
        for each in records
        if (not topics or each.topic in topics) and (not queues or each.queue_id in queues)
    ]


def test_times_are_ms_or_with_a_time_zone_and_the_end_is_not_within(records):
    times = sorted(record.store_timestamp for record in records)
    start, end = times[200], times[-200]
    wanted = [each.physical_offset for each in records if start <= each.store_timestamp < end]
    for first, last in [
        (start, end),
        (datetime.fromtimestamp(start / 1000, UTC), datetime.fromtimestamp(end / 1000, UTC)),
    ]:
        table = offline.read(STORE, start=first, end=last, columns=["commitLogOffset"])
        assert table.read_all()["commitLogOffset"].to_pylist() == wanted


def test_what_is_broken_is_a_row_nothing_or_an_error(tmp_path, records):
    root = writable_copy(STORE, tmp_path / "store")
    flip_bit(root, records[7].physical_offset + 88)  # In the body.
    table = offline.read(root, columns=["valid", "queueOffset"]).read_all()
    assert table["valid"].to_pylist().count(False) == 1
    assert offline.read(root, mode="dropmalformed").read_all().num_rows == len(records) - 1
    with pytest.raises(StoreDamaged, match="the CRC of its body is wrong"):
        offline.read(root, mode="FAILFAST").read_all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": ["bodi"]}, "did you mean 'body'"),
        ({"mode": "lenient"}, "not one of PERMISSIVE"),
        ({"topics": "orders"}, r"\['orders'\]"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_wrong_arguments_are_named_before_anything_is_read(arguments, says):
    with pytest.raises(SettingsError, match=says):
        offline.read(STORE, **arguments)


def test_what_is_no_store_is_said(tmp_path):
    with pytest.raises(StoreDamaged, match="is not a store"):
        offline.read(tmp_path)


def test_a_long_log_is_read_in_little_memory(tmp_path):
    """96 MB of log; a batch is let go before the next is made."""
    make_big_store(tmp_path, 24_000, body_size=4_000, settings=SETTINGS)
    reader = offline.read(tmp_path)
    before, peak, rows = pa.total_allocated_bytes(), 0, 0
    for batch in reader:
        rows += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == 24_000
    assert peak < 40 << 20


def test_neither_spark_nor_a_loop_is_needed():
    program = (
        "import sys; from cometmq import offline; "
        f"print(offline.read({str(STORE)!r}).read_all().num_rows, "
        "sorted({'pyspark', 'asyncio', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split(maxsplit=1) == ["1245", "[]\n"]


SERVER = "?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"


@pytest.mark.parametrize(
    ("given", "one", "for_hadoop"),
    [
        ("s3://b/x", "s3://b/x", "s3a://b/x"),
        ("s3a://b/x", "s3://b/x", "s3a://b/x"),
        ("hdfs://host/x", "hdfs://host/x", "hdfs://host/x"),
        ("file:///a%20b/ü", "file:///a%20b/ü", "/a b/ü"),
        ("/a/b/", "/a/b", "/a/b"),
        ("s3", str(Path("s3").absolute()), str(Path("s3").absolute())),
    ],
)
def test_a_place_has_one_spelling_here_and_one_for_hadoop(given, one, for_hadoop):
    assert same_place(given) == one
    assert hadoop_place(given) == for_hadoop


def test_a_place_that_spark_reads_is_no_pattern():
    assert read_path("/a [1] {b}/what?*") == r"/a \[1\] \{b\}/what\?\*"
    assert read_path("s3://b/x ü%#") == "s3a://b/x ü%#"


def test_both_names_of_s3_are_the_same_place(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    (files, path), (others, other) = (
        open_place(f"{name}://bucket/folder/{SERVER}") for name in ("s3", "s3a")
    )
    assert files.type_name == others.type_name == "s3"
    assert files == others
    assert path == other == "bucket/folder"


def test_a_run_to_s3_is_the_run_to_s3a():
    to = [
        CdcOptions(topic="t", schema="a INT", key="a", to=f"{name}://b/x").what()
        for name in ("s3", "s3a")
    ]
    assert manifest_id("cdc", to[0]) == manifest_id("cdc", to[1])


def test_a_local_place_is_opened_from_where_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, path = open_place("table")
    files.create_dir(path)
    assert (tmp_path / "table").is_dir()
    assert JobFolder("table").place == str(tmp_path / "table")


@pytest.mark.parametrize("place", ["ftp://host/x", "hdfs:///x", "://"])
def test_a_place_that_nobody_knows_is_one_line(place, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingsError) as raised:
        open_place(place)
    text = str(raised.value)
    assert repr(place) in text
    assert "name a path, or a URI such as" in text
    assert "\n" not in text
