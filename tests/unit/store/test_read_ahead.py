"""dataReadAheadEnable: whether the system may read more of the log than is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, open_store, put, settle, store_with

BODY = b"x" * 3900  # Four records fill a log file.


@pytest.mark.parametrize("read_ahead", [True, False])
def test_each_log_file_is_read_as_the_setting_says_new_ones_and_old_ones(read_ahead):
    settings = replace(SMALL, is_read_ahead=read_ahead)
    store, disk, clock = store_with(settings=settings)
    for _ in range(12):
        put(store, BODY)
    files = len(disk.list_names("/store/commitlog"))
    assert files >= 3
    assert disk.calls["read_randomly"] == (0 if read_ahead else files)
    settle(store, clock)
    store.close()
    disk = disk.kill()
    store = open_store(disk=disk, clock=clock, settings=settings)
    files = len(disk.list_names("/store/commitlog"))
    assert disk.calls["read_randomly"] == (0 if read_ahead else files)
    disk.is_cold = True
    waiting = store.get("orders", 0, 0).cold
    assert waiting is not None
    assert waiting().message_count
    assert (disk.calls["will_need"] > 0) is read_ahead


def test_reading_ahead_is_switched_for_files_that_are_open_and_for_those_that_come():
    disk = FakeDisk()
    store = open_store(disk=disk, clock=HandClock(), settings=SMALL)
    for _ in range(12):
        put(store, BODY)
    files = len(disk.list_names("/store/commitlog"))
    store.change_read_ahead(is_wanted=False)
    assert 3 <= disk.calls["read_randomly"] == files
    for _ in range(12):
        put(store, BODY)
    more = len(disk.list_names("/store/commitlog"))
    assert files < disk.calls["read_randomly"] == more
    store.change_read_ahead(is_wanted=True)
    assert disk.calls["read_normally"] == more
    assert store.get("orders", 0, 0).message_count


def test_a_file_is_mapped_anew_when_its_reading_changes(tmp_path: Path):
    store = open_store(disk=RealDisk(), clock=HandClock(), settings=SMALL, path=str(tmp_path))
    put(store, BODY)
    path = str(next((tmp_path / "commitlog").iterdir()))
    seen = []
    for is_wanted in (True, False, True):
        store.change_read_ahead(is_wanted=is_wanted)
        assert store.get("orders", 0, 0).message_count
        seen.append("rr" in flags_of_map(path))
    assert seen == [False, True, False]
    store.close()


def flags_of_map(path: str) -> list[str]:
    """What the kernel says of this process's newest map of a file; "rr" is random reading."""
    of_map = Path("/proc/self/smaps").read_text().partition(path)[2]
    return of_map.partition("VmFlags:")[2].partition("\n")[0].split()


@pytest.mark.parametrize("is_random", [True, False])
def test_a_map_tells_the_system_how_it_is_read(tmp_path: Path, is_random):
    path, disk = tmp_path / "file", RealDisk()
    path.write_bytes(b"x" * 8192)
    fd = disk.open(str(path))
    disk.read_randomly(fd)
    view = disk.map_readonly(fd, 8192, is_random=is_random)
    assert view[4096] == ord("x")
    assert ("rr" in flags_of_map(str(path))) is is_random
    del view
    disk.close(fd)
