"""Which directories are not opened: each part and each piece of evidence alone, and what is no reason."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError, StoreDamaged, StoreLocked
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.store.folder_check import check_writable
from cometmq.store.lock import AbortMarker, DirectoryLock, is_locked
from cometmq.store.real_disk import RealDisk
from tests.support.store_puts import bodies_of, open_store, put, writing

PARTS = {
    "config/rdb/CURRENT": False,
    "config/topics/000004.sst": False,
    "config/subscriptionGroups/CURRENT": False,
    "config/consumerOffsets/CURRENT": False,
    "config/somethingNew/CURRENT": False,
    "kvStore/CURRENT": False,
    "RocksDBMessageStore/CURRENT": False,
    "consumequeue/CURRENT": True,
    "config/tieredStoreMetadata.json": True,
    "dledger-n0/data": True,
}


@pytest.fixture
def store(tmp_path):
    """A store with a message, closed."""
    with writing(tmp_path) as store:
        put(store, b"x")
    return tmp_path


@pytest.mark.parametrize("name", PARTS)
def test_each_part_alone_is_named(store, name):
    part = store / name
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text("MANIFEST-000005\n")
    place = name.removesuffix("/CURRENT").removesuffix("/data").removesuffix("/000004.sst")
    with pytest.raises(StoreDamaged, match=f"{place} holds .*(move|import-dledger)"):
        open_store(store)
    if PARTS[name]:
        with pytest.raises(StoreDamaged, match=place):
            find_store(str(store), None, RealDisk())
        with pytest.raises(StoreDamaged, match=place):
            open_store(store, read_only=True)
        with pytest.raises(StoreDamaged, match=place):
            StoreFolder(str(store)).log_files()  # By it Spark and Arrow read.
    else:
        find_store(str(store), None, RealDisk()).close()


@pytest.mark.parametrize(
    "name", ["config/users", "config/acls", "config/rdb", "dledger-n0", "kvStore"]
)
def test_users_and_empty_folders_are_no_reason(store, name):
    (store / name).mkdir(parents=True)
    if name in ("config/users", "config/acls"):
        (store / name / "CURRENT").write_text("MANIFEST-000005\n")
    open_store(store).close()


def database(folder: Path, *, log: bytes = b"", table: str = "") -> Path:
    """The files of a RocksDB database, as RocketMQ 5.5.0 leaves them; `table` names one of its tables."""
    folder.mkdir(parents=True)
    (folder / "CURRENT").write_text("MANIFEST-000005\n")
    (folder / "MANIFEST-000005").write_bytes(b"x" * 170)
    (folder / "OPTIONS-000009").write_text("[Version]\n")
    for name in ("IDENTITY", "LOCK"):
        (folder / name).touch()
    (folder / "000004.log").write_bytes(log)
    if table:
        (folder / table).touch()
    return folder


@pytest.mark.parametrize("place", ["rocksdbstore", "kvStore", "config/topics", "config/rdb"])
def test_a_database_without_an_entry_is_noted_and_skipped(store, place, caplog):
    """RocketMQ 5.5.0 makes an empty `rocksdbstore` with its default settings."""
    before = sorted(database(store / place).iterdir())
    with caplog.at_level("INFO"):
        open_store(store).close()
    assert f"{place} is an empty RocksDB database" in caplog.text
    assert sorted((store / place).iterdir()) == before


@pytest.mark.parametrize(
    "filled",
    [{"log": b"x"}, {"table": "000007.sst"}, {"table": "000007.blob"}],
    ids=["log", "table", "blob"],
)
@pytest.mark.parametrize("place", ["rocksdbstore", "config/topics"])
def test_a_database_with_an_entry_is_refused(store, place, filled):
    database(store / place, **filled)
    with pytest.raises(StoreDamaged, match=f"{place} holds .*move"):
        open_store(store)


def test_a_database_without_its_log_is_refused(store):
    (database(store / "rocksdbstore") / "000004.log").unlink()
    with pytest.raises(StoreDamaged, match=r"rocksdbstore holds .*move"):
        open_store(store)


def with_offset(store: Path, offset: int) -> None:
    text = f'{{"offsetTable":{{"orders@g":{{0:{offset}}}}}}}'
    (store / "config" / "consumerOffset.json").write_text(text)


@pytest.mark.parametrize("left", ["checkpoint.cometmq", "checkpoint", "consumequeue", "config"])
def test_each_thing_that_is_left_says_that_there_was_a_log(store, left):
    with_offset(store, 1)
    for path in store.iterdir():
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = sorted(store.rglob("*"))
    for read_only in (False, True):
        with pytest.raises(StoreDamaged, match="storePathCommitLog"):
            open_store(store, read_only=read_only)
    assert sorted(store.rglob("*")) == before


def test_a_table_of_offsets_at_zero_is_no_sign_of_a_log(tmp_path):
    (tmp_path / "config").mkdir()
    with_offset(tmp_path, 0)
    open_store(tmp_path).close()


def test_offsets_of_a_store_that_never_had_a_message_are_no_sign_of_a_log(tmp_path):
    open_store(tmp_path)._directory.release()
    with_offset(tmp_path, 1)
    open_store(tmp_path).close()


WRITING = (
    "pwrite", "resize", "allocate", "clear_from", "begin_writing", "fdatasync", "sync_all", "sync_directory",
    "make_directory", "remove_directory", "rename", "unlink",
)  # fmt: skip


def read_only_disk() -> RealDisk:
    """A mount that takes no write, whoever asks; root is asked by no permission of a file."""
    disk = RealDisk()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def open_file(path: str, *, create: bool = False, write: bool = True) -> int:
        if create or write:
            refuse()
        return RealDisk.open(disk, path, write=False)

    for name in WRITING:
        assert hasattr(disk, name)
        setattr(disk, name, refuse)
    setattr(disk, "open", open_file)  # noqa: B010  A method.
    return disk


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_store_on_a_read_only_mount_can_be_read(tmp_path, is_closed):
    """Its files are opened for reading alone, and what a killed broker left to do is done in memory."""
    disk = RealDisk()
    store = open_store(tmp_path, disk=disk)
    for number in range(40):
        put(store, b"%d" % number * 400)
    if is_closed:
        store.close()
    other = open_store(tmp_path, disk=read_only_disk(), read_only=True)
    assert bodies_of(other) == [b"%d" % number * 400 for number in range(40)]
    assert len([*(tmp_path / "commitlog").iterdir()]) > 1
    other.close()
    find_store(str(tmp_path), None, read_only_disk()).close()
    if not is_closed:
        store.close()


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


def is_refused_to_others(folder: Path) -> bool:
    command = [sys.executable, "-c", TAKE, str(folder / "lock")]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    return asked.stdout.strip() == "refused"


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
    assert is_refused_to_others(tmp_path)
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
    assert is_refused_to_others(tmp_path), "the lock is still held"
    lock.release()
    assert not is_locked(RealDisk(), str(tmp_path))


def test_a_folder_that_is_there_or_can_be_made_is_fine(tmp_path: Path):
    check_writable("storePathRootDir", str(tmp_path))
    check_writable("storePathRootDir", str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_on_the_way_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    wanted = f"^storePathRootDir={tmp_path}/file/a: {tmp_path}/file is not a folder"
    with pytest.raises(SettingsError, match=wanted):
        check_writable("storePathRootDir", str(tmp_path / "file" / "a"))


def test_what_cannot_be_written_even_by_root_is_named():
    with pytest.raises(SettingsError, match="it cannot be made in /proc/self by the user"):
        check_writable("storePathRootDir", "/proc/self/a")
