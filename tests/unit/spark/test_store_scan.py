"""Splits of a log: every record once, whatever the cut; damage told, forged starts refused."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.record import Record, encode_record
from cometmq.model.errors import StoreDamaged
from cometmq.offline.damage import Damage
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.log_end import durable_end, flushed_offset, present_end, used_files
from cometmq.offline.log_scan import LogScan
from cometmq.offline.plan import ALL, LogRange, plan_tasks
from cometmq.offline.scan import scan
from cometmq.offline.splits import between, cut
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles
from cometmq.store.real_disk import RealDisk
from tests.support.store_puts import SMALL, make_put, open_store, put, run_jobs

STORES = Path(__file__).parents[2] / "golden" / "stores"
FILE = SMALL.commitlog_file_size


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
    found = find_store(str(root), None, RealDisk())
    try:
        return [record.physical_offset for records in LogScan(found) for record in records]
    finally:
        found.close()


def filled(path: Path, count: int = 60, size: int = 700) -> list[int]:
    """A closed store of so many messages; gives where they lie."""
    store = open_store(path)
    for number in range(count):
        put(store, bytes([number % 250 + 1]) * (size + number), queue_id=number % 2)
    run_jobs(store)
    store.close()
    return log_walk(path)


def overwrite(root: Path, offset: int, content: bytes) -> None:
    """Write into the log at a physical offset."""
    path = root / "commitlog" / f"{offset // FILE * FILE:020d}"
    with path.open("r+b") as file:
        file.seek(offset % FILE)
        file.write(content)


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
    overwrite(tmp_path, hurt, bytes(zeros))
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
    overwrite(tmp_path, expected[-1] + size, b"\0\0\1\0\xda\xa3\x20")
    starts, damages = places(StoreFolder(str(tmp_path)), 4000)
    assert starts == expected
    assert [(damage.start, damage.end) for damage in damages] == [
        (expected[-1] + size, expected[-1] + size + 7)
    ]
    (tmp_path / "abort").write_text("1")
    assert places(StoreFolder(str(tmp_path)), 4000) == (expected, [])


def test_a_record_hidden_in_a_body_is_never_read_as_one(tmp_path):
    store = open_store(tmp_path)
    put(store, b"x" * 300)
    at = store.max_offset
    forged = encode_record(Record(physical_offset=at + 88 + 100, topic="secret", body=b"no"))
    put(store, b"y" * 100 + forged + b"y" * 500)
    put(store, b"z" * 300)
    run_jobs(store)
    store.close()
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
    store = open_store(tmp_path)
    put(store, b"a" * (FILE // 4))
    begin = put(store, b"a" * (FILE // 4))
    end = put(store, b"a" * (FILE // 4))
    run_jobs(store)
    store.close()
    folder = StoreFolder(str(tmp_path))
    assert flushed_offset(folder) == end == present_end(folder, used_files(folder))
    # Somebody has cut it since: what the checkpoint says is where nothing is any more.
    file = used_files(folder)[-1]
    with Path(file.path).open("r+b") as log:
        log.seek(begin - file.start)
        log.write(bytes(end - begin))
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
    store = open_store(tmp_path)
    store.put_many([make_put(store, body=b"l" * 12_000), make_put(store, body=b"s")])
    store.dispatch_pending()
    run_jobs(store)
    store.close()
    assert places(StoreFolder(str(tmp_path)), 700) == (log_walk(tmp_path), [])


def test_zeros_before_the_known_end_of_an_open_log_are_damage(tmp_path):
    expected = filled(tmp_path, 20)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(expected[5])
        file.write(bytes(FILE - expected[5]))
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
    settings = replace(SMALL, commitlog_file_size=size)
    store = open_store(tmp_path, settings)
    put(store, b"x" * 700)
    run_jobs(store)
    store.close()
    (file,) = (tmp_path / "commitlog").iterdir()
    with file.open("rb") as log:
        os.posix_fadvise(log.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if os.lseek(log.fileno(), 0, os.SEEK_HOLE) == size:
            pytest.skip("a file system that shows no holes")
        assert places(StoreFolder(str(tmp_path)), 4 << 20) == ([0], [])
        assert os.lseek(log.fileno(), 0, os.SEEK_HOLE) < size // 2
