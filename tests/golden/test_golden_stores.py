"""The stores that Java wrote open, and every message its own consumer had read is found, exactly."""

import json
import shutil
from pathlib import Path
from zlib import crc32

import pytest

from cometmq.codec.compression import decompress
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record, decode_record, decode_records
from cometmq.model.flags import COMPRESSED
from cometmq.model.java_hash import java_hash
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import IndexSettings, StoreSettings
from tests.support.hand_clock import HandClock
from tests.support.store_puts import make_put, queue_of, read_all, run_jobs, writable_copy

STORES = Path(__file__).parent / "stores"
# messageDelayLevel of the broker that wrote them, seconds.
LEVELS = (1, 3, 5, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
LEVELS_MS = tuple(seconds * 1000 for seconds in LEVELS)
SETTINGS = StoreSettings(
    commitlog_file_size=262_144,
    queue_file_size=6000,
    delay_levels_ms=LEVELS_MS,
    disk_reserve=0,
    index=IndexSettings(slots=1000, entries=2000),
)
ADDED_BY_CLIENT = {"MIN_OFFSET", "MAX_OFFSET"}


@pytest.fixture(params=["clean", "crash"])
def name(request) -> str:
    return request.param


@pytest.fixture
def directory(name: str, tmp_path: Path) -> Path:
    """A copy that may be written."""
    return writable_copy(STORES / name / "store", tmp_path / "store")


def expected(name: str) -> list[dict]:
    with (STORES / name / "expected.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def open_copy(directory: Path, *, read_only: bool = False) -> MessageStore:
    clock = HandClock(1_800_000_000_000)
    return MessageStore.open(directory, SETTINGS, clock=clock, read_only=read_only)


def as_expected(record: Record, found: dict) -> dict:
    """A record in the words of expected.jsonl; see its README for what differs."""
    body = decompress(record.body, record.sys_flag, limit=1 << 22)
    properties = record.properties()
    properties |= {key: found["properties"][key] for key in ADDED_BY_CLIENT}
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "store_size": record.store_size,
        "flag": record.flag,
        "sys_flag": record.sys_flag & ~COMPRESSED,
        "born": record.born_timestamp,
        "stored": record.store_timestamp,
        "reconsume": record.reconsume_times,
        "body_size": len(body),
        "body_crc": crc32(body),
        "properties": properties,
        "offset_msg_id": encode_message_id(record.store_host, record.physical_offset),
    }


def assert_all_found(store: MessageStore, name: str) -> None:
    lines = expected(name)
    assert len(lines) == 1225
    for line in lines:
        result = store.get(line["topic"], line["queue_id"], line["queue_offset"], max_count=1)
        result = result.cold() if result.cold is not None else result
        assert (result.status, result.message_count) == ("FOUND", 1)
        [record] = decode_records(b"".join(result.records))
        assert as_expected(record, line) == line
        again = store.read_record(line["physical_offset"])
        assert again is not None
        assert decode_record(again) == record


@pytest.mark.parametrize("read_only", [False, True])
def test_every_expected_message_is_found(name, directory, read_only):
    store = open_copy(directory, read_only=read_only)
    assert_all_found(store, name)
    store.close()


def test_a_readonly_store_changes_no_byte(name, directory):
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    store = open_copy(directory, read_only=True)
    assert_all_found(store, name)
    assert "reading only" in str(store.refusal)
    store.close()
    assert {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file()
    } == before


def test_it_is_found_again_after_puts_and_a_clean_stop(name, directory):
    store = open_copy(directory)
    assert store.refusal is None
    end = store.queue_for_append("GoldenOrders", 0).max_offset
    store.put_many([make_put(store, "GoldenOrders", 0, b"ours %d" % n) for n in range(3000)])
    store.dispatch_pending()
    run_jobs(store)
    store.close()
    assert not (directory / "abort").exists()
    store = open_copy(directory)
    assert_all_found(store, name)
    ours = read_all(store, "GoldenOrders", 0)[end:]
    assert [record.body for record in ours] == [b"ours %d" % n for n in range(3000)]
    store.close()


def test_the_queues_built_from_the_log_are_the_ones_that_java_built(name, directory, tmp_path):
    """Byte for byte: every entry of every queue, but for those of a log that was cut before."""
    built = tmp_path / "built"
    built.mkdir()
    shutil.copytree(directory / "commitlog", built / "commitlog")
    store = open_copy(built)
    store.close()
    theirs = queue_files(directory)
    ours = queue_files(built)
    assert ours == theirs


def queue_files(directory: Path) -> dict[str, bytes]:
    root = directory / "consumequeue"
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(files.items())}


def test_tags_select_what_their_hash_selects(name, directory):
    store = open_copy(directory)
    wanted = frozenset([java_hash("paid")])
    queue = queue_of(store, "GoldenOrders")
    offset, found = 0, []
    while offset < queue.max_offset:
        result = store.get("GoldenOrders", 0, offset, match=wanted)
        found += decode_records(b"".join(result.records))
        offset = result.next_offset
    every = read_all(store, "GoldenOrders", 0)
    assert found
    assert found == [record for record in every if record.properties().get("TAGS") == "paid"]
    store.close()


def test_offsets_by_time_are_those_of_the_expected_times(name, directory):
    store = open_copy(directory)
    for queue_id in range(4):
        queue = queue_of(store, "GoldenPayments", queue_id)
        times = [
            record.store_timestamp for record in read_all(store, "GoldenPayments", queue_id)
        ]
        for time in sorted({*times, times[0] - 1, times[-1] + 1}):
            first = next((n for n, at in enumerate(times) if at >= time), len(times))
            last = next((n for n in reversed(range(len(times))) if times[n] <= time), 0)
            assert store.offset_by_time(queue, time) == first
            assert store.offset_by_time(queue, time, upper=True) == last
        assert store.earliest_store_time(queue) == times[0]
    store.close()
