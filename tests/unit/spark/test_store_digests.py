"""Two copies compared: blocks of queues by their sums, then message by message; what neither can hold is left out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cometmq.model.errors import SettingsError
from cometmq.offline.copies import ArchiveCopy, MessageCopy, StoreCopy, folder_copy
from cometmq.offline.copy_compare import CompareCounts, CopyReading
from cometmq.offline.coverage import Coverage, coverage_of_store
from cometmq.offline.digests import (
    COMPARED,
    MessageDifference,
    differences,
    differing_blocks,
    digests_of,
    messages_of,
)
from cometmq.offline.findings import warn
from cometmq.offline.folder import StoreFolder
from tests.support.store_puts import open_store, put, run_jobs
from tests.unit.spark.test_store_archive import archived
from tests.unit.spark.test_store_jobs import STORES, tasks_of
from tests.unit.spark.test_store_rows import rows

CLEAN = STORES / "clean" / "store"


def compared(
    one: MessageCopy, other: MessageCopy
) -> tuple[list[MessageDifference], CompareCounts]:
    """What `verify --against` finds, in this process."""
    reading, seen = CopyReading.of(one, other, None), CompareCounts()

    def batches(side: int) -> Iterator[pa.RecordBatch]:
        for part in reading.parts().values():
            if part[0] == side:
                yield from reading.read(part, seen)

    blocks = frozenset(differing_blocks(digests_of(batches(0)), digests_of(batches(1))))
    counted, seen = seen, CompareCounts()
    return differences(
        messages_of(batches(0), blocks), messages_of(batches(1), blocks)
    ), counted


def overwrite(root: Path, message: dict, at: int, content: bytes) -> None:
    start = message["commitLogOffset"] // 262144 * 262144
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(message["commitLogOffset"] - start + at)
        file.write(content)


def test_a_copy_is_the_same_however_it_is_cut_and_wherever_it_lies(tmp_path):
    folder, copy = StoreFolder(str(CLEAN)), StoreCopy(str(CLEAN))
    whole, pieces = (
        digests_of(batch for task in tasks_of(CLEAN, size) for batch in copy.read(task, warn))
        for size in (1 << 30, 7000)
    )
    assert differing_blocks(whole, pieces) == []
    assert folder.log_files()[0].start == 0
    store, other = open_store(tmp_path / "one"), open_store(tmp_path / "other")
    put(other, b"in the way", topic="other")
    for number in range(30):
        put(store, b"%d" % number * 200)
        put(other, b"%d" % number * 200)
    for each in (store, other):
        run_jobs(each)
        each.close()
    found, counted = compared(
        StoreCopy(str(tmp_path / "one")), StoreCopy(str(tmp_path / "other"))
    )
    assert found == [MessageDifference("other", "", 0, 0, "only B has it")]
    assert counted.rows == [30, 31]


def test_what_differs_is_named_message_by_message(tmp_path):
    root, copy = tmp_path / "store", tmp_path / "copy"
    shutil.copytree(CLEAN, root)
    shutil.copytree(root, copy)
    every = rows(root)
    flagged, lost, bent = every[200], every[900], every[400]
    overwrite(copy, flagged, 16, b"\0\0\0\x2a")  # The user's flag, which no CRC covers.
    overwrite(copy, lost, 0, bytes(80))
    overwrite(
        copy, bent, 88, b"\xff"
    )  # Its body's first byte; the CRC beside it is the old one.
    found, _ = compared(StoreCopy(str(root)), StoreCopy(str(copy)))
    assert {each[0:1] + each[2:] for each in found} == {
        (each["topic"], each["queueId"], each["queueOffset"], what)
        for each, what in (
            (flagged, "differs in flags"),
            (bent, "differs in body"),
            (lost, "only A has it"),
        )
    }


@pytest.mark.parametrize("is_raw", [True, False])
def test_an_archive_is_compared_with_the_store_that_it_was_made_of(tmp_path, is_raw):
    root, place = tmp_path / "store", tmp_path / "archive"
    store = open_store(root)
    put(store, *[b"%d" % number * 50 for number in range(40)])
    run_jobs(store)
    archived(root, place, is_raw=is_raw, splits=3000)
    put(store, b"not archived yet")
    run_jobs(store)
    store.close()
    one, other = StoreCopy(str(root)), ArchiveCopy(str(place))
    found, counted = compared(one, other)
    assert (found, counted.rows, counted.passed_over) == ([], [40, 40], [1, 0])
    gone = sorted(place.glob("topic=*/*/*.parquet"))[1]
    gone.unlink()
    found, _ = compared(one, other)
    assert found
    assert {each.what for each in found} == {"only A has it"}


def test_what_retention_has_deleted_is_not_missing(tmp_path):
    root, copy = tmp_path / "store", tmp_path / "copy"
    shutil.copytree(CLEAN, root)
    shutil.copytree(root, copy)
    first = min((copy / "commitlog").iterdir())
    second = sorted((copy / "commitlog").iterdir())[1]
    first.unlink()
    coverage = coverage_of_store(StoreFolder(str(copy)))
    older = [each for each in rows(root) if each["commitLogOffset"] < int(second.name)]
    assert coverage.firsts
    found, counted = compared(StoreCopy(str(root)), StoreCopy(str(copy)))
    assert (found, counted.passed_over) == ([], [len(older), 0])


def test_claims_hold_what_they_say():
    columns = {
        "topic": ["t", "t", "t"],
        "brokerName": ["a", "a", "b"],
        "queueId": [0, 0, 0],
        "queueOffset": [4, 5, 5],
        "commitLogOffset": [100, 200, 300],
    }
    batch = pa.RecordBatch.from_pydict(columns)
    assert set(columns) <= set(COMPARED)
    assert Coverage().holds(batch).all()
    assert Coverage({("t", "a", 0): 5}).holds(batch).tolist() == [False, True, True]
    assert Coverage(physical=[(100, 101), (250, 301)]).holds(batch).tolist() == [
        True,
        False,
        True,
    ]
    ranges = Coverage(ranges={("t", "a", 0): [(0, 5)]})
    assert ranges.holds(batch).tolist() == [True, False, False]
    assert not ranges.without_brokers().holds(batch).any()


def test_a_folder_that_is_neither_store_nor_archive_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="neither a store"):
        folder_copy(str(tmp_path))
