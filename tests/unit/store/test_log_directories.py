"""A log in several directories: files go to them in turn and are found wherever they are."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.model.errors import StoreDamaged, StoreFull
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import SMALL, bodies_of, open_store, put, run_jobs

BODY = b"x" * 7000  # Two fill a log file.


def names(path: Path) -> list[int]:
    return sorted(int(file.name) // SMALL.commitlog_file_size for file in path.iterdir())


def settings_of(*paths: Path, read_only: tuple[Path, ...] = ()):
    return replace(
        SMALL,
        commitlog_paths=tuple(map(str, paths)),
        read_only_commitlog_paths=tuple(map(str, read_only)),
    )


def test_files_go_to_the_directories_in_turn_in_the_order_of_their_names(tmp_path: Path):
    settings = settings_of(tmp_path / "b", tmp_path / "a")
    store = open_store(tmp_path / "store", settings)
    bodies = [b"%d " % number + BODY for number in range(10)]
    put(store, *bodies)
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == ([0, 2, 4], [1, 3])
    store.close()
    store = open_store(tmp_path / "store", settings)
    assert bodies_of(store) == bodies
    store.close()
    assert not (tmp_path / "store" / "commitlog").exists()


def test_a_full_or_readonly_directory_gets_no_file_while_another_has_room(tmp_path: Path):
    a, b, c = (tmp_path / name for name in "abc")
    store = open_store(tmp_path / "store", settings_of(a, b, c))
    put(store, *[BODY] * 6)
    assert [names(path) for path in (a, b, c)] == [[0], [1], [2]]
    store.close()
    store = open_store(tmp_path / "store", settings_of(a, b, c, read_only=(b,)))
    store._log.chain.full_directories = {str(a)}
    put(store, *[BODY] * 4)
    assert [names(path) for path in (a, b, c)] == [[0], [1], [2, 3, 4]]
    store._log.chain.full_directories = {str(a), str(c)}
    put(store, *[BODY] * 4)  # All are full: as if none were.
    assert [names(path) for path in (a, b, c)] == [[0, 6], [1], [2, 3, 4, 5]]
    assert len(bodies_of(store)) == 14
    store.close()


def test_a_directory_without_room_gives_the_file_to_the_next():
    disk = FakeDisk()
    store = open_store(disk=disk, settings=settings_of(Path("/a"), Path("/b")))
    disk.fail("allocate", code=errno.ENOSPC)
    put(store, BODY)
    assert (disk.list_names("/a"), disk.list_names("/b")) == ([], ["0".zfill(20)])
    disk.fail("allocate", code=errno.ENOSPC, forever=True)
    with pytest.raises(StoreFull, match="disk full"):
        put(store, BODY, BODY)
    disk.heal()
    run_jobs(store)
    assert bodies_of(open_store(disk=disk.kill(), settings=settings_of(Path("/a"), Path("/b"))))


def test_files_are_found_in_a_directory_that_only_the_readonly_list_names(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    store = open_store(tmp_path / "store", settings_of(old))
    put(store, b"1" + BODY, b"2" + BODY)
    store.close()
    store = open_store(tmp_path / "store", settings_of(new, read_only=(old,)))
    put(store, b"3" + BODY, b"4" + BODY)
    run_jobs(store)
    assert [body[:1] for body in bodies_of(store)] == [b"1", b"2", b"3", b"4"]
    assert names(old) == [0]
    store.close()


def test_one_log_file_twice_is_named(tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    store = open_store(tmp_path / "store", settings_of(a, b))
    put(store, BODY)
    store.close()
    (b / "0".zfill(20)).write_bytes((a / "0".zfill(20)).read_bytes())
    with pytest.raises(StoreDamaged, match=r"a/0{20}.* are the same log file|b/0{20}.* and"):
        open_store(tmp_path / "store", settings_of(a, b))
