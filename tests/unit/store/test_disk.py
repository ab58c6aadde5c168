"""The suite that every `Disk` passes: a fake one is only trusted for what it shows here."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.store.disk import Disk, read_file, write_file, write_whole
from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk


@pytest.fixture(params=["real", "fake"])
def place(request, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = FakeDisk()
    disk.make_directory("/place")
    return disk, "/place"


@pytest.fixture
def file(place) -> Iterator[tuple[Disk, str, int]]:
    """A disk, a folder of it, and the descriptor of a new file there, which is closed in the end."""
    disk, root = place
    fd = disk.open(f"{root}/file", create=True)
    yield disk, root, fd
    disk.close(fd)


def test_what_is_written_at_an_offset_is_read_there(file):
    disk, _, fd = file
    assert disk.pwrite(fd, memoryview(b"abcdef"), 10) == 6
    assert disk.pread(fd, 4, 12) == b"cdef"
    assert disk.pread(fd, 100, 12) == b"cdef"
    assert disk.pread(fd, 4, 0) == bytes(4)
    assert disk.size(fd) == 16


def test_a_missing_file_is_not_made_by_opening_it(place):
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/file")
    assert not disk.exists(f"{root}/file")


def test_a_file_opened_for_reading_cannot_be_written(place):
    disk, root = place
    disk.close(disk.open(f"{root}/file", create=True))
    fd = disk.open(f"{root}/file", write=False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pwrite(fd, b"x", 0)
    disk.close(fd)


def test_allocated_and_resized_files_read_as_zeros(file):
    disk, _, fd = file
    disk.allocate(fd, 10_000)
    assert disk.size(fd) == 10_000
    assert disk.pread(fd, 10_000, 0) == bytes(10_000)
    disk.resize(fd, 20_000)
    assert disk.pread(fd, 20_000, 0) == bytes(20_000)
    disk.resize(fd, 5)
    assert disk.size(fd) == 5


def test_a_map_shows_what_is_written_later(place):
    disk, root = place
    fd = disk.open(f"{root}/file", create=True)
    disk.allocate(fd, 8192)
    view = disk.map_readonly(fd, 8192)
    disk.pwrite(fd, b"late", 5000)
    assert view[5000:5004] == b"late"
    with pytest.raises(TypeError):
        view[0] = 1
    disk.close(fd)
    assert view[5000:5004] == b"late"


def test_clearing_leaves_the_front_and_the_size(file):
    disk, _, fd = file
    disk.resize(fd, 3 << 20)
    disk.pwrite(fd, b"x" * 9000, 0)
    disk.pwrite(fd, b"y" * 9000, 2 << 20)
    disk.clear_from(fd, 100)
    assert disk.pread(fd, 101, 0) == b"x" * 100 + b"\0"
    assert disk.pread(fd, 3 << 20, 100) == bytes((3 << 20) - 100)
    assert disk.size(fd) == 3 << 20


def test_what_is_written_is_found_between_holes(file):
    disk, _, fd = file
    disk.resize(fd, 3 << 20)
    assert disk.written(fd, 0) == []
    disk.pwrite(fd, b"y" * 9000, 2 << 20)
    [(start, end)] = disk.written(fd, 100)
    assert 100 <= start <= 2 << 20
    assert (2 << 20) + 9000 <= end <= 3 << 20
    assert not any(disk.written(fd, end))


def test_reading_without_waiting_gives_all_or_nothing(file):
    disk, _, fd = file
    disk.pwrite(fd, b"abcdef", 0)
    piece = disk.pread_nowait(fd, 6, 0)
    assert piece is None or bytes(piece) == b"abcdef"
    assert disk.pread_nowait(fd, 7, 0) is None
    disk.will_need(fd, 0, 6)


def test_names_come_and_go(place):
    disk, root = place
    assert disk.list_names(f"{root}/none") == []
    disk.make_directory(f"{root}/a/b")
    disk.make_directory(f"{root}/a/b")
    for name in ("two", "one"):
        disk.close(disk.open(f"{root}/a/{name}", create=True))
    disk.sync_directory(f"{root}/a")
    assert disk.list_names(f"{root}/a") == ["b", "one", "two"]
    disk.rename(f"{root}/a/one", f"{root}/a/two")
    assert disk.list_names(f"{root}/a") == ["b", "two"]
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(f"{root}/a")
    disk.unlink(f"{root}/a/two")
    disk.remove_directory(f"{root}/a/b")
    disk.remove_directory(f"{root}/a")
    assert not disk.exists(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.unlink(f"{root}/a/two")


def test_a_write_that_has_begun_is_nowhere_before_a_sync_and_fails_nobody(place):
    disk, root = place
    fd = disk.open(f"{root}/file", create=True)
    disk.pwrite(fd, b"0123456789", 0)
    disk.begin_writing(fd, 2, 5)
    assert disk.pread(fd, 10, 0) == b"0123456789"
    if isinstance(disk, FakeDisk):
        disk.sync_directory(root)
        assert disk.power_cut().content(f"{root}/file") == b""
    disk.fdatasync(fd)
    disk.close(fd)
    reader = disk.open(f"{root}/file", write=False)
    disk.begin_writing(reader, 1 << 40, 5)  # Nothing is there.
    disk.close(reader)


def test_everything_can_be_synced_at_once(file):
    disk, root, fd = file
    disk.pwrite(fd, b"x", 0)
    disk.sync_all(root)
    if isinstance(disk, FakeDisk):
        assert disk.power_cut().content(f"{root}/file") == b"x"


def test_space_is_counted_as_df_does(place):
    disk, root = place
    space = disk.space(root)
    assert space.available > 0
    assert 0 <= space.used_percent <= 100


def test_a_small_file_is_replaced_whole(place):
    disk, root = place
    write_file(disk, f"{root}/file", b"first, and longer")
    write_file(disk, f"{root}/file", b"second")
    assert read_file(disk, f"{root}/file") == b"second"
    assert disk.list_names(root) == ["file"]


def test_a_byte_zero_can_be_locked(file):
    disk, _, fd = file
    assert disk.lock(fd)


def test_short_writes_are_completed(disk):
    disk.write_max = 3
    disk.make_directory("/d")
    fd = disk.open("/d/file", create=True)
    write_whole(disk, fd, b"0123456789", 2)
    assert disk.content("/d/file") == b"\0\0" + b"0123456789"
    assert disk.calls["pwrite"] == 4


def test_a_power_cut_takes_what_was_not_synced(disk):
    disk.make_directory("/d")
    for name in ("synced", "unsynced", "nameless"):
        fd = disk.open(f"/d/{name}", create=True)
        disk.pwrite(fd, b"x", 0)
        if name == "unsynced":
            disk.sync_directory("/d")
        else:
            disk.fdatasync(fd)
    after = disk.power_cut()
    assert after.content("/d/synced") == b"x"
    assert after.content("/d/unsynced") == b""
    assert not after.exists("/d/nameless")
    assert disk.kill().content("/d/nameless") == b"x"


def test_a_full_fake_disk_says_so_and_takes_again_after_an_unlink():
    disk = FakeDisk(room=8192)
    disk.make_directory("/d")
    first = disk.open("/d/first", create=True)
    disk.allocate(first, 8192)
    second = disk.open("/d/second", create=True)
    with pytest.raises(OSError, match="No space") as caught:
        disk.pwrite(second, b"x", 0)
    assert caught.value.errno == errno.ENOSPC
    disk.pwrite(first, b"x", 0)
    disk.unlink("/d/first")
    assert disk.pwrite(second, b"x", 0) == 1


def test_a_new_file_is_not_one_that_is_there(place):
    disk, root = place
    disk.close(disk.open(f"{root}/file", create=True))
    with pytest.raises(FileExistsError):
        disk.open(f"{root}/file", create=True, is_new=True)


def test_a_small_file_was_written_through_a_link_to_another(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (tmp_path / "overlay.tmp").symlink_to(victim)
    write_file(RealDisk(), str(tmp_path / "overlay"), b"new")
    assert victim.read_text() == "as it was"
    assert (tmp_path / "overlay").read_bytes() == b"new"
    assert not (tmp_path / "overlay").is_symlink()


def test_what_the_store_writes_could_be_read_by_each_local_user(tmp_path):
    before = os.umask(0)
    try:
        disk, folder = RealDisk(), tmp_path / "store" / "commitlog"
        disk.make_directory(str(folder))
        disk.close(disk.open(str(folder / "0"), create=True))
        write_file(disk, str(folder / "overlay"), b"new")
    finally:
        os.umask(before)
    made = [folder.parent, folder, folder / "0", folder / "overlay"]
    assert [each.stat().st_mode & 0o777 for each in made] == [0o700, 0o700, 0o600, 0o600]
