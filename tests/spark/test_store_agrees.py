"""Three ways to the same messages: a broker asked by the source, its files read by Spark, its files read directly."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from cometmq.offline.found import find_store
from cometmq.offline.log_scan import LogScan
from cometmq.spark.format import RocketMQSource
from cometmq.spark.schema import COLUMNS, arrow_schema, message_schema
from cometmq.spark.store.format import RocketMQStoreSource
from cometmq.store.real_disk import RealDisk
from tests.support import processes
from tests.support.big_store import QUEUES, SETTINGS, TOPICS
from tests.support.offline_steps import STORES
from tests.unit.spark.test_store_jobs import big  # noqa: F401  A fixture.

GOLDEN = {
    "mappedFileSizeCommitLog": 262_144,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 2_000,
}
OURS = {
    "mappedFileSizeCommitLog": SETTINGS.commitlog_file_size,
    "mappedFileSizeConsumeQueue": SETTINGS.queue_file_size,
    "maxHashSlotNum": SETTINGS.index.slots,
    "maxIndexNum": SETTINGS.index.entries,
}
KEY = ("topic", "queueId", "queueOffset")
DIRECT = (*KEY, "storeSize", "bodyCrc")
GOLDEN_TOPICS = {"GoldenOrders", "GoldenPayments", "GoldenDelay", "GoldenTx", "GoldenBatch"}
Row = dict[str, Any]


def ordered(found: pa.Table, topics: set[str]) -> pa.Table:
    """The rows of some topics, by topic, queue and offset."""
    found = found.filter(pc.is_in(found["topic"], value_set=pa.array(sorted(topics))))
    return found.sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def read(source: DataSource) -> pa.Table:
    """What a source gives, without Spark."""
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader: Any = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, arrow_schema(schema))


def direct(store: Path) -> pa.Table:
    """Topic, queue, offset, size and CRC of every message, record by record."""
    found = find_store(str(store), None, RealDisk())
    columns: list[list[Any]] = [[] for _ in range(5)]
    try:
        for records in LogScan(found):
            for r in records:
                row = (r.topic, r.queue_id, r.queue_offset, r.store_size, r.body_crc)
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
    finally:
        found.close()
    return pa.table(
        dict(zip(DIRECT, columns, strict=True)), arrow_schema(message_schema(list(DIRECT)))
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Any]:
    """Serves a copy of a store; gives the nameserver's address."""
    started: list[processes.Program] = []

    def serve(store: Path, settings: dict[str, int], topics: set[str]) -> str:
        root = tmp_path / "broker" / "store"
        shutil.copytree(store, root)
        if not (root / "config" / "topics.json").exists():
            (root / "config").mkdir(exist_ok=True)
            (root / "config" / "topics.json").write_text(json.dumps(table(topics)))
        names = processes.nameserver(tmp_path / "nameserver")
        started.append(names.start())
        broker = processes.broker(tmp_path / "broker", names.address, settings=settings)
        started.append(broker.start())
        return names.address

    yield serve
    for program in reversed(started):
        program.kill()


def table(topics: set[str]) -> Row:
    each = {"perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES}
    return {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0},
        "topicConfigTable": {name: {**each, "topicName": name} for name in topics},
    }


@pytest.mark.timeout(900)  # With --messages 1000000; seconds without.
@pytest.mark.parametrize("name", ["clean", "big"])
def test_source_store_source_and_direct_reading_agree(name, served, request):
    is_golden = name == "clean"
    store = STORES / "clean" / "store" if is_golden else Path(request.getfixturevalue("big"))
    topics = GOLDEN_TOPICS if is_golden else set(TOPICS)
    options = {"path": str(store), "brokerName": "broker-a", "splitBytes": "5000000"}
    by_files = ordered(read(RocketMQStoreSource(options)), topics).select(list(COLUMNS))
    assert by_files.select(list(DIRECT)).equals(ordered(direct(store), topics))
    nameserver = served(store, GOLDEN if is_golden else OURS, topics)
    source = RocketMQSource({"nameServer": nameserver, "subscribe": ",".join(sorted(topics))})
    by_broker = ordered(read(source), topics)
    if is_golden:
        # A delayed message whose time has come is put into its topic when the broker starts.
        last = pc.max(by_files["storeTimestamp"])
        by_broker = by_broker.filter(pc.less_equal(by_broker["storeTimestamp"], last))
    assert by_broker.num_rows == by_files.num_rows > 0
    for column in COLUMNS:
        assert by_broker[column].equals(by_files[column]), column
