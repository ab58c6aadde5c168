"""Who may open a directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.model.errors import StoreLocked
from cometmq.store.lock import AbortMarker, DirectoryLock, is_locked
from cometmq.store.real_disk import RealDisk

TAKE = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
except OSError:
    print("refused")
else:
    print("taken", flush=True)
    sys.stdin.read()
"""


def test_a_second_opening_in_this_process_is_refused(tmp_path: Path):
    first, second = (DirectoryLock(RealDisk(), str(tmp_path)) for _ in range(2))
    first.take()
    assert (tmp_path / "lock").read_bytes() == b"lock"
    with pytest.raises(StoreLocked, match="already open in this process"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_link_to_the_directory_is_the_same_directory(tmp_path: Path):
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    first = DirectoryLock(RealDisk(), str(tmp_path / "store"))
    first.take()
    with pytest.raises(StoreLocked):
        DirectoryLock(RealDisk(), str(tmp_path / "link")).take()
    first.release()


def test_a_refused_second_opening_leaves_the_lock_to_the_first(tmp_path: Path):
    """Closing any descriptor of a locked file gives up a POSIX lock; none must be opened."""
    lock = DirectoryLock(RealDisk(), str(tmp_path))
    lock.take()
    with pytest.raises(StoreLocked):
        DirectoryLock(RealDisk(), str(tmp_path)).take()
    command = [sys.executable, "-c", TAKE, str(tmp_path / "lock")]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "refused"
    lock.release()


def test_another_process_that_has_it_is_named_as_the_reason(tmp_path: Path):
    (tmp_path / "lock").write_bytes(b"lock")
    command = [sys.executable, "-c", TAKE, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"taken\n"
        with pytest.raises(StoreLocked, match="another broker has locked"):
            DirectoryLock(RealDisk(), str(tmp_path)).take()
        assert is_locked(RealDisk(), str(tmp_path))
        other.communicate()  # With a time limit it would sleep between its looks.
    lock = DirectoryLock(RealDisk(), str(tmp_path))
    lock.take()
    lock.release()


def test_the_abort_marker_is_there_from_set_to_clear(tmp_path: Path):
    marker = AbortMarker(RealDisk(), str(tmp_path))
    assert not marker.is_set()
    marker.set()
    assert marker.is_set()
    assert (tmp_path / "abort").read_text().isdigit()
    marker.clear()
    marker.clear()
    assert not marker.is_set()


def test_who_asks_whether_it_is_locked_takes_and_makes_nothing(tmp_path: Path):
    assert not is_locked(RealDisk(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    lock = DirectoryLock(RealDisk(), str(tmp_path))
    lock.take()
    assert is_locked(RealDisk(), str(tmp_path))
    command = [sys.executable, "-c", TAKE, str(tmp_path / "lock")]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "refused", "the lock is still held"
    lock.release()
    assert not is_locked(RealDisk(), str(tmp_path))
