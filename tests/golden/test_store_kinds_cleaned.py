"""Where the log's first file goes, what a Java broker's other queues have of it goes as well, and no more."""

from pathlib import Path

import pytest

from cometmq.codec.other_queues import extended_place
from cometmq.codec.queue_entry import QUEUE_ENTRY
from cometmq.codec.record import decode_records
from cometmq.model.java_hash import java_hash
from cometmq.offline.found import find_store
from cometmq.offline.verify import verify
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from tests.golden.test_store_kinds import (
    EXPECTED,
    batches_of,
    directory,
    entries_of,
    open_copy,
    read_batch,
)
from tests.support.hand_clock import HandClock
from tests.support.store_puts import clean, delete_before, queue_of, read_all, settle

__all__ = ["directory"]

FIRST = 65_536  # Where the log begins when its first file is gone.


def cleaned(directory: Path) -> MessageStore:
    """The store, without the log's first file: by the hand clock it has expired."""
    store = open_copy(directory)
    clock = store._background._clock
    assert isinstance(clock, HandClock)
    settle(store, clock)
    clean(store)
    assert store.min_offset == FIRST
    return store


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


@pytest.mark.parametrize("number", [0, 1, 9, 10, 11, 19])
def test_batch_queues_begin_where_the_log_does_and_lose_the_files_before(directory, number):
    """The golden log has all batches in its last file; so the queues are told where it begins."""
    folder = directory / "batchconsumequeue" / "KindsBatches" / "0"
    entries = [entry for path in sorted(folder.iterdir()) for entry in entries_of(path)]
    store = open_copy(directory)
    batches = store._directory.batches
    start = entries[number].physical_offset
    planned = set(batches.files_before(start))
    before = set(map(str, folder.parent.rglob("*")))
    delete_before(batches, start)
    assert before - set(map(str, folder.parent.rglob("*"))) == planned
    assert names(folder) == ([0, 460] if number < 10 else [460])
    queue = queue_of(store, "KindsBatches")
    least = entries[number].first_offset
    assert queue.min_offset == least
    if least:
        assert store.get("KindsBatches", 0, least - 1).status == "OFFSET_TOO_SMALL"
    found = read_batch(store, 0, least, max_count=1_000)
    offsets = [line["offset"] for line in batches_of(0)]
    assert [record.queue_offset for record in found] == offsets[number:]
    assert batches.files_before(start) == []
    store.close()
    again = open_copy(directory)  # It goes on where it did.
    queue = queue_of(again, "KindsBatches")
    assert queue.max_offset == sum(len(line["bodies"]) for line in batches_of(0))
    again.close()


def test_where_every_batch_is_gone_the_newest_file_says_where_the_queue_goes_on(directory):
    store = open_copy(directory)
    delete_before(store._directory.batches, 1 << 40)
    for queue_id in range(2):
        folder = directory / "batchconsumequeue" / "KindsBatches" / str(queue_id)
        assert names(folder) == [460]
        queue = queue_of(store, "KindsBatches", queue_id)
        assert queue.min_offset == queue.max_offset > 0
    store.close()


def check_opened_again(directory: Path) -> None:
    """It is sound, and says the same after a stop."""
    found = find_store(str(directory), None, RealDisk())
    verdict = verify(found)
    found.close()
    assert verdict.errors == 0, verdict.findings
    store = open_copy(directory)
    for queue in store.queues_of("Kinds"):
        assert 0 < queue.min_offset < queue.max_offset == 150
    store.close()


def test_extended_units_go_file_by_file_behind_the_last_entry_that_needs_them(directory):
    units = directory / "consumequeue_ext" / "Kinds"
    before = {queue_id: names(units / str(queue_id)) for queue_id in range(2)}
    store = cleaned(directory)
    gone = 0
    for queue_id, starts in before.items():
        queue = queue_of(store, "Kinds", queue_id)
        [first] = store.entries(queue, queue.min_offset, 1)
        needed = extended_place(first.tags_code)
        left = [start for start in starts if start + 1_024 > needed]
        assert names(units / str(queue_id)) == left
        gone += len(starts) - len(left)
        for tag in ("tag0", "tag1", "tag2"):  # What is left is found by its tag.
            found, offset = [], queue.min_offset
            while offset < queue.max_offset:
                match = frozenset([java_hash(tag)])
                result = store.get("Kinds", queue_id, offset, match=match)
                result = result.cold() if result.cold is not None else result
                found += decode_records(b"".join(result.records))
                offset = result.next_offset
            assert [record.body.decode() for record in found] == [
                line["body"]
                for line in EXPECTED["plain"]
                if (line["queue"], line["tag"]) == (queue_id, tag)
            ][-len(found) :]
            assert found
    assert gone > 0
    store.close()
    check_opened_again(directory)


def test_where_no_entry_has_an_address_all_but_the_newest_file_go(directory):
    for path in (directory / "consumequeue" / "Kinds").rglob("0" * 10 + "*"):
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), 20):
            offset, size, code = QUEUE_ENTRY.unpack_from(content, at)
            QUEUE_ENTRY.pack_into(content, at, offset, size, max(code, 0))
        path.write_bytes(content)
    store = cleaned(directory)
    for queue_id in range(2):
        assert len(names(directory / "consumequeue_ext" / "Kinds" / str(queue_id))) == 1
    assert read_all(store, "Kinds", 0)
    store.close()


def test_the_dry_run_names_what_goes(directory):
    store = open_copy(directory)
    planned = {doomed.path for doomed in store.cleaner.plan()}
    before = {str(path) for path in directory.rglob("*") if path.is_file()}
    store.close()
    store = cleaned(directory)
    after = {str(path) for path in directory.rglob("*") if path.is_file()}
    folders = ("consumequeue_ext", "batchconsumequeue", "commitlog")
    gone = {path for path in before - after if any(f"/{name}/" in path for name in folders)}
    assert gone
    assert gone <= planned
    store.close()
