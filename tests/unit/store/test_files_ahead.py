"""The next log files are there before they are needed, warm and in memory where that is configured."""

from __future__ import annotations

import errno
import random
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.model.errors import StoreDamaged, StoreFull, StorePoisoned
from cometmq.store import staged_log
from cometmq.store.real_disk import RealDisk
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import (
    FILE,
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    queue_of,
    run_jobs,
    store_with,
    writing,
)

WARM = replace(SMALL, is_warmed=True, warm_flush_pages=1)


def file_count(disk: FakeDisk) -> int:
    return len(disk.list_names("/store/commitlog"))


def test_the_next_is_made_at_half_and_the_next_but_one_at_three_quarters(disk):
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


def test_a_put_waits_for_no_file_that_was_made_ahead(disk):
    store = open_store(disk=disk)
    for _ in range(40):
        made = disk.calls["allocate"]
        put(store, b"x" * 7000)
        assert disk.calls["allocate"] == made or made == 0
        run_jobs(store)


def test_both_are_removed_by_a_clean_stop_and_taken_as_the_log_s_end_after_a_kill(disk):
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
def test_a_file_that_cannot_be_warmed_is_used_cold(call, caplog, disk):
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


def test_a_file_made_ahead_for_an_empty_log_is_not_taken_for_one_that_begins_later(disk):
    """A slave of a master whose oldest files are gone begins in the middle."""
    source, _, _ = store_with(*[b"x" * 1950] * 9)
    content = source.read_log(FILE, FILE)
    assert content is not None
    copy = open_store(disk=disk)
    run_jobs(copy)
    assert file_count(disk) == 1
    assert copy.append_raw(FILE, bytes(content)) == source.max_offset
    assert copy.min_offset == FILE
    assert disk.list_names("/store/commitlog") == [f"{FILE:020d}"]


HALF = b"x" * 7000  # Two fill a log file.


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
    bodies = [b"%d " % number + HALF for number in range(10)]
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
    put(store, *[HALF] * 6)
    assert [names(path) for path in (a, b, c)] == [[0], [1], [2]]
    store.close()
    store = open_store(tmp_path / "store", settings_of(a, b, c, read_only=(b,)))
    store._log.chain.full_directories = {str(a)}
    put(store, *[HALF] * 4)
    assert [names(path) for path in (a, b, c)] == [[0], [1], [2, 3, 4]]
    store._log.chain.full_directories = {str(a), str(c)}
    put(store, *[HALF] * 4)  # All are full: as if none were.
    assert [names(path) for path in (a, b, c)] == [[0, 6], [1], [2, 3, 4, 5]]
    assert len(bodies_of(store)) == 14
    store.close()


def test_a_directory_without_room_gives_the_file_to_the_next(disk):
    store = open_store(disk=disk, settings=settings_of(Path("/a"), Path("/b")))
    disk.fail("allocate", code=errno.ENOSPC)
    put(store, HALF)
    assert (disk.list_names("/a"), disk.list_names("/b")) == ([], ["0".zfill(20)])
    disk.fail("allocate", code=errno.ENOSPC, forever=True)
    with pytest.raises(StoreFull, match="disk full"):
        put(store, HALF, HALF)
    disk.heal()
    run_jobs(store)
    assert bodies_of(open_store(disk=disk.kill(), settings=settings_of(Path("/a"), Path("/b"))))


def test_files_are_found_in_a_directory_that_only_the_readonly_list_names(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    with writing(tmp_path / "store", settings_of(old)) as store:
        put(store, b"1" + HALF, b"2" + HALF)
    store = open_store(tmp_path / "store", settings_of(new, read_only=(old,)))
    put(store, b"3" + HALF, b"4" + HALF)
    run_jobs(store)
    assert [body[:1] for body in bodies_of(store)] == [b"1", b"2", b"3", b"4"]
    assert names(old) == [0]
    store.close()


def test_one_log_file_twice_is_named(tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    with writing(tmp_path / "store", settings_of(a, b)) as store:
        put(store, HALF)
    (b / "0".zfill(20)).write_bytes((a / "0".zfill(20)).read_bytes())
    with pytest.raises(StoreDamaged, match=r"a/0{20}.* are the same log file|b/0{20}.* and"):
        open_store(tmp_path / "store", settings_of(a, b))


POOL = replace(SMALL, pool_buffers=1)


def staged_store(**more):
    return store_with(settings=replace(POOL, **more))


def test_a_put_writes_nothing_and_is_shown_when_the_interval_is_over():
    store, disk, clock = staged_store()
    store.tick()
    put(store, b"1")
    store.tick()  # The first commit is due at once.
    told: list[object] = []
    store.on_arrival = lambda queue, codes: told.append(queue)
    queue = queue_of(store)
    queue.watched = True
    written = disk.calls["pwrite"]
    end = put(store, b"2", b"3")
    put(store, b"4", topic="bills")
    store.tick()
    assert disk.calls["pwrite"] == written
    assert bodies_of(store) == [b"1"]
    assert store.read_record(end - 100) is None
    clock.turn(0.2)
    store.tick()
    assert disk.calls["pwrite"] == written + 1  # One write for both batches.
    assert (bodies_of(store), bodies_of(store, "bills")) == ([b"1", b"2", b"3"], [b"4"])
    assert told == [queue]


def test_only_what_is_in_the_files_is_flushed():
    store, _, clock = staged_store(flush_interval_ms=1, flush_least_pages=0)
    store.tick()
    first = put(store, b"1")
    store.tick()
    clock.turn(0.01)
    put(store, b"2")
    flush(store)
    assert store.flushed_offset == first


def test_a_kill_loses_what_waited_and_nothing_before_it():
    store, disk, clock = staged_store()
    bodies = [b"%d " % n + b"x" * 3000 for n in range(30)]
    for number, body in enumerate(bodies):
        put(store, body)
        if number == 19:
            clock.turn(1)
            run_jobs(store)
    again = open_store(disk=disk.kill(), settings=POOL)
    assert bodies_of(again) == bodies[:20]
    put(again, b"more")
    again.close()
    store.close()
    assert bodies_of(open_store(disk=disk.kill())) == bodies


def test_a_full_pool_is_written_and_a_batch_beyond_it_goes_straight(monkeypatch):
    monkeypatch.setattr(staged_log, "BUFFER_SIZE", 8192)
    store, _, _ = staged_store()
    store.tick()
    bodies = [b"%d " % n + b"x" * 3000 for n in range(3)]
    for body in bodies:
        put(store, body)
    assert bodies_of(store) == bodies[:2]  # The third found no room.
    many = [b"%d " % n + b"y" * 3000 for n in range(5)]
    put(store, *many)
    assert bodies_of(store) == bodies + many


def test_a_write_that_fails_is_final():
    store, disk, clock = staged_store()
    store.tick()
    put(store, b"1")
    store.tick()
    put(store, b"2")
    disk.fail("pwrite", code=errno.EIO)
    clock.turn(1)
    store.tick()
    with pytest.raises(StorePoisoned, match="cannot be written"):
        store.put_many([make_put(store)])
    assert bodies_of(store) == [b"1"]


def test_whatever_the_sizes_records_lie_as_without_a_pool():
    chance = random.Random(7)
    batches = [
        [bytes(chance.randrange(1, 6000)) for _ in range(chance.randrange(1, 5))]
        for _ in range(60)
    ]
    content = []
    for settings in (SMALL, POOL):
        store, disk, _ = store_with(settings=settings)
        for batch in batches:
            put(store, *batch)
            run_jobs(store, ticks=1)
        store.close()
        names = disk.list_names("/store/commitlog")
        content.append([disk.content(f"/store/commitlog/{name}") for name in names])
    assert content[0] == content[1]
