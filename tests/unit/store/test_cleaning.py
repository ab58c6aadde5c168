"""Old files go: which, when, in what order; and what readers of them are told."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.fastjson import dumps
from cometmq.codec.record import decode_records
from cometmq.model.errors import StoreFull
from cometmq.store.archive_mark import note_archived
from cometmq.store.clock_watch import BELIEVED_AFTER_S, ClockWatch
from cometmq.store.derived import Derived, Step
from cometmq.store.disk import Buffer, write_file
from cometmq.store.log_file import LogFile
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult, GetStatus
from cometmq.store.real_disk import RealDisk
from cometmq.store.retention import DeletionCause, Retention
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    BODY,
    FILE,
    NEVER,
    SMALL,
    bodies_of,
    clean,
    make_put,
    open_store,
    put,
    queue_of,
    run_jobs,
    settle,
)

HOUR_S = 3600
FORCED = replace(NEVER, retention=replace(NEVER.retention, is_clean_forced=True))


def log_names(disk: FakeDisk) -> list[int]:
    return [int(name) for name in disk.list_names("/store/commitlog")]


def store_of(files: int, settings=NEVER, *, topic: str = "orders"):
    """A store whose log has so many files, an hour apart, and is settled."""
    disk, clock = FakeDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=settings)
    for number in range(files * 4):
        put(store, b"%d " % number + BODY, topic=topic)
        if number % 4 == 3:
            settle(store, clock)
            clock.turn(HOUR_S)
    assert len(log_names(disk)) >= files
    return store, disk, clock


def first_left(store: MessageStore, disk: FakeDisk) -> int:
    """Clean; where the log begins then."""
    clean(store)
    return log_names(disk)[0]


def test_an_expired_file_goes_and_the_queue_begins_behind_it():
    store, disk, clock = store_of(4)
    clock.turn(70 * HOUR_S)  # The first was last written 74 hours ago, the second 73.
    clean(store)
    assert log_names(disk)[:1] == [2 * FILE]
    queue = queue_of(store)
    assert (queue.min_offset, queue.max_offset) == (8, 16)
    assert store.min_offset == 2 * FILE
    assert [body.split()[0] for body in bodies_of(store)] == [b"%d" % n for n in range(8, 16)]


def test_a_reader_before_the_start_is_sent_to_it_and_one_in_between_goes_on_behind():
    store, _, clock = store_of(4)
    clock.turn(70 * HOUR_S)
    store.cleaner.ask()
    for _ in range(2):  # Two files have gone, and nobody has looked at the queue.
        step = store.clean_due()
        assert step is not None
        step()
    early = store.get("orders", 0, 0, max_count=3)
    assert (early.status, early.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 3)
    across = store.get("orders", 0, 3)
    assert (across.status, across.message_count) == (GetStatus.FOUND, 8)
    clean(store, is_asked=False)
    late = store.get("orders", 0, 0)
    assert (late.status, late.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 8)
    assert late.min_offset == 8


@pytest.mark.parametrize(
    ("hours", "is_asked", "is_full", "goes"),
    [
        ({4}, False, False, True),
        ({16, 4}, False, False, True),
        ({5}, False, False, False),
        (set(), True, False, True),
        (set(), False, True, True),
    ],
)
def test_expired_files_go_at_the_hour_when_asked_or_when_the_disk_is_used(
    hours, is_asked, is_full, goes, monkeypatch
):
    monkeypatch.setenv("TZ", "UTC-3")  # Three hours east: local time counts.
    time.tzset()
    try:
        settings = replace(SMALL, retention=Retention(delete_hours=frozenset(hours)))
        store, disk, clock = store_of(2, settings)
        to_one = 24 * HOUR_S - clock.now_ms() // 1000 % (24 * HOUR_S) + HOUR_S
        clock.turn(to_one + 96 * HOUR_S)  # One o'clock in UTC.
        if is_full:
            disk.used, disk.room = 76, 24
        clean(store, is_asked=is_asked)
        assert (log_names(disk)[0] > 0) is goes
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nothing_that_has_not_expired_goes_and_nothing_is_forced_unless_allowed():
    store, disk, _ = store_of(4)
    disk.used, disk.room = 99, 1
    assert first_left(store, disk) == 0


def test_when_allowed_no_more_is_forced_than_the_ratio_needs():
    store, disk, _ = store_of(6, FORCED)
    disk.capacity = (
        (disk.used_bytes - FILE - FILE // 2) * 100 // 85
    )  # One file and a half too many.
    assert first_left(store, disk) == 2 * FILE
    assert first_left(store, disk) == 2 * FILE


def test_a_file_that_somebody_reads_is_given_back_when_he_is_done_and_no_other_goes_for_it():
    store, disk, _ = store_of(6, FORCED)
    reader = store._log.chain.files[0]
    first = reader.read(0, FILE)
    disk.capacity = (disk.used_bytes - FILE // 2) * 100 // 85
    for _ in range(2):
        clean(store)
    assert first_left(store, disk) == FILE
    assert reader.read(0, FILE) == first
    del reader
    gc.collect()
    assert disk.space("/store").used_percent <= 85
    assert first_left(store, disk) == FILE


def test_the_newest_file_and_what_no_checkpoint_covers_stay():
    store, disk, clock = store_of(2)
    clock.turn(100 * HOUR_S)
    clean(store)
    assert len(log_names(disk)) >= 1
    assert store.max_offset - store.min_offset <= FILE
    disk, clock = FakeDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=NEVER)
    put(store, *[BODY] * 12)
    clock.turn(100 * HOUR_S)  # Nothing was flushed, no checkpoint made.
    assert first_left(store, disk) == 0


def test_a_round_takes_no_more_than_the_batch():
    settings = replace(NEVER, retention=replace(NEVER.retention, delete_batch_max=2))
    store, disk, clock = store_of(6, settings)
    clock.turn(100 * HOUR_S)
    assert first_left(store, disk) == 2 * FILE
    assert first_left(store, disk) == 4 * FILE


def test_a_name_that_cannot_be_removed_is_tried_again_later_and_nothing_newer_goes_before():
    store, disk, clock = store_of(4)
    clock.turn(100 * HOUR_S)
    disk.fail("unlink", code=errno.EBUSY)
    assert first_left(store, disk) == 0
    clean(store)
    assert log_names(disk)[:2] == [0, FILE]
    clock.turn(121)
    assert first_left(store, disk) > FILE
    assert bodies_of(store)[0].split()[0] != b"0"


def test_queue_files_before_the_min_offset_go_but_never_the_newest():
    store, disk, clock = store_of(4, topic="orders")
    for _ in range(12):  # Many small messages: 20 entries fill a queue file.
        put(store, *[b"small"] * 10, topic="many")
        settle(store, clock)
    clock.turn(100 * HOUR_S)
    clean(store)
    many = queue_of(store, "many")
    names = disk.list_names("/store/consumequeue/many/0")
    assert int(names[0]) // 20 <= many.min_offset
    assert many.min_offset < int(names[0]) // 20 + 20
    orders = disk.list_names("/store/consumequeue/orders/0")
    assert orders == ["0".zfill(20)]
    store.close()
    again = open_store(disk=disk.kill(), clock=clock, settings=NEVER)
    found = queue_of(again, "many")
    assert (found.min_offset, found.max_offset) == (many.min_offset, 120)


def test_an_empty_queue_goes_on_where_it_was():
    store, disk, clock = store_of(2, topic="once")
    for number in range(12):
        put(store, b"%d " % number + BODY, topic="other")
    settle(store, clock)
    clock.turn(100 * HOUR_S)
    clean(store)
    once = queue_of(store, "once")
    assert (once.min_offset, once.max_offset) == (8, 8)
    assert store.get("once", 0, 3).status is GetStatus.OFFSET_TOO_SMALL
    assert store.get("once", 0, 8).status is GetStatus.OFFSET_OVERFLOW_ONE
    put(store, b"again", topic="once")
    settle(store, clock)
    store.close()
    again = open_store(disk=disk.kill(), settings=NEVER)
    assert bodies_of(again, "once") == [b"again"]


def test_followers_are_told_the_new_start_once():
    store, _, clock = store_of(4)

    class Follower(Derived):
        told: list[int] = []  # noqa: RUF012

        def delete_before(self, offset: int) -> Iterator[Step]:
            steps.append("begun")
            yield lambda: self.told.append(offset)
            steps.append("ended")

        def files_before(self, offset: int) -> list[str]:
            return [f"index before {offset}"]

    steps: list[str] = []
    follower = Follower()
    store._directory.derived.append(follower)
    clock.turn(70 * HOUR_S)
    assert "index before 32768" in [doomed.path for doomed in store.cleaner.plan()]
    assert follower.told == []
    clean(store)
    clean(store)
    assert follower.told == [2 * FILE]
    assert steps == ["begun", "ended"]


@pytest.mark.parametrize("is_lent", [True, False])
def test_what_fails_to_follow_the_log_stops_no_other_and_is_asked_again(is_lent):
    store, _, clock = store_of(4)
    told: list[int] = []

    class Follower(Derived):
        fails = True

        def delete_before(self, offset: int) -> Iterator[Step]:
            def step() -> None:
                told.append(offset)
                if self.fails:
                    raise OSError(errno.EIO, "it failed")

            if not is_lent:
                step()
            yield step if is_lent else lambda: None

    store._directory.derived.insert(0, failing := Follower())
    clock.turn(70 * HOUR_S)
    clean(store)
    queue = queue_of(store)
    assert queue.min_offset > 0
    clean(store)
    failing.fails = False
    clean(store)
    clean(store)
    assert told == [2 * FILE] * 3


def test_the_plan_names_what_goes_and_changes_nothing():
    store, disk, clock = store_of(4)
    clock.turn(70 * HOUR_S)
    before = dict(disk.names)
    plan = store.cleaner.plan()
    assert [(doomed.path, doomed.cause) for doomed in plan] == [
        ("/store/commitlog/00000000000000000000", DeletionCause.HOUR),
        ("/store/commitlog/00000000000000016384", DeletionCause.HOUR),
    ]
    assert disk.names == before
    clean(store)
    assert set(before) - set(disk.names) == {doomed.path for doomed in plan}


def test_sends_go_on_by_themselves_when_a_forced_round_has_made_room():
    store, disk, clock = store_of(6, FORCED)
    disk.capacity = disk.used_bytes * 100 // 93
    clock.turn(2)
    run_jobs(store)
    with pytest.raises(StoreFull, match="diskSpaceWarningLevelRatio"):
        put(store, b"refused")
    clean(store, is_asked=False)
    gc.collect()
    clock.turn(2)
    run_jobs(store)
    assert disk.space("/").used_percent <= 88
    put(store, b"taken")


def test_on_a_real_disk_views_and_cold_reads_of_a_removed_file_stay_right(tmp_path: Path):
    clock = HandClock(int(time.time() * 1000))
    store = open_store(tmp_path, NEVER, clock=clock)
    bodies = [b"%d " % number + BODY for number in range(16)]
    for each in bodies:
        put(store, each)
    settle(store, clock)
    warm = store.get("orders", 0, 0, max_count=4)
    assert warm.status is GetStatus.FOUND
    kept = bytes(b"".join(warm.records))
    first = tmp_path / "commitlog" / "0".zfill(20)
    os.utime(first, (1, 1))
    gone = store._log.chain.files[0]
    clean(store)
    assert not first.exists()
    assert b"".join(warm.records) == kept
    assert gone.read(0, len(kept)) == kept
    fd = gone.fd
    del gone
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert bodies_of(store) == bodies[4:]
    store.close()


def test_a_start_after_cleaning_needs_nothing_of_what_went():
    store, disk, clock = store_of(4)
    clock.turn(70 * HOUR_S)
    clean(store)
    expected = bodies_of(store)
    for found in (disk.kill(), disk.power_cut()):
        again = open_store(disk=found, clock=clock, settings=NEVER)
        assert bodies_of(again) == expected
        again.put_many([make_put(again, body=b"more")])


def test_steps_are_as_far_apart_as_the_settings_say():
    rules = replace(NEVER.retention, delete_pause_ms=7, queue_delete_pause_ms=11)
    store, disk, clock = store_of(4, replace(NEVER, retention=rules))
    clock.turn(100 * HOUR_S)
    store.cleaner.ask()
    before, pauses = len(log_names(disk)), []
    while (step := store.clean_due()) is not None:
        step()
        pauses.append(store.cleaner.pause_ms)
    gone = before - len(log_names(disk))
    assert gone > 1
    assert pauses[:gone] == [7] * gone
    assert set(pauses[gone:]) == {11}


GUARDED = replace(NEVER, retention=replace(NEVER.retention, is_archive_guarded=True))


def archived(disk: FakeDisk, end: int, place: str) -> None:
    """An archive of the log up to an offset, and its mark."""
    for folder in ("_archive/splits", "topic=orders"):
        disk.make_directory(f"{place}/{folder}")
    claims = {"ranges": [[0, end]]}
    write_file(disk, f"{place}/_archive/archive.json", dumps(claims))
    name = f"{0:020d}-{end:020d}"
    write_file(disk, f"{place}/topic=orders/{name}.parquet", b"parquet")
    files = {"files": [[f"topic=orders/{name}.parquet", 7]]}
    write_file(disk, f"{place}/_archive/splits/{name}.json", dumps(files))
    note_archived(disk, "/store", end, place)


def test_with_the_archive_guard_only_what_is_archived_goes():
    store, disk, clock = store_of(5, GUARDED)
    clock.turn(100 * HOUR_S)
    assert first_left(store, disk) == 0
    assert store.cleaner.plan() == []
    note_archived(disk, "/store", 3 * FILE, "/nowhere")
    assert first_left(store, disk) == 0
    archived(disk, 2 * FILE + 5, "/archive")
    assert {doomed.path for doomed in store.cleaner.plan()} >= {
        f"/store/commitlog/{start:020d}" for start in (0, FILE)
    }
    assert first_left(store, disk) == 2 * FILE
    archived(disk, FILE, "/elsewhere")
    assert first_left(store, disk) == 2 * FILE


def test_the_mark_of_a_place_that_is_not_of_this_machine_counts():
    store, disk, clock = store_of(5, GUARDED)
    clock.turn(100 * HOUR_S)
    note_archived(disk, "/store", 2 * FILE + 5, "s3://bucket/archive")
    assert first_left(store, disk) == 2 * FILE


def test_a_guard_holds_when_the_disk_is_full_and_when_its_mark_is_broken():
    rules = replace(FORCED.retention, is_archive_guarded=True)
    store, disk, clock = store_of(4, replace(SMALL, retention=rules))
    clock.turn(100 * HOUR_S)
    write_file(disk, "/store/archived.json", b"{torn")
    disk.capacity = disk.space("/store").used * 100 // 90
    assert first_left(store, disk) == 0
    archived(disk, 3 * FILE, "/archive")
    assert first_left(store, disk) > 0


def test_files_of_a_topic_that_was_deleted_and_made_again_stay(disk):
    clock = HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=NEVER)
    for _ in range(100):
        put(store, bytes(900))
    settle(store, clock)
    clock.turn(80 * HOUR_S)
    store.cleaner.ask()
    fresh = [b"%d" % number for number in range(45)]
    files = store._queues.files
    is_raised = False
    while (step := store.clean_due()) is not None:
        queue = queue_of(store)
        if not is_raised and queue.min_offset >= files.entries_per_file:
            is_raised = True  # The step removes the files before that.
            store.delete_topic("orders")
            put(store, *fresh)
            store._queues.write_all()
        step()
    assert is_raised
    assert bodies_of(store) == fresh


DAY_MS = 86_400_000


class SetClock(HandClock):
    """A clock whose wall time can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def test_long_uptime_and_small_steps_are_trusted(clock):
    watch = ClockWatch(clock)
    for _ in range(100):
        clock.turn(100 * 86_400)
        clock.set_ms += 500
        assert watch.trusts()


def test_a_clock_that_was_set_forward_and_back_is_trusted_at_once(clock, caplog):
    watch = ClockWatch(clock)
    clock.set_ms = 4 * DAY_MS
    assert not watch.trusts()
    clock.turn(12)
    assert not watch.trusts()
    clock.set_ms = 0
    assert watch.trusts()
    assert len(caplog.messages) == 2


def test_a_clock_that_stays_is_believed_after_an_hour(clock):
    watch = ClockWatch(clock)
    clock.set_ms = 4 * DAY_MS  # The machine slept, say.
    assert not watch.trusts()
    clock.turn(BELIEVED_AFTER_S - 1)
    assert not watch.trusts()
    clock.turn(2)
    assert watch.trusts()


def test_a_clock_that_was_set_back_alone_is_trusted(clock):
    watch = ClockWatch(clock)
    clock.set_ms = -4 * DAY_MS
    assert watch.trusts()
    clock.set_ms = 0  # To where it was before: ahead of what the last look saw.
    assert not watch.trusts()


ROUNDS = 30
GONE = {GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_FOUND_NULL}


class ColdDisk(RealDisk):
    """A disk on which every read has to wait."""

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        return None

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        time.sleep(0.0005)  # Let the file go meanwhile.
        return super().pread(fd, size, offset)


def body(number: int) -> bytes:
    return b"%06d" % number + BODY


def check(start: int, result: GetResult) -> int:
    """An answer holds the messages that it says, in order; how many."""
    if result.status in GONE:
        assert result.next_offset > start
        return 0
    assert result.status is GetStatus.FOUND
    found = decode_records(b"".join(result.records))
    offsets = [record.queue_offset for record in found]
    assert offsets == list(range(result.next_offset - len(found), result.next_offset))
    assert [record.body for record in found] == [body(offset) for offset in offsets]
    return len(found)


def open_names() -> list[str]:
    """What this process has open."""
    names = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The folder's own descriptor.
            names.append(str(path.readlink()))
    return names


def test_reads_of_files_that_go_are_right_or_say_so(tmp_path: Path):
    clock = HandClock(int(time.time() * 1000))
    settings = replace(NEVER, warm_tail_bytes=0, access_in_memory_ratio=0)
    store = open_store(tmp_path, settings, disk=ColdDisk(), clock=clock)
    reads: list[tuple[int, Future[GetResult]]] = []
    queue = store.queue_for_append("orders", 0)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(ROUNDS):
            for _ in range(12):
                put(store, body(queue.next_offset))
            settle(store, clock)
            for start in range(queue.min_offset, queue.tail_start):
                result = store.get("orders", 0, start)
                assert result.cold is not None
                reads.append((start, pool.submit(result.cold)))
            for path in sorted((tmp_path / "commitlog").iterdir())[:-4]:
                os.utime(path, (1, 1))
            clean(store)
    counts = [check(start, read.result()) for start, read in reads]
    assert sum(counts) > len(reads)
    assert queue.min_offset >= queue.max_offset - 24
    del reads
    gc.collect()
    held = [name for name in open_names() if str(tmp_path) in name and "(deleted)" in name]
    assert held == []
    store.close()


def test_a_file_that_goes_between_the_choice_of_entries_and_their_reading_is_passed_over(store):
    for number in range(12):
        put(store, body(number))
    gone: list[LogFile] = []

    def match(_code: int) -> bool:
        if not gone:
            gone.append(store._log.chain.drop_first())
        return True

    result = store.get("orders", 0, 0, match=match)
    assert result.status is GetStatus.FOUND
    found = decode_records(b"".join(result.records))
    assert [record.queue_offset for record in found] == list(range(4, 12))
