"""A growing log as a stream, and the format in a real session: read, SQL, write, stream over restarts."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.spark.store.format import RocketMQStoreSource
from cometmq.spark.store.stream import StoreStreamReader
from cometmq.store.message_store import MessageStore
from tests.support.hand_clock import HandClock
from tests.support.store_puts import open_store, put, settle

STORES = Path(__file__).parents[1] / "golden" / "stores"

Json = dict[str, Any]


def stream_of(path: Path, **options: str) -> StoreStreamReader:
    source = RocketMQStoreSource({"path": str(path), "columns": "queueOffset", **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StoreStreamReader)
    return reader


def batch(reader: StoreStreamReader, start: Json, end: Json) -> list[int]:
    found: list[int] = []
    for partition in reader.partitions(start, end):
        for part in reader.read(partition):
            found += part.column(0).to_pylist()
    return found


def grown(store: MessageStore, clock: HandClock, *bodies: bytes) -> None:
    """Messages that are on the device, and said to be."""
    put(store, *bodies)
    settle(store, clock)


def test_every_message_is_in_one_batch_whatever_the_limit_and_none_is_early(tmp_path):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    grown(store, clock, *[b"x" * 500] * 30)
    put(store, b"not on the device yet")
    reader = stream_of(tmp_path, maxBytesPerTrigger="700", splitBytes="900")
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    offset = reader.initialOffset()
    found: list[int] = []
    batches = 0
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        again = stream_of(tmp_path, maxBytesPerTrigger="700", splitBytes="900")
        assert batch(again, offset, end) == batch(reader, offset, end)
        found += batch(reader, offset, end)
        offset = end
        batches += 1
    assert found == list(range(30))
    assert batches > 10
    grown(store, clock, b"and more")
    end = reader.latestOffset(offset, ReadAllAvailable())
    assert batch(reader, offset, end) == [30, 31]
    assert reader.reportLatestOffset() == {"physicalOffset": end["physicalOffset"], "v": 1}
    store.close()


@pytest.mark.parametrize("is_available_now", [False, True])
def test_of_an_empty_log_there_is_nothing_until_a_message_comes(tmp_path, is_available_now):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    grown(store, clock, b"so that there is a file")
    (log,) = (tmp_path / "commitlog").iterdir()
    store.close()
    log.write_bytes(bytes(log.stat().st_size))
    reader = stream_of(tmp_path)
    if is_available_now:
        reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert batch(reader, start, start) == []


def test_available_now_stops_where_the_log_ended_when_it_began(tmp_path):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    grown(store, clock, b"one", b"two")
    reader = stream_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    grown(store, clock, b"three")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert batch(reader, start, end) == [0, 1]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    store.close()


def test_a_start_can_be_named_and_files_deleted_under_a_stream_are_an_error(tmp_path):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    grown(store, clock, *[b"x" * 3900] * 9)
    reader = stream_of(tmp_path, startingPhysicalOffset="1")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert batch(reader, start, end) == list(range(1, 9))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()  # As retention does.
    with pytest.raises(StoreDamaged, match="is at 1: the files in between are deleted"):
        reader.partitions(start, end)
    first = stream_of(tmp_path)
    begin = first.initialOffset()
    end = first.latestOffset(begin, ReadAllAvailable())
    assert batch(first, begin, end)[0] > 0
    store.close()


def test_a_place_that_the_log_has_not_is_an_error_and_no_empty_read(tmp_path):
    clock = HandClock()
    store = open_store(tmp_path, clock=clock)
    grown(store, clock, b"one")
    store.close()
    far = stream_of(tmp_path, startingPhysicalOffset="9999999999")
    with pytest.raises(
        StoreDamaged,
        match="before the position 9999999999 of the stream: this is another store",
    ):
        far.latestOffset(far.initialOffset(), ReadAllAvailable())
    for options, says in [
        ({"startingPhysicalOffset": "9999999999"}, "is beyond the log"),
        (
            {"startingPhysicalOffset": "2", "endingPhysicalOffset": "1"},
            "is after option 'endingPhys",
        ),
        (
            {"startingTimestamp": "1700000000002", "endingTimestamp": "1700000000001"},
            "is after option .endingTimestamp",
        ),
        (
            {"commitLogPath": f"{tmp_path}/commitlog,{tmp_path}/gone"},
            "gone is not a folder; is its",
        ),
    ]:
        with pytest.raises(SettingsError, match=says):
            planned(tmp_path, **options)


def planned(place, **options) -> int:
    source = RocketMQStoreSource({"path": str(place), **options})
    return len(source.reader(source.schema()).partitions())


def test_only_messages_stream_and_a_stream_has_no_end():
    for options, says in [
        ({"view": "index"}, "cannot be read as a stream"),
        ({"endingPhysicalOffset": "5"}, "has no effect for a stream"),
        ({"startingTimestamp": "1700000000"}, "is it in seconds"),
    ]:
        source = RocketMQStoreSource({"path": "x", **options})
        with pytest.raises(SettingsError, match=says):
            source.streamReader(source.schema())


# --- in a session


def test_views_and_sql_in_a_session(spark: SparkSession):
    path = str(STORES / "clean" / "store")
    reader = spark.read.format("rocketmq-store")
    assert reader.option("splitBytes", "200000").load(path).count() == 1245
    spark.sql(
        "CREATE TABLE store_entries USING `rocketmq-store` "
        f"OPTIONS (path '{path}', view 'consumequeue')"
    )
    try:
        row = spark.sql("SELECT count(*), max(queueOffset) FROM store_entries").first()
        assert row is not None
        assert row[0] == 1245
    finally:
        spark.sql("DROP TABLE store_entries")


def test_packed_entries_written_by_spark_are_the_queue_files_of_java(spark, tmp_path):
    source = STORES / "crash" / "store"
    packed = spark.read.format("rocketmq-store").options(view="packed-cq", splitBytes="100000")
    writer = packed.load(str(source)).repartition(3).write.format("rocketmq-store")
    for _ in range(2):  # The second time changes nothing.
        writer.option("queueFileSize", "6000").mode("append").save(str(tmp_path))

    def files(root: Path) -> dict[str, bytes]:
        paths = [path for path in (root / "consumequeue").rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in paths}

    assert files(tmp_path) == files(source)
    with pytest.raises(Exception, match="rows of the view packed-cq"):
        spark.range(3).write.format("rocketmq-store").mode("append").save(str(tmp_path))


def test_a_stream_goes_on_where_its_checkpoint_stands(spark: SparkSession, tmp_path):
    root, out = tmp_path / "store", str(tmp_path / "out")
    shutil.copytree(STORES / "clean" / "store", root)

    def run() -> int:
        rows = spark.readStream.format("rocketmq-store").option("columns", "commitLogOffset")
        query = (
            rows.option("maxBytesPerTrigger", "400000")
            .load(str(root))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(out)
        )
        query.awaitTermination(60)
        return spark.read.parquet(out).count()

    assert run() == 1245
    assert run() == 1245
    assert spark.read.parquet(out).distinct().count() == 1245
