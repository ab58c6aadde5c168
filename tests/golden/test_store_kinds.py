"""Queues of the other kinds that a Java broker wrote: light, batch, extended; read and kept."""

import json
import shutil
from pathlib import Path

import pytest

from cometmq.codec.batch import decode_batch
from cometmq.codec.checkpoint import Checkpoint, encode_checkpoint
from cometmq.codec.other_queues import (
    BATCH_ENTRY_SIZE,
    decode_batch_entry,
    encode_batch_entry,
)
from cometmq.codec.record import Record, decode_record, decode_records
from cometmq.model.errors import RecordIllegal
from cometmq.model.java_hash import java_hash
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.found import find_store, with_found_sizes
from cometmq.offline.verify import verify
from cometmq.store.batch_queues import entry_of
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import make_put, queue_of, read_all, run_jobs, writable_copy

SOURCE = Path(__file__).parent / "stores" / "kinds"
EXPECTED = json.loads((SOURCE / "expected.json").read_text())
LIGHT = ("%LMQ%left", "%LMQ%right")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy that may be written."""
    return writable_copy(SOURCE / "store", tmp_path / "store")


def open_copy(directory: Path, *, read_only: bool = False) -> MessageStore:
    settings = with_found_sizes(str(directory), None, RealDisk())
    clock = HandClock(1_800_000_000_000)
    return MessageStore.open(directory, settings, clock=clock, read_only=read_only)


def contents(directory: Path, *folders: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for folder in folders
        for path in sorted((directory / folder).rglob("*"))
        if path.is_file()
    }


def leave_unclean(directory: Path) -> None:
    """As a kill leaves it, with no checkpoint to begin at."""
    (directory / "abort").touch()
    (directory / "checkpoint").write_bytes(encode_checkpoint(Checkpoint()))


def assert_light_queues(store: MessageStore) -> None:
    for light in LIGHT:
        wanted = [line["body"] for line in EXPECTED["plain"] if light in line["lights"]]
        assert [record.body.decode() for record in read_all(store, light)] == wanted
        queue = queue_of(store, light)
        assert (queue.min_offset, queue.max_offset) == (0, len(wanted))


def batches_of(queue_id: int) -> list[dict]:
    return [line for line in EXPECTED["batches"] if line["queue"] == queue_id]


def read_batch(store: MessageStore, queue_id: int, offset: int, **limits) -> list[Record]:
    result = store.get("KindsBatches", queue_id, offset, **limits)
    assert result.cold is not None
    return decode_records(b"".join(result.cold().records))


def assert_batch_queues(store: MessageStore) -> None:
    for queue_id in range(2):
        lines = batches_of(queue_id)
        queue = queue_of(store, "KindsBatches", queue_id)
        messages = sum(len(line["bodies"]) for line in lines)
        assert (queue.min_offset, queue.max_offset) == (0, messages)
        for line in lines:
            for place in range(len(line["bodies"])):
                [record] = read_batch(store, queue_id, line["offset"] + place, max_count=1)
                assert record.queue_offset == line["offset"]
                bodies = [item.body.decode() for item in decode_batch(record.body)]
                assert bodies == line["bodies"]


def test_the_store_is_sound_and_stays_untouched():
    before = contents(SOURCE, "store")
    store = find_store(str(SOURCE / "store"), None, RealDisk())
    verdict = verify(store)
    store.close()
    assert (verdict.errors, verdict.notes, verdict.records) == (0, 0, 340)
    # 300 messages, 300 more entries in light queues, 40 batches.
    assert verdict.queue_entries == 640
    assert contents(SOURCE, "store") == before


def test_every_message_of_every_kind_is_compared(directory):
    found = compare_folders(str(directory), str(SOURCE / "store"), clock=HandClock())
    assert found.is_same
    # Each message once: light queues name messages of other queues.
    batched = sum(len(line["bodies"]) for line in EXPECTED["batches"])
    assert found.rows == (len(EXPECTED["plain"]) + batched,) * 2
    assert found.queues == 4


@pytest.mark.parametrize("read_only", [True, False])
def test_light_and_batch_queues_are_read(directory, read_only):
    store = open_copy(directory, read_only=read_only)
    assert_light_queues(store)
    assert_batch_queues(store)
    assert set(store.topics()) == {"Kinds", "KindsBatches", *LIGHT}
    store.close()


def test_several_batches_come_at_once_within_the_limits(directory):
    store = open_copy(directory)
    everything = read_batch(store, 0, 0, max_count=1000)
    assert len(everything) == len(batches_of(0))
    sizes = [record.store_size for record in everything]
    assert len(read_batch(store, 0, 0, max_bytes=sizes[0] + sizes[1])) == 2
    assert len(read_batch(store, 0, 0, max_bytes=1)) == 1
    assert read_batch(store, 0, 0, match=frozenset([java_hash("other")])) == []
    assert len(read_batch(store, 0, 0, match=frozenset([java_hash("batched")]))) > 1
    end = sum(len(line["bodies"]) for line in batches_of(0))
    assert store.get("KindsBatches", 0, end).status == "OFFSET_OVERFLOW_ONE"
    assert store.get("KindsBatches", 0, end + 1).next_offset == end
    assert store.get("KindsBatches", 7, 0).status == "NO_MATCHED_LOGIC_QUEUE"
    store.close()


def test_times_of_batches_lead_to_their_offsets(directory):
    store = open_copy(directory)
    queue = queue_of(store, "KindsBatches", 1)
    times = {record.queue_offset: record.store_timestamp for record in read_batch(store, 1, 0)}
    assert store.earliest_store_time(queue) == times[0]
    for time in {*times.values()}:
        found = store.offset_by_time(queue, time)
        assert found == min(offset for offset, at in times.items() if at >= time)
    assert store.store_time_at(queue, queue.max_offset) == -1
    store.close()


@pytest.mark.parametrize("tag", ["tag0", "tag1", "tag2", "none"])
@pytest.mark.parametrize("queue_id", [0, 1])
def test_a_tag_selects_through_extended_units(directory, tag, queue_id):
    """The entries have addresses where other queues have the hash."""
    store = open_copy(directory)
    queue = queue_of(store, "Kinds", queue_id)
    assert all(entry.tags_code < -(1 << 31) for entry in store.entries(queue, 0, 150))
    offset, found = 0, []
    while offset < queue.max_offset:
        result = store.get("Kinds", queue_id, offset, match=frozenset([java_hash(tag)]))
        # Units are read from the disk, which a loop must not do.
        assert result.cold is not None
        result = result.cold()
        found += decode_records(b"".join(result.records))
        offset = result.next_offset
    assert [record.body.decode() for record in found] == [
        line["body"]
        for line in EXPECTED["plain"]
        if (line["queue"], line["tag"]) == (queue_id, tag)
    ]
    store.close()


def finished(result: GetResult) -> GetResult:
    return result if result.cold is None else result.cold()


def test_our_broker_keeps_what_it_does_not_write(directory):
    kept = ("consumequeue_ext", "batchconsumequeue")
    before = contents(directory, *kept)
    store = open_copy(directory)
    put = make_put(store, "Kinds", 0, b"ours", tag="tag1")
    store.put_many([put])
    store.dispatch_pending()
    run_jobs(store)
    store.close()
    assert contents(directory, *kept) == before
    store = open_copy(directory)
    queue = queue_of(store, "Kinds")
    last = store.get("Kinds", 0, queue.max_offset - 1, match=frozenset([java_hash("tag1")]))
    assert last.cold is None, "our entries have their tags codes themselves"
    result = finished(store.get("Kinds", 0, 140, match=frozenset([java_hash("tag1")])))
    assert decode_records(b"".join(result.records))[-1].body == b"ours"
    assert_light_queues(store)
    assert_batch_queues(store)
    store.close()


def test_light_and_batch_queues_are_built_again_byte_for_byte(directory):
    folders = ("batchconsumequeue", *(f"consumequeue/{light}" for light in LIGHT))
    before = contents(directory, *folders)
    leave_unclean(directory)
    for light in LIGHT:
        shutil.rmtree(directory / "consumequeue" / light)
    for path in sorted((directory / "batchconsumequeue").rglob("*00"))[-2:]:
        content = path.read_bytes()
        path.write_bytes(content[: 3 * BATCH_ENTRY_SIZE].ljust(len(content), b"\0"))
    for path in (directory / "batchconsumequeue").rglob("*460"):
        path.unlink()
    store = open_copy(directory)
    assert_light_queues(store)
    assert_batch_queues(store)
    store.close()
    assert contents(directory, *folders) == before


def test_a_deleted_topic_takes_its_queues_of_every_kind_with_it(directory):
    store = open_copy(directory)
    for topic in ("Kinds", "KindsBatches"):
        store.delete_topic(topic)
        assert not list((directory).glob(f"*/{topic}"))
    assert store.topics() == [*LIGHT]
    store.close()
    store = open_copy(directory)
    assert store.topics() == [*LIGHT]
    store.close()


def test_batch_entries_of_records_that_were_cut_go(directory):
    leave_unclean(directory)
    found = find_store(str(directory), None, RealDisk())
    end = verify(found).log_end
    found.close()
    file = directory / "commitlog" / f"{end // 65_536 * 65_536:020d}"
    content = bytearray(file.read_bytes())
    lines = batches_of(1)
    last = max(
        entry[0]
        for path in (directory / "batchconsumequeue" / "KindsBatches" / "1").iterdir()
        for entry in entries_of(path)
    )
    content[last % 65_536 + 88] ^= 1
    file.write_bytes(content)
    store = open_copy(directory)
    assert store.max_offset == last
    queue = queue_of(store, "KindsBatches", 1)
    assert queue.max_offset == sum(len(line["bodies"]) for line in lines[:-1])
    store.close()


def entries_of(path: Path) -> list:
    content = path.read_bytes()
    places = range(0, len(content), BATCH_ENTRY_SIZE)
    return [entry for at in places if (entry := decode_batch_entry(content, at)).is_written]


def test_every_batch_entry_is_that_of_its_record():
    log = b"".join(contents(SOURCE, "store/commitlog").values())
    count = 0
    for path in sorted((SOURCE / "store" / "batchconsumequeue").rglob("0" * 10 + "*")):
        for entry in entries_of(path):
            assert entry_of(decode_record(log, entry.physical_offset)) == entry
            assert decode_batch_entry(encode_batch_entry(entry)) == entry
            count += 1
    assert count == 40


def test_a_plain_queue_that_hides_a_batch_queue_is_put_aside(directory):
    store = open_copy(directory)
    put = make_put(store, "Other")
    hiding = ConsumeQueue("KindsBatches", 1)  # As older brokers made.
    store.put_many([(hiding, *put[1:])])
    store.dispatch_pending()
    store.close()
    store = open_copy(directory)
    assert_batch_queues(store)
    with pytest.raises(RecordIllegal, match="is a batch queue"):
        store.queue_for_append("KindsBatches", 1)
    store.close()
