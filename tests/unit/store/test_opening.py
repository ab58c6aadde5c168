"""Which directories are not opened: each part and each piece of evidence alone, and what is no reason."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from cometmq.model.errors import StoreDamaged
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.store.real_disk import RealDisk
from tests.support.store_puts import bodies_of, open_store, put

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
    store = open_store(tmp_path)
    put(store, b"x")
    store.close()
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


@pytest.mark.parametrize("left", ["checkpoint.cometmq", "checkpoint", "consumequeue", "config"])
def test_each_thing_that_is_left_says_that_there_was_a_log(store, left):
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"orders@g":{0:1}}}')
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
    (tmp_path / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"orders@g":{0:0}}}'
    )
    open_store(tmp_path).close()


def test_offsets_of_a_store_that_never_had_a_message_are_no_sign_of_a_log(tmp_path):
    open_store(tmp_path)._directory.release()
    (tmp_path / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"orders@g":{0:1}}}'
    )
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
