"""`cometmq.offline.read`: a store's messages as Arrow, without Spark and without a broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cometmq import offline
from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.found import find_store
from cometmq.offline.log_scan import LogScan
from cometmq.store.real_disk import RealDisk
from tests.support.big_store import SETTINGS, make_big_store

STORE = Path(__file__).parents[2] / "golden" / "stores" / "clean" / "store"


@pytest.fixture(scope="module")
def records():
    found = find_store(str(STORE), None, RealDisk())
    try:
        return [record for piece in LogScan(found) for record in piece]
    finally:
        found.close()


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
    root = Path(shutil.copytree(STORE, tmp_path / "store", copy_function=shutil.copyfile))
    log = root / "commitlog" / "0".zfill(20)
    log.chmod(0o644)
    content = bytearray(log.read_bytes())
    content[records[7].physical_offset + 88] ^= 1  # In the body.
    log.write_bytes(content)
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
