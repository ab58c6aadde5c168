"""Splits of a log: every record once, whatever the cut; damage told, forged starts refused.

Two copies compared: blocks of queues by their sums, then message by message; what neither can hold is left out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.copies import ArchiveCopy, MessageCopy, StoreCopy, folder_copy
from cometmq.offline.copy_compare import CompareCounts, CopyReading
from cometmq.offline.coverage import Coverage, coverage_of_store
from cometmq.offline.damage import Damage
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
from cometmq.offline.found import find_store
from cometmq.offline.log_end import durable_end, flushed_offset, present_end, used_files
from cometmq.offline.log_scan import LogScan
from cometmq.offline.plan import ALL, LogRange, plan_tasks
from cometmq.offline.scan import scan
from cometmq.offline.splits import between, cut
from cometmq.spark.store.partitions import plan
from cometmq.spark.store.schema import VIEWS
from cometmq.spark.store.settings import StoreReadSettings
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles
from cometmq.store.real_disk import RealDisk
from tests.support.offline_steps import (
    STORES,
    archived,
    log_records,
    overwrite_log,
    store_with_a_record_in_a_body,
)
from tests.support.store_puts import FILE, SMALL, open_store, put, run_jobs, writing
from tests.unit.spark.test_store_jobs import tasks_of
from tests.unit.spark.test_store_rows import rows


def places(
    folder: StoreFolder, split_bytes: int, wanted: LogRange = ALL
) -> tuple[list[int], list[Damage]]:
    """Where the records lie that the splits have, and the damages."""
    starts: list[int] = []
    damages: list[Damage] = []
    for task in plan_tasks(folder, wanted, split_bytes=split_bytes):
        for split in task:
            for found in scan(folder, split):
                if isinstance(found, Damage):
                    damages.append(found)
                else:
                    starts += (found.window.starts + found.base).tolist()
    return starts, damages


def log_walk(root: Path) -> list[int]:
    return [record.physical_offset for record in log_records(root)]


def filled(path: Path, count: int = 60, size: int = 700) -> list[int]:
    """A closed store of so many messages; gives where they lie."""
    with writing(path) as store:
        for number in range(count):
            put(store, bytes([number % 250 + 1]) * (size + number), queue_id=number % 2)
    return log_walk(path)


@pytest.mark.parametrize("name", ["clean", "crash", "kinds"])
@pytest.mark.parametrize("split_bytes", [1 << 30, 10_000, 997])
def test_every_record_that_java_wrote_is_in_one_split(name, split_bytes):
    root = STORES / name / "store"
    assert places(StoreFolder(str(root)), split_bytes) == (log_walk(root), [])


def test_any_file_system_of_pyarrow_will_do(tmp_path):
    expected = filled(tmp_path / "store")
    assert places(StoreFolder(f"file://{tmp_path}/store"), 5000) == (expected, [])


@pytest.mark.parametrize("split_bytes", [1 << 30, 3000, 500])
@pytest.mark.parametrize("zeros", [8, 200, 5000])
def test_damage_is_told_once_and_what_follows_is_read(tmp_path, split_bytes, zeros):
    expected = filled(tmp_path)
    hurt = expected[20]
    overwrite_log(tmp_path, hurt, bytes(zeros))
    starts, damages = places(StoreFolder(str(tmp_path)), split_bytes)
    kept = [at for at in expected if not hurt - 1000 < at < hurt + zeros or at < hurt]
    assert starts == kept
    assert [damage.start for damage in damages] == [hurt]
    assert damages[0].end == next(at for at in expected if at >= hurt + zeros)
    assert damages[0].at == hurt % FILE
    assert damages[0].path.endswith(f"{hurt // FILE * FILE:020d}")


@pytest.mark.parametrize("split_bytes", [1 << 30, 1500])
def test_a_file_that_is_cut_off_or_missing_is_damage(tmp_path, split_bytes):
    expected = filled(tmp_path)
    first, second = (tmp_path / "commitlog" / f"{start:020d}" for start in (0, FILE))
    with first.open("r+b") as file:
        file.truncate(8000)
    second.unlink()
    starts, damages = places(StoreFolder(str(tmp_path)), split_bytes)
    torn = max(at for at in expected if at < 8000)
    assert starts == [at for at in expected if at < torn or at >= 2 * FILE]
    assert [(damage.start, damage.end) for damage in damages] == [(torn, 2 * FILE)]
    assert "8000 of 32768" in damages[0].why


def test_a_torn_tail_of_a_closed_log_is_damage_and_of_an_open_one_its_end(tmp_path):
    expected = filled(tmp_path)
    whole = (tmp_path / "commitlog" / f"{expected[-1] // FILE * FILE:020d}").read_bytes()
    size = int.from_bytes(whole[expected[-1] % FILE :][:4])
    overwrite_log(tmp_path, expected[-1] + size, b"\0\0\1\0\xda\xa3\x20")
    starts, damages = places(StoreFolder(str(tmp_path)), 4000)
    assert starts == expected
    assert [(damage.start, damage.end) for damage in damages] == [
        (expected[-1] + size, expected[-1] + size + 7)
    ]
    (tmp_path / "abort").write_text("1")
    assert places(StoreFolder(str(tmp_path)), 4000) == (expected, [])


def test_a_record_hidden_in_a_body_is_never_read_as_one(tmp_path):
    store_with_a_record_in_a_body(tmp_path)
    folder = StoreFolder(str(tmp_path))
    assert places(folder, 1 << 30) == (log_walk(tmp_path), [])
    refusals: list[str] = []
    for split_bytes in range(100, 900, 50):
        try:
            assert places(folder, split_bytes)[0] == log_walk(tmp_path)
        except StoreDamaged as error:
            refusals.append(str(error))
    assert refusals
    assert all("splitBytes=16384" in text for text in refusals)


def test_a_range_of_offsets_and_times_takes_what_starts_there(tmp_path):
    expected = filled(tmp_path)
    folder = StoreFolder(str(tmp_path))
    for start, end in [
        (expected[3], expected[40]),
        (expected[3] + 1, expected[40] + 1),
        (5, 6),
    ]:
        wanted = [at for at in expected if start <= at < end]
        for split_bytes in (1 << 30, 2000):
            assert places(folder, split_bytes, LogRange(start, end)) == (wanted, [])
    for beyond in (10**9, expected[-1] + 2000):
        assert places(folder, 2000, LogRange(0, beyond)) == (expected, [])


def test_the_end_is_behind_the_last_record_whatever_the_checkpoint_knows(tmp_path):
    with writing(tmp_path) as store:
        _, begin, end = (put(store, b"a" * (FILE // 4)) for _ in range(3))
    folder = StoreFolder(str(tmp_path))
    assert flushed_offset(folder) == end == present_end(folder, used_files(folder))
    # Somebody has cut it since: what the checkpoint says is where nothing is any more.
    overwrite_log(tmp_path, begin, bytes(end - begin))
    assert present_end(folder, used_files(folder)) == begin


def test_a_stream_stops_where_the_log_is_on_the_device(tmp_path):
    store = open_store(tmp_path)
    put(store, b"a" * 100)
    run_jobs(store)
    flushed = store.flushed_offset
    job = store.checkpoint_due()
    put(store, b"b" * 100)
    folder = StoreFolder(str(tmp_path))
    assert job is None
    progress = CheckpointFiles(RealDisk(), str(tmp_path))
    progress.load()
    assert progress.progress is not None
    assert durable_end(folder, 0) == max(progress.progress.flushed, 0) <= flushed
    store.close()
    assert durable_end(folder, 0) == store.max_offset


def test_a_stream_of_a_java_store_stops_at_its_checkpoints_time(tmp_path):
    root = tmp_path / "store"
    shutil.copytree(STORES / "crash" / "store", root)
    folder = StoreFolder(str(root))
    expected = log_walk(root)
    end = durable_end(folder, 0)
    found = find_store(str(root), None, RealDisk())
    records = [record for part in LogScan(found) for record in part]
    times = found.checkpoints.times
    found.close()
    kept = [
        each.physical_offset for each in records if each.store_timestamp <= times.log_timestamp
    ]
    assert [at for at in expected if at < end][: len(kept)] == kept[: len(expected)]
    assert durable_end(folder, end) == end
    # Our own checkpoint of another time says nothing.
    files = CheckpointFiles(RealDisk(), str(root))
    files.load()
    files.write(files.times, NOTHING_DONE)
    assert durable_end(folder, 0) == end


def test_files_made_ahead_of_need_are_no_part_of_the_log(tmp_path):
    expected = filled(tmp_path)
    folder = StoreFolder(str(tmp_path))
    ahead = used_files(folder)[-1].end
    (tmp_path / "commitlog" / f"{ahead:020d}").write_bytes(bytes(FILE))
    files = used_files(folder)
    assert files[-1].end == ahead
    assert files[-1].is_last
    assert sum(split.hi - split.lo for split in cut(files, 1000)) == ahead
    assert places(folder, 1000) == (expected, [])


def test_a_long_record_is_read_whole(tmp_path):
    with writing(tmp_path) as store:
        put(store, b"l" * 12_000, b"s")
    assert places(StoreFolder(str(tmp_path)), 700) == (log_walk(tmp_path), [])


def test_zeros_before_the_known_end_of_an_open_log_are_damage(tmp_path):
    expected = filled(tmp_path, 20)
    overwrite_log(tmp_path, expected[5], bytes(FILE - expected[5]))
    for path in sorted((tmp_path / "commitlog").iterdir())[1:]:
        path.unlink()
    folder, end = StoreFolder(str(tmp_path)), expected[12]
    assert places(folder, 1000) == (expected[:5], [])
    for split_bytes in (1000, FILE):
        splits = between(cut(used_files(folder), split_bytes), 0, end)
        found = [each for split in splits for each in scan(folder, split)]
        (damage,) = [each for each in found if isinstance(each, Damage)]
        assert (damage.start, damage.end) == (expected[5], end)


def test_a_scan_leaves_the_hole_behind_the_log_a_hole(tmp_path):
    """Else the next one would find zeros there, and memory be full of them."""
    size = 64 << 20
    with writing(tmp_path, replace(SMALL, commitlog_file_size=size)) as store:
        put(store, b"x" * 700)
    (file,) = (tmp_path / "commitlog").iterdir()
    with file.open("rb") as log:
        os.posix_fadvise(log.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if os.lseek(log.fileno(), 0, os.SEEK_HOLE) == size:
            pytest.skip("a file system that shows no holes")
        assert places(StoreFolder(str(tmp_path)), 4 << 20) == ([0], [])
        assert os.lseek(log.fileno(), 0, os.SEEK_HOLE) < size // 2


@pytest.mark.parametrize("with_batches", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_planned_with_the_log_elsewhere(tmp_path: Path, view, with_batches):
    log, root = tmp_path / "log", tmp_path / "store"
    with writing(root, replace(SMALL, commitlog_paths=(str(log),))) as store:
        put(store, b"one", b"two")
    if with_batches:
        queue = root / "batchconsumequeue" / "batched" / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").write_bytes(bytes(46))
    given = {"path": str(root), "commitLogPath": str(log), "view": view}
    parts = plan(StoreReadSettings.parse(given, is_stream=False))
    assert len(parts) == (0 if view == "index" else 1)


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
    for message, at, content in (
        (flagged, 16, b"\0\0\0\x2a"),  # The user's flag, which no CRC covers.
        (lost, 0, bytes(80)),
        (bent, 88, b"\xff"),  # Its body's first byte; the CRC beside it is the old one.
    ):
        overwrite_log(copy, message["commitLogOffset"] + at, content)
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
    with writing(root) as store:
        put(store, *[b"%d" % number * 50 for number in range(40)])
        run_jobs(store)
        archived(root, place, is_raw=is_raw, splits=3000)
        put(store, b"not archived yet")
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
