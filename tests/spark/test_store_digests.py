"""Two stores compared: blocks of queues by their sums, then message by message."""

from __future__ import annotations

import shutil
from pathlib import Path

from cometmq.spark.store.digests import Digest, differences, differing_blocks, digest_task
from cometmq.spark.store.folder import StoreFolder
from tests.spark.test_store_jobs import STORES, tasks_of
from tests.spark.test_store_rows import rows
from tests.support.store_puts import open_store, put, run_jobs


def digests(root: Path, split_bytes: int) -> list[Digest]:
    folder = StoreFolder(str(root))
    tasks = tasks_of(root, split_bytes)
    return [digest for task in tasks for digest in digest_task(folder, task)]


def test_a_copy_has_the_same_digests_however_it_is_cut_and_wherever_it_lies(tmp_path):
    root, copy = STORES / "clean" / "store", tmp_path / "copy"
    assert differing_blocks(digests(root, 1 << 30), digests(root, 7000)) == []
    store = open_store(tmp_path / "one")
    other = open_store(copy)
    put(other, b"in the way", topic="other")
    for number in range(30):
        put(store, b"%d" % number * 200)
        put(other, b"%d" % number * 200)
    for each in (store, other):
        run_jobs(each)
        each.close()
    blocks = differing_blocks(digests(tmp_path / "one", 900), digests(copy, 5000))
    assert blocks == [("other", 0, 0)]


def test_what_differs_is_named_message_by_message(tmp_path):
    root, copy = tmp_path / "store", tmp_path / "copy"
    shutil.copytree(STORES / "clean" / "store", root)
    shutil.copytree(root, copy)
    changed, lost = rows(root)[200], rows(root)[900]

    def overwrite(message: dict, at: int, content: bytes) -> None:
        start = message["commitLogOffset"] // 262144 * 262144
        with (copy / "commitlog" / f"{start:020d}").open("r+b") as file:
            file.seek(message["commitLogOffset"] - start + at)
            file.write(content)

    overwrite(changed, 16, b"\0\0\0\x2a")  # The user's flag, which no CRC covers.
    overwrite(lost, 0, bytes(80))
    blocks = differing_blocks(digests(root, 50_000), digests(copy, 1 << 30))
    assert 1 <= len(blocks) <= 2
    found = differences(StoreFolder(str(root)), StoreFolder(str(copy)), blocks)
    assert {(each.topic, each.queue_id, each.offset, each.what) for each in found} == {
        (changed["topic"], changed["queueId"], changed["queueOffset"], "differs in flag"),
        (lost["topic"], lost["queueId"], lost["queueOffset"], "only A has it"),
    }
