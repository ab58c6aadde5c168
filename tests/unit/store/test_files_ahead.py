"""The next log files are there before they are needed, warm and in memory where that is configured."""

from __future__ import annotations

import errno
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import SMALL, bodies_of, open_store, put, run_jobs, store_with

FILE = SMALL.commitlog_file_size
WARM = replace(SMALL, is_warmed=True, warm_flush_pages=1)


def file_count(disk: FakeDisk) -> int:
    return len(disk.list_names("/store/commitlog"))


def test_the_next_is_made_at_half_and_the_next_but_one_at_three_quarters():
    disk = FakeDisk()
    store = open_store(disk=disk)
    seen = []
    for _ in range(8):  # Two kilobytes each: eight fill a file.
        put(store, b"x" * 1950)
        run_jobs(store)
        seen.append(file_count(disk))
    assert seen == [1, 1, 1, 2, 2, 3, 3, 3]
    for _ in range(8):
        put(store, b"x" * 1950)
        run_jobs(store)
    made = disk.calls["allocate"]
    run_jobs(store)
    assert (disk.calls["allocate"], file_count(disk)) == (made, 4)  # Never more than two.


def test_a_put_waits_for_no_file_that_was_made_ahead():
    disk = FakeDisk()
    store = open_store(disk=disk)
    for _ in range(40):
        made = disk.calls["allocate"]
        put(store, b"x" * 7000)
        assert disk.calls["allocate"] == made or made == 0
        run_jobs(store)


def test_both_are_removed_by_a_clean_stop_and_taken_as_the_log_s_end_after_a_kill():
    disk = FakeDisk()
    store = open_store(disk=disk)
    bodies = [b"%d " % n + b"x" * 7000 for n in range(2)]
    put(store, *bodies)
    run_jobs(store)
    assert file_count(disk) == 3
    killed = disk.kill()
    store.close()
    assert file_count(disk) == 1
    for found in (disk.kill(), killed):
        again = open_store(disk=found)
        put(again, b"more" * 2000, b"more" * 2000)
        assert bodies_of(again)[:2] == bodies
        assert len(bodies_of(again)) == 4


def test_warm_files_are_written_flushed_in_pieces_and_kept_in_memory_until_cold():
    settings = replace(WARM, flush_sync=True, warm_tail_bytes=FILE)
    store, disk, clock = store_with(b"x" * 7000, settings=settings)
    assert disk.locked == FILE
    assert not disk.names["/store/commitlog/" + "0".zfill(20)].dirty - {0, 1}
    bodies = [b"%d " % n + b"y" * 7000 for n in range(12)]
    for body in bodies:
        put(store, body)
        clock.turn(2)
        run_jobs(store)
    assert FILE <= disk.locked <= 5 * FILE  # Of the files that are warm, and those ahead.
    store.close()
    assert disk.locked == 0
    assert bodies_of(open_store(disk=disk.kill()))[1:] == bodies


@pytest.mark.parametrize("call", ["lock_pages", "pwrite"])
def test_a_file_that_cannot_be_warmed_is_used_cold(call, caplog):
    disk = FakeDisk()
    store = open_store(disk=disk, settings=WARM)
    disk.fail(call, code=errno.ENOMEM)
    put(store, b"taken")
    assert bodies_of(store) == [b"taken"]
    assert "is used without preparing its pages" in caplog.text


def test_pages_of_a_real_file_are_locked_and_given_back(tmp_path: Path):
    size = 256 * 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and soft < 2 * size:
        pytest.skip(f"this user may lock {soft} bytes of memory only")
    disk = RealDisk()
    fd = disk.open(str(tmp_path / "file"), create=True)
    disk.resize(fd, size)
    before = locked_kib()
    unlock = disk.lock_pages(fd, size)
    assert locked_kib() == before + size // 1024
    unlock()
    assert locked_kib() == before
    disk.close(fd)


def locked_kib() -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmLck"))
    return int(line.split()[1])


def test_a_file_made_ahead_for_an_empty_log_is_not_taken_for_one_that_begins_later():
    """A slave of a master whose oldest files are gone begins in the middle."""
    source = open_store(disk=FakeDisk())
    for _ in range(9):
        put(source, b"x" * 1950)
    content = source.read_log(FILE, FILE)
    assert content is not None
    disk = FakeDisk()
    copy = open_store(disk=disk)
    run_jobs(copy)
    assert file_count(disk) == 1
    assert copy.append_raw(FILE, bytes(content)) == source.max_offset
    assert copy.min_offset == FILE
    assert disk.list_names("/store/commitlog") == [f"{FILE:020d}"]
