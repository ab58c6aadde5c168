"""dataReadAheadEnable: whether the system may read more of the log than is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.store.disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, open_store, put, settle

BODY = b"x" * 3900  # Four records fill a log file.


@pytest.mark.parametrize("read_ahead", [True, False])
def test_each_log_file_is_read_as_the_setting_says_new_ones_and_old_ones(read_ahead):
    disk, clock = FakeDisk(), HandClock()
    settings = replace(SMALL, read_ahead=read_ahead)
    store = open_store(disk=disk, clock=clock, settings=settings)
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


@pytest.mark.parametrize("is_random", [True, False])
def test_a_map_tells_the_system_how_it_is_read(tmp_path: Path, is_random):
    path, disk = tmp_path / "file", RealDisk()
    path.write_bytes(b"x" * 8192)
    fd = disk.open(str(path))
    disk.read_randomly(fd)
    view = disk.map_readonly(fd, 8192, is_random=is_random)
    assert view[4096] == ord("x")
    of_map = Path("/proc/self/smaps").read_text().partition(str(path))[2]
    flags = of_map.partition("VmFlags:")[2].partition("\n")[0].split()
    assert ("rr" in flags) is is_random  # What the kernel calls "random read".
    del view
    disk.close(fd)
