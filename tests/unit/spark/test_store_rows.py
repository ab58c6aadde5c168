"""Rows of a store: what the codec says of each record; broken ones as the mode says."""

from __future__ import annotations

import pickle
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cometmq.codec.compression import decompress
from cometmq.codec.host import decode_host
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import MAGIC_V2, Record, blank_tail, body_crc, encode_record
from cometmq.model import flags
from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.spark.schema import arrow_schema
from cometmq.spark.store.batch import StoreReader
from cometmq.spark.store.format import RocketMQStoreSource
from cometmq.spark.store.options import READ_OPTIONS, WRITE_OPTIONS
from cometmq.spark.store.schema import VIEWS
from tests.support.offline_steps import STORES, flip_bit, log_records
from tests.support.store_puts import HOST_V4, HOST_V6

ROOT = Path(__file__).parents[3]
FILE = 1 << 16
STORED_MS = 1_700_000_000_000


def rows(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """What a batch read gives, without Spark: every task, pickled on its way."""
    source = RocketMQStoreSource({"path": str(path), **options})
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    assert isinstance(reader, StoreReader)
    batches = [
        batch
        for partition in reader.partitions()
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
    ]
    table = pa.Table.from_batches(batches, arrow_schema(schema))
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def plan(source: RocketMQStoreSource) -> None:
    source.reader(source.schema()).partitions()


def write_log(
    root: Path,
    records: list[Record],
    *,
    start: int = 0,
    size: int = FILE,
    is_full: bool = False,
) -> list[Record]:
    """A log file of a closed store, with these records; gives them as they lie there."""
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    content = b""
    placed = []
    for record in records:
        placed.append(record._replace(physical_offset=start + len(content)))
        content += encode_record(placed[-1])
    if is_full:
        content += blank_tail(size - len(content))
    (root / "commitlog" / f"{start:020d}").write_bytes(content.ljust(size, b"\0"))
    return placed


def message(number: int, body: bytes = b"hello", **fields: Any) -> Record:
    return Record(
        queue_offset=number,
        store_timestamp=STORED_MS + number,
        born_timestamp=STORED_MS,
        born_host=HOST_V4,
        store_host=HOST_V4,
        body=body,
        **{"topic": "orders", "property_block": b"TAGS\1a\2", **fields},
    )


@pytest.mark.parametrize("name", ["clean", "crash"])
@pytest.mark.parametrize("split_bytes", ["200000000", "30000"])
def test_rows_say_what_the_log_of_a_java_broker_says(name, split_bytes):
    root = STORES / name / "store"
    found = rows(root, splitBytes=split_bytes, rawRecord="true")
    records = log_records(root)
    assert [row["commitLogOffset"] for row in found] == [r.physical_offset for r in records]
    for row, record in zip(found, records, strict=True):
        assert row["body"] == decompress(record.body, record.sys_flag, limit=1 << 20)
        assert dict(row["properties"]) == record.properties()
        assert row["rawRecord"] == encode_record(record)
        assert (row["topic"], row["queueId"], row["queueOffset"], row["storeSize"]) == (
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.store_size,
        )
        assert row["bornHost"] == decode_host(record.born_host)
        assert row["storeTimestamp"].timestamp() * 1000 == pytest.approx(record.store_timestamp)
        assert row["valid"] is True
        assert row["storeFile"].endswith(f"{record.physical_offset // 262144 * 262144:020d}")


def test_long_topics_and_addresses_of_ip_six_are_read(tmp_path):
    long = "t" * 200
    placed = write_log(
        tmp_path,
        [
            message(0),
            message(1, topic=long)._replace(store_host=HOST_V6),
            message(2, topic=long)._replace(born_host=HOST_V6, store_host=HOST_V6),
            message(3)._replace(born_host=HOST_V6),
        ],
    )
    content = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    assert content[placed[1].physical_offset + 4 :][:4] == MAGIC_V2.to_bytes(4)
    found = rows(tmp_path)
    assert [row["topic"] for row in found] == ["orders", long, long, "orders"]
    assert [row["bornHost"] for row in found] == [decode_host(r.born_host) for r in placed]
    assert [row["storeHost"] for row in found] == [decode_host(r.store_host) for r in placed]


def test_a_batch_of_a_batch_topic_is_its_messages_and_raw_one_record(tmp_path):
    root = STORES / "kinds" / "store"
    found = rows(root)
    batches = [record for record in log_records(root) if record.sys_flag & flags.INNER_BATCH]
    assert batches
    unpacked = [row for row in found if row["topic"] == batches[0].topic]
    assert len(unpacked) > len(batches)
    assert not any(row["sysFlag"] & flags.INNER_BATCH for row in unpacked)
    raw = rows(root, rawRecord="true")
    assert len(raw) == len(log_records(root))


def test_a_body_with_another_crc_is_marked_dropped_or_an_error(tmp_path):
    placed = write_log(tmp_path, [message(n, b"body-%d" % n) for n in range(5)])
    flip_bit(tmp_path, placed[2].physical_offset + 90)
    found = rows(tmp_path)
    assert [row["valid"] for row in found] == [True, True, False, True, True]
    assert found[2]["body"] != b"body-2"
    assert [r["queueOffset"] for r in rows(tmp_path, mode="DROPMALFORMED")] == [0, 1, 3, 4]
    with pytest.raises(
        StoreDamaged, match="offset 2 of orders/0: the CRC of its body is wrong"
    ):
        rows(tmp_path, mode="failfast")
    assert [row["valid"] for row in rows(tmp_path, verifyCrc="false")] == [True] * 5


def test_bytes_that_are_no_record_are_a_row_nothing_or_an_error(tmp_path):
    placed = write_log(tmp_path, [message(n, b"x" * 50) for n in range(5)])
    hurt = placed[3].physical_offset
    flip_bit(tmp_path, hurt + 5)
    found = rows(tmp_path)
    assert [row["queueOffset"] for row in found] == [0, 1, 2, None, 4]
    assert found[3]["valid"] is False
    assert (found[3]["commitLogOffset"], found[3]["topic"]) == (hurt, None)
    assert found[3]["storeSize"] == placed[4].physical_offset - hurt
    assert [r["queueOffset"] for r in rows(tmp_path, mode="DROPMALFORMED")] == [0, 1, 2, 4]
    with pytest.raises(StoreDamaged, match=f"at byte {hurt} .* no record|UNKNOWN"):
        rows(tmp_path, mode="FAILFAST")


def test_inner_lengths_that_do_not_add_up_are_damage_and_the_next_record_is_read(tmp_path):
    placed = write_log(tmp_path, [message(n, b"x" * 50) for n in range(5)])
    flip_bit(tmp_path, placed[1].physical_offset + 87)  # The body's size.
    found = rows(tmp_path)
    assert [row["queueOffset"] for row in found] == [0, None, 2, 3, 4]
    assert found[1]["storeSize"] == placed[2].physical_offset - placed[1].physical_offset


def test_a_body_that_unpacks_without_bound_costs_one_row(tmp_path):
    bomb = zlib.compress(bytes(80 << 20), 9)
    assert len(bomb) < 100_000
    records = [
        message(0),
        message(1, bomb, sys_flag=flags.COMPRESSED),
        message(2, b"no zlib at all", sys_flag=flags.COMPRESSED),
        message(3, zlib.compress(b"fine"), sys_flag=flags.COMPRESSED),
    ]
    write_log(tmp_path, records, size=1 << 18)
    found = rows(tmp_path)
    assert [row["valid"] for row in found] == [True, False, False, True]
    assert [row["body"] for row in found] == [b"hello", None, None, b"fine"]
    assert [r["queueOffset"] for r in rows(tmp_path, mode="DROPMALFORMED")] == [0, 3]
    with pytest.raises(
        StoreDamaged, match="offset 1 of orders/0: its body cannot be decompressed"
    ):
        rows(tmp_path, mode="FAILFAST")
    stored = rows(tmp_path, decompress="false", mode="FAILFAST")
    assert [row["body"] for row in stored] == [record.body for record in records]
    assert [row["bodyCrc"] for row in stored] == [body_crc(record.body) for record in records]


def test_bodies_that_unpack_to_much_come_in_several_batches(tmp_path):
    big = zlib.compress(bytes(30 << 20), 9)
    packed = [message(number, big, sys_flag=flags.COMPRESSED) for number in range(7)]
    write_log(tmp_path, packed, size=1 << 18)
    source = RocketMQStoreSource({"path": str(tmp_path), "columns": "queueOffset,body"})
    reader = source.reader(source.schema())
    batches: list[Any] = [b for part in reader.partitions() for b in reader.read(part)]
    assert [n for batch in batches for n in batch["queueOffset"].to_pylist()] == list(range(7))
    assert max(batch.nbytes for batch in batches) < 130 << 20


def test_topics_times_and_columns_choose_what_is_read(tmp_path):
    write_log(tmp_path, [message(n, topic="orders" if n % 2 else "other") for n in range(10)])
    found = rows(tmp_path, topics="orders", columns="TOPIC, queueOffset")
    assert found == [{"topic": "orders", "queueOffset": n} for n in (1, 3, 5, 7, 9)]
    times = {"startingTimestamp": str(STORED_MS + 3), "endingTimestamp": str(STORED_MS + 6)}
    assert [row["queueOffset"] for row in rows(tmp_path, **times)] == [3, 4, 5]
    text = rows(tmp_path, propertiesFormat="json", columns="properties")[0]
    assert text == {"properties": '{"TAGS":"a"}'}


def write_two_files(root: Path, *pieces: list[Record]) -> None:
    """A closed store whose log has a file for each list of records."""
    for start, records in zip(range(0, 2 * FILE, FILE), pieces, strict=True):
        write_log(root, records, start=start, is_full=True)


@pytest.mark.parametrize(
    ("times", "found"),
    [({"startingTimestamp": 35_000}, [1, 4]), ({"endingTimestamp": 20_000}, [0, 3])],
)
def test_a_clock_that_was_set_back_between_two_files_hides_no_message(tmp_path, times, found):
    stored = enumerate((0, 40_000, 30_000, 10_000, 50_000))
    at = [message(n)._replace(store_timestamp=STORED_MS + ms) for n, ms in stored]
    write_two_files(tmp_path, at[:2], at[2:])
    wanted = {name: str(STORED_MS + ms) for name, ms in times.items()}
    assert [row["queueOffset"] for row in rows(tmp_path, **wanted)] == found


def test_a_batch_that_cannot_be_decompressed_is_named_with_its_place_in_its_file(tmp_path):
    broken = message(
        1, b"no zlib", sys_flag=flags.INNER_BATCH | flags.NEED_UNWRAP | flags.COMPRESSED
    )
    write_two_files(tmp_path, [message(0)], [broken])
    with pytest.raises(StoreDamaged) as caught:
        rows(tmp_path, mode="FAILFAST")
    said = str(caught.value)
    assert said.count(f"{FILE:020d}") == 1
    assert f"at byte 0 (physical offset {FILE})" in said
    assert "the batch of the message at offset 1 of orders/0 cannot be decompressed" in said


def test_each_view_shows_what_java_wrote():
    root = STORES / "clean" / "store"
    records = log_records(root)
    views = {view: rows(root, view=view) for view in VIEWS}
    entries = views["consumequeue"]
    assert len(entries) == len(records)
    sizes = {record.physical_offset: record.store_size for record in records}
    assert {row["commitLogOffset"]: row["storeSize"] for row in entries} == sizes
    assert len(views["index"]) == 2359
    assert {row["commitLogOffset"] for row in views["index"]} <= sizes.keys()
    packed = views["packed-cq"]
    assert sum(row["messages"] for row in packed) == len(records)
    assert all(len(row["entries"]) == 20 * row["messages"] for row in packed)
    verdict = views["verify"]
    assert sum(row["messages"] for row in verdict) == len(records)
    assert not any(row["isError"] for row in verdict)
    assert {row["kind"] for row in views["files"]} == {"commitlog", "consumequeue", "index"}
    assert "GoldenOrders" in {row["topic"] for row in views["topics"]}
    assert {row["group"] for row in views["offsets"]} >= {"golden_consumer"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "option 'path' is required"),
        ({"path": "x", "vieww": "index"}, "did you mean 'view'"),
        ({"path": "x", "view": "queue"}, "not one of messages, consumequeue"),
        ({"path": "x", "mode": "lenient"}, "not one of PERMISSIVE"),
        ({"path": "x", "columns": "bodi"}, "did you mean 'body'"),
        (
            {"path": "x", "view": "index", "columns": "body"},
            "unknown column 'body' in view 'index'",
        ),
        ({"path": "nowhere://x"}, "not a folder that can be opened"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(options, says):
    with pytest.raises(SettingsError, match=says):
        plan(RocketMQStoreSource(options))


def test_a_folder_without_a_log_is_no_store(tmp_path):
    with pytest.raises(StoreDamaged, match="is not a store"):
        rows(tmp_path)


def test_a_file_that_goes_meanwhile_is_an_error_with_its_name(tmp_path):
    shutil.copytree(STORES / "clean" / "store", tmp_path / "s")
    source = RocketMQStoreSource({"path": str(tmp_path / "s")})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    (tmp_path / "s" / "commitlog" / f"{262144:020d}").unlink()
    with pytest.raises(FileNotFoundError, match="00000000000000262144"):
        [list(reader.read(part)) for part in parts]


def test_properties_are_equal_in_every_form(tmp_path):
    block = encode_properties({"a": "1", "KEYS": "k"})
    write_log(tmp_path, [message(0, property_block=block)])
    assert rows(tmp_path)[0]["properties"] == [("a", "1"), ("KEYS", "k")]
    raw = rows(tmp_path, propertiesFormat="raw")[0]["properties"]
    assert raw == block.decode()


@pytest.mark.parametrize(
    ("heading", "options"), [("## Reading", READ_OPTIONS), ("## Writing", WRITE_OPTIONS)]
)
def test_the_page_lists_every_option_as_the_table_has_it(heading, options):
    section = (ROOT / "docs" / "spark" / "store.md").read_text().split(heading)[1]
    rows_of_page = section.split("\n## ")[0]
    for option in options:
        default = f"`{option.default}`" if option.default else ""
        assert f"| `{option.name}` | {default} | {option.says} |" in rows_of_page


def test_the_page_has_every_view_with_its_columns():
    page = (ROOT / "docs" / "spark" / "store.md").read_text()
    for view, columns in VIEWS.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{view}` |"))
        if view != "messages":
            for name, kind in columns.items():
                assert f"`{name}` {kind.simpleString().upper()}" in line
