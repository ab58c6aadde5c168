"""The index: files that fill up, are named in order, brought to the device, searched and deleted."""

from __future__ import annotations

import errno
import os
import random
import sys
from array import array
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    IndexHeader,
    decode_header,
    entry_position,
)
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import store_time
from cometmq.kernel.keys import keys_of
from cometmq.model.errors import StoreDamaged, StoreFull
from cometmq.offline.index_shape import find_shape
from cometmq.store import index_search, index_slots
from cometmq.store.appender import Put
from cometmq.store.checkpoint import CheckpointJob
from cometmq.store.disk import Buffer, write_whole
from cometmq.store.index import Index
from cometmq.store.index_file import PAGE_SIZE, IndexFile, IndexShape
from cometmq.store.index_slots import entry_reader, mend_slots, read_slots, rebuild_slots
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import IndexSettings
from tests.crash.test_index_recovery import ALL_TIME, INDEX, keyed_put
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.memory import anonymous_bytes
from tests.support.store_puts import (
    NEVER,
    ROOT,
    SMALL,
    clean,
    delete_before,
    make_put,
    open_store,
    run_jobs,
    settle,
)

SETTINGS = replace(SMALL, index=IndexSettings(slots=100, entries=11))
DIRECTORY = f"{ROOT}/index"


class Shelf:
    """A store with a small index, its disk and its clock."""

    def __init__(self, **settings: object) -> None:
        self.disk, self.clock = FakeDisk(), HandClock()
        index = replace(SETTINGS.index, **settings)  # type: ignore[arg-type]
        self.settings = replace(SETTINGS, index=index)
        self.open()

    def open(self) -> MessageStore:
        self.store = open_store(settings=self.settings, disk=self.disk, clock=self.clock)
        return self.store

    def put(self, *keys: str, transaction: int = 0) -> int:
        """One message; gives its physical offset."""
        [(_, offset, _)] = self.store.put_many([self.make(*keys, transaction=transaction)])
        self.store.dispatch_pending()
        return offset

    def make(self, *keys: str, transaction: int = 0) -> Put:
        put = make_put(self.store, transaction=transaction)
        properties = {"KEYS": " ".join(keys)} if keys else {"k": "v"}
        return (*put[:3], encode_properties(properties), *put[4:])

    def fill(self, count: int) -> list[int]:
        """Messages with the keys k0, k1 and so on; gives their physical offsets."""
        return [self.put(f"k{number}") for number in range(count)]

    def find(
        self, key: str, *, topic: str = "orders", count: int = 100, **times: int
    ) -> list[int]:
        asked = {"begin_ms": 0, "end_ms": 1 << 62, **times}
        search = self.store.index.search(topic, key, **asked)
        return list(islice(search.run().offsets, count))

    def rest(self) -> None:
        """Let checkpoints be made, until there is nothing left to do."""
        for _ in range(5):
            self.clock.turn(2)
            run_jobs(self.store)

    def checkpoint(self) -> CheckpointJob:
        """A checkpoint that is due and not made yet."""
        self.clock.turn(2)
        for _ in range(10):
            self.store.tick()
            job = self.store.checkpoint_due()
            if job is not None:
                return job
        raise AssertionError("no checkpoint is due")

    def names(self) -> list[str]:
        return self.disk.list_names(DIRECTORY)


@pytest.fixture
def shelf():
    return Shelf()


def test_a_message_is_found_as_soon_as_it_is_visible(shelf):
    first, second = shelf.put("a", "b"), shelf.put("b")
    assert shelf.find("a") == [first]
    assert shelf.find("b") == [second, first]
    assert shelf.find("b", count=1) == [second]
    assert shelf.find("b", topic="payments") == []


def test_what_is_not_on_disk_yet_is_not_found_with_synchronous_flush(shelf):
    shelf.store.close()
    shelf.settings = replace(shelf.settings, flush_sync=True)
    shelf.open()
    offset = shelf.put("a")
    assert shelf.find("a") == []
    run_jobs(shelf.store)
    assert shelf.find("a") == [offset]


def test_a_half_message_is_indexed_and_a_rolled_back_one_is_not(shelf):
    half = shelf.put("a", transaction=4)
    shelf.put("a", transaction=12)
    assert shelf.find("a") == [half]


def test_messages_without_keys_make_no_file(shelf):
    shelf.put()
    run_jobs(shelf.store)
    assert shelf.names() == []


def test_a_full_file_is_followed_by_one_that_begins_where_it_ends(shelf):
    offsets = []
    for number in range(25):
        shelf.clock.turn(1)
        offsets.append(shelf.put(f"k{number}"))
    shelf.store.close()
    headers = [
        decode_header(shelf.disk.content(f"{DIRECTORY}/{name}")) for name in shelf.names()
    ]
    assert [header.index_count for header in headers] == [11, 11, 6]
    assert [header.end_offset for header in headers] == [offsets[9], offsets[19], offsets[24]]
    assert [header.begin_offset for header in headers] == [offsets[0], offsets[10], offsets[20]]
    shelf.open()
    for number, offset in enumerate(offsets):
        assert shelf.find(f"k{number}") == [offset]


def test_names_are_in_order_even_when_the_clock_is_set_back(shelf):
    for number in range(31):
        if number % 10 == 0:
            shelf.clock.turn(-3600)
        shelf.put(f"k{number}")
    shelf.find("k0")
    names = [file.name for file in shelf.store.index.files]
    assert len(names) == 4
    assert names == sorted(set(names))


def test_times_are_held_to_the_second_and_a_message_of_a_second_may_be_any_of_it(shelf):
    begin = shelf.clock.now_ms()
    first = shelf.put("a")
    shelf.clock.turn(2.5)
    second = shelf.put("a")
    assert shelf.find("a", begin_ms=begin + 1000) == [second]
    assert shelf.find("a", end_ms=begin + 1000) == [first]
    assert shelf.find("a", begin_ms=begin + 2500) == [second]
    assert shelf.find("a", begin_ms=begin + 2501) == []
    assert shelf.find("a", end_ms=begin + 2000) == [second, first]


def found_at(shelf: Shelf, begin_ms: int, end_ms: int, most: int = 100) -> list[int]:
    """The store times of the messages under a key."""
    search = shelf.store.search("orders", "a", max_count=most, begin_ms=begin_ms, end_ms=end_ms)
    return [store_time(record) for record in search.run().records]


def test_a_message_of_the_first_second_behind_the_begin_is_found():
    """The index rounds its times down to the second; the time of the record counts."""
    shelf = Shelf(entries=1000)
    first_ms = shelf.clock.now_ms()
    times_ms = []
    for _ in range(40):
        times_ms.append(shelf.clock.now_ms())
        shelf.put("a")
        shelf.clock.turn(0.3)
    for begin_ms in range(first_ms - 1, first_ms + 3000, 77):
        for end_ms in (begin_ms, begin_ms + 250, begin_ms + 2000):
            wanted = [each for each in times_ms if begin_ms <= each <= end_ms]
            assert found_at(shelf, begin_ms, end_ms) == wanted


def test_messages_behind_the_end_take_no_place_of_those_before_it():
    shelf = Shelf(entries=1000)
    first_ms = shelf.clock.now_ms()
    for _ in range(10):
        shelf.put("a")
        shelf.clock.turn(0.05)
    assert found_at(shelf, first_ms, first_ms + 100, most=2) == [first_ms + 50, first_ms + 100]


@pytest.mark.parametrize("others", [0, 1, 50])
def test_a_key_that_comes_very_often_is_found_long_ago_in_a_few_steps(monkeypatch, others):
    shelf = Shelf(slots=1000, entries=100_000)
    begin, offsets = shelf.clock.now_ms(), []
    for number in range(2000):
        shelf.clock.turn(1)
        noise = [f"n{number}-{other}" for other in range(others)]
        offsets.append(shelf.put("often", *noise))
    shelf.find("often", count=1)
    reads = []
    pread = shelf.disk.pread

    def counted(*what: Any) -> bytes:
        reads.append(what)
        return pread(*what)

    monkeypatch.setattr(shelf.disk, "pread", counted)
    found = shelf.find("often", begin_ms=begin + 99_000, end_ms=begin + 109_000)
    assert found == offsets[108:97:-1]
    assert len(reads) < 600


@pytest.mark.parametrize("seed", range(20))
def test_a_short_way_to_a_time_passes_nothing_over(monkeypatch, seed):
    monkeypatch.setattr(index_search, "NEARER_ENTRIES", 5)
    chance = random.Random(seed)
    shelf = Shelf(slots=chance.choice([1, 3, 50]), entries=chance.choice([11, 60, 1000]))
    begin = shelf.clock.now_ms()
    for _ in range(150):
        shelf.clock.turn(chance.choice([0, 1, 1, 5]))
        shelf.put(chance.choice(["often", "often", "often", "a", "b"]))
    for _ in range(60):
        key = chance.choice(["often", "a", "b"])
        start, end = sorted(begin + chance.randrange(300) * 1000 for _ in "ab")
        monkeypatch.setattr(index_search, "LATE_STEPS_MAX", 1 << 30)
        step_by_step = shelf.find(key, count=1000, begin_ms=start, end_ms=end)
        monkeypatch.setattr(index_search, "LATE_STEPS_MAX", 3)
        assert shelf.find(key, count=1000, begin_ms=start, end_ms=end) == step_by_step


def test_a_key_that_comes_seldom_is_found_among_others_of_its_slot():
    shelf = Shelf(slots=1, entries=100_000)
    begin = shelf.clock.now_ms()
    first = shelf.put("seldom")
    for number in range(1000):
        shelf.clock.turn(1)
        shelf.put(f"k{number}")
    assert shelf.find("seldom", end_ms=begin + 500) == [first]
    assert shelf.find("seldom", begin_ms=begin + 1500) == []


def test_only_pages_of_slots_that_changed_are_written():
    shelf = Shelf(slots=100_000, entries=1000)
    shelf.put("a")
    run_jobs(shelf.store)
    shelf.clock.turn(2)
    shelf.put("b")
    shelf.store.tick()
    index = shelf.store.index
    index.begin_round()
    while not index.continue_round():
        pass
    [(_, _, runs)] = index.take_sync().files
    assert sum(len(content) for _, content in runs) <= 4096


def test_a_full_file_needs_no_memory_once_it_is_on_the_device(shelf):
    shelf.fill(11)
    shelf.rest()
    full, growing = shelf.store.index.files
    assert full.slots is None
    assert growing.slots is not None
    assert shelf.find("k3")


def test_a_file_that_fills_up_while_a_checkpoint_is_made_waits_for_the_next(shelf):
    shelf.fill(9)
    job = shelf.checkpoint()
    offset = shelf.put("k9")
    shelf.clock.turn(2)
    for _ in range(3):
        shelf.store.tick()  # The next round copies the full file meanwhile.
    job.run()
    shelf.store.checkpointed(job)
    [file] = shelf.store.index.files
    assert file.slots is not None
    assert shelf.find("k9") == [offset]
    shelf.rest()
    [file] = shelf.store.index.files
    assert file.slots is None
    assert shelf.find("k9") == [offset]


def test_a_file_that_is_deleted_while_a_checkpoint_is_made_is_no_failure(shelf):
    shelf.fill(15)
    job = shelf.checkpoint()
    before = shelf.names()
    delete_before(shelf.store.index, 1 << 40)
    assert len(shelf.names()) == len(before) - 1
    job.run()
    assert job.error is None


def test_a_failed_sync_ends_checkpoints_and_a_restart_finds_every_key(shelf):
    offsets = shelf.fill(15)
    job = shelf.checkpoint()
    shelf.disk.fail("fdatasync")
    job.run()
    shelf.store.checkpointed(job)
    assert not job.is_synced
    assert "restart the broker" in str(shelf.store.refusal)
    shelf.disk = shelf.disk.kill()
    shelf.open()
    for number, offset in enumerate(offsets):
        assert shelf.find(f"k{number}") == [offset]


def test_an_index_that_cannot_be_written_stops_senders_until_it_can(shelf):
    shelf.fill(10)
    shelf.find("k0")
    shelf.disk.fail("resize", code=errno.ENOSPC, forever=True)
    kept = shelf.put("kept")
    shelf.store.tick()
    with pytest.raises(StoreFull, match="the index cannot be written"):
        shelf.put("refused")
    shelf.disk.heal()
    shelf.store.tick()
    assert shelf.store.refusal is None
    assert shelf.find("kept") == [kept]


def test_files_of_deleted_messages_go_and_the_newest_stays(shelf):
    offsets = shelf.fill(25)
    shelf.find("k0")
    index = shelf.store.index
    first, second, _ = index.files
    assert index.files_before(offsets[9]) == []
    assert index.files_before(offsets[9] + 1) == [first.path]
    assert index.files_before(1 << 40) == [first.path, second.path]
    delete_before(index, 1 << 40)
    assert shelf.names() == [index.files[0].name]
    assert shelf.find("k24") == [offsets[24]]
    assert shelf.find("k0") == []


def test_a_search_goes_on_while_its_file_is_deleted(shelf):
    for number in range(15):
        shelf.put("a", f"k{number}")
    search = shelf.store.index.search("orders", "a", begin_ms=0, end_ms=1 << 62)
    delete_before(shelf.store.index, 1 << 40)
    assert 0 < len(list(search.run().offsets)) < 15


def test_a_file_of_another_size_is_an_error_that_names_it_and_the_settings(shelf):
    shelf.fill(15)
    shelf.store.close()
    shelf.settings = replace(shelf.settings, index=IndexSettings(slots=200, entries=11))
    with pytest.raises(
        StoreDamaged, match=rf"{shelf.names()[0]} .* have 660 bytes.*maxHashSlotNum"
    ):
        shelf.open()


def test_a_file_that_was_being_made_is_removed(shelf):
    shelf.disk.make_directory(DIRECTORY)
    shelf.store.close()
    shelf.disk.close(shelf.disk.open(f"{DIRECTORY}/20260101000000000", create=True))
    shelf.open()
    assert shelf.names() == []


def test_where_it_is_switched_off_what_is_there_can_still_be_asked(shelf):
    offset = shelf.put("a")
    shelf.store.close()
    index = replace(shelf.settings.index, is_built=False)
    shelf.settings = replace(shelf.settings, index=index)
    shelf.open()
    shelf.put("a")
    assert shelf.find("a") == [offset]


def test_javas_checkpoint_moves_with_full_files_only(shelf):
    times = shelf.store._upkeep
    shelf.fill(9)
    assert times.times().index_timestamp == 0
    shelf.clock.turn(1)
    shelf.put("last")
    end = shelf.clock.now_ms()
    shelf.clock.turn(1)
    shelf.put("next")
    shelf.store.tick()
    assert times.times().index_timestamp == end


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_file_that_became_empty_is_built_again(shelf, caplog, number, is_clean):
    offsets = shelf.fill(25)
    shelf.store.close()
    name = shelf.names()[number]
    if not is_clean:
        shelf.disk.close(shelf.disk.open("/store/abort", create=True))
    shelf.disk.resize(shelf.disk.open(f"{DIRECTORY}/{name}"), 0)
    shelf.open()
    assert [shelf.find(f"k{each}") for each in range(25)] == [[offset] for offset in offsets]
    assert f"{name} has 0 bytes, which is not the size of an index file" in caplog.text


SLOTS_A_PAGE = PAGE_SIZE // 4
SLOTS_BEFORE = INDEX_HEADER_SIZE // 4


def growing_file(slots: int) -> IndexFile:
    """An index file without an entry."""
    shape = IndexShape(slots=slots, entries=slots)
    file = IndexFile(FakeDisk(), "/index/20260101000000000", shape, header=IndexHeader())
    file._disk.make_directory("/index")
    file.make()
    return file


def test_a_copy_has_all_slots_of_its_pages_as_the_file_has_them():
    file = growing_file(5 * SLOTS_A_PAGE)
    in_pages = [0, 2, 3, 5]
    slots = [max(page * SLOTS_A_PAGE - SLOTS_BEFORE, 0) for page in in_pages]
    file.insert(keys_of(slots, range(4), [1000] * 4))
    runs = [(position, bytes(content)) for position, content in file.changed_runs()]
    file.insert(keys_of([1], [5], [1000]))  # A copy stays as it was.
    in_file = array("i", [0] * 5 * SLOTS_A_PAGE)
    for number, slot in enumerate(slots, 1):
        in_file[slot] = number
    if sys.byteorder == "little":
        in_file.byteswap()
    content = bytes(INDEX_HEADER_SIZE) + in_file.tobytes()
    pages = [
        (INDEX_HEADER_SIZE, PAGE_SIZE),
        (2 * PAGE_SIZE, 4 * PAGE_SIZE),
        (5 * PAGE_SIZE, len(content)),
    ]
    assert runs == [(start, content[start:end]) for start, end in pages]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is held")
def test_the_memory_of_the_copies_goes_back_with_the_last_whatever_was_taken_between_them():
    pages = 4000
    file = growing_file(pages * SLOTS_A_PAGE)
    for step in (SLOTS_A_PAGE, 2 * SLOTS_A_PAGE):
        # Each page is in memory first; then every second one changes.
        list(file.changed_runs())
        slots = range(0, pages * SLOTS_A_PAGE, step)
        file.insert(keys_of(slots, range(len(slots)), [1000] * len(slots)))
    before = anonymous_bytes(os.getpid())
    runs, taken_between = [], []
    for run in file.changed_runs():
        runs.append(run)
        taken_between.append(bytes(1000))
    size = sum(len(content) for _, content in runs)
    assert size >= 8_000_000
    assert anonymous_bytes(os.getpid()) - before >= size * 3 // 4
    del run
    runs.clear()
    assert anonymous_bytes(os.getpid()) - before <= size // 4 + sum(map(len, taken_between))


@pytest.mark.parametrize("first", [0, 4096])
@pytest.mark.parametrize("keys", [1, 2, 7, 600])
def test_the_right_one_of_many_shapes_of_one_size_is_found(tmp_path, first, keys):
    disk, shape = RealDisk(), IndexShape(1000, 4000)
    index = Index(disk, str(tmp_path / "index"), shape, clock=HandClock(1_700_000_000_000))
    numbers = range(1, keys + 1)
    hashes = [number * 7919 for number in numbers]
    offsets = [first + (number - 1) * 200 for number in numbers]
    index.enter(hashes, offsets, [1_700_000_000_000] * keys)
    index.write_all()
    index.take_sync().run()
    index.close()
    fd = disk.open(index.files[0].path, write=False)
    try:
        assert find_shape(disk, fd, decode_header(disk.pread(fd, 40, 0))) == shape
    finally:
        disk.close(fd)


SHAPE = IndexShape(slots=700, entries=2000)
PATH = "/index/20260101000000000"
COUNT = 1500


@pytest.fixture
def disk() -> FakeDisk:
    """A disk with an index file of 1,499 entries, all of it written."""
    disk = FakeDisk()
    disk.make_directory("/index")
    file = IndexFile(disk, PATH, SHAPE, header=IndexHeader())
    file.make()
    chance = random.Random(1)
    hashes = [chance.getrandbits(31) - (1 << 30) for _ in range(COUNT - 1)]
    file.insert(keys_of(hashes, range(COUNT - 1), [1000] * (COUNT - 1)))
    file.write_entries()
    for position, content in file.changed_runs():
        overwrite(disk, content, position)
    file.close()
    return disk


def overwrite(disk: FakeDisk, content: Buffer, position: int) -> None:
    fd = disk.open(PATH)
    write_whole(disk, fd, content, position)
    disk.close(fd)


@pytest.mark.parametrize("piece_size", [400, 1 << 20])
@pytest.mark.parametrize("count", [1, 2, 700, 1499, COUNT])
def test_newer_slots_are_led_back_to_what_the_entries_make(
    disk, monkeypatch, count, piece_size
):
    monkeypatch.setattr(index_slots, "_PIECE_SIZE", piece_size)
    monkeypatch.setattr(index_slots, "_SLOTS_A_PIECE", piece_size // 4)
    with entry_reader(disk, PATH, SHAPE) as reader:
        mended, built = mend_slots(reader, SHAPE, count), rebuild_slots(reader, SHAPE, count)
    assert list(mended.table) == list(built.table)
    assert mended.used == built.used == sum(slot > 0 for slot in built.table)
    assert mended.are_mended == (count < COUNT)


@pytest.mark.parametrize("torn", [range(900, 1499), range(900, 1499, 7), [1498]])
def test_a_chain_that_was_torn_has_the_slots_built_again(disk, torn):
    for number in torn:
        overwrite(disk, bytes(INDEX_ENTRY_SIZE), entry_position(number, SHAPE.slots))
    with entry_reader(disk, PATH, SHAPE) as reader:
        mended, built = mend_slots(reader, SHAPE, 900), rebuild_slots(reader, SHAPE, 900)
    assert list(mended.table) == list(built.table)


@pytest.mark.parametrize("nonsense", [-5, 1999, 2_000_000_000])
def test_a_slot_that_points_nowhere_has_them_built_again(disk, nonsense):
    overwrite(disk, nonsense.to_bytes(4, signed=True), 40)
    with entry_reader(disk, PATH, SHAPE) as reader:
        assert read_slots(reader, SHAPE)[0] == nonsense
        mended, built = mend_slots(reader, SHAPE, COUNT), rebuild_slots(reader, SHAPE, COUNT)
    assert list(mended.table) == list(built.table)


MANY = 400
MANY_SETTINGS = replace(NEVER, index=INDEX)


def test_index_files_before_the_log_go_and_what_is_left_is_found(clock):
    disk = FakeDisk()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=MANY_SETTINGS)
    for number in range(MANY):
        store.put_many([keyed_put(store, number)])
        store.dispatch_pending()
        clock.turn(1)
        run_jobs(store, ticks=1)
    settle(store, clock)
    before = disk.list_names("/store/index")
    clock.turn(100 * 3600)
    planned = [doomed.path for doomed in store.cleaner.plan() if "/index/" in doomed.path]
    clean(store)
    after = disk.list_names("/store/index")
    assert [f"/store/index/{name}" for name in sorted(set(before) - set(after))] == planned
    assert planned
    assert after
    assert store.index.files[0].header.end_offset >= store.min_offset

    def is_found(number: int) -> bool:
        search = store.index.search("orders", f"U{number}", begin_ms=0, end_ms=ALL_TIME)
        records = map(store.read_record, search.run().offsets)
        return any(record is not None and b"body %d" % number in record for record in records)

    left = [number for number in range(MANY) if is_found(number)]
    assert left == list(range(left[0], MANY))
    assert left[0] > 0
    store.close()
    again = open_store(disk=disk.kill(), clock=clock, settings=MANY_SETTINGS)
    assert [file.path for file in again.index.files] == [
        f"/store/index/{name}" for name in after
    ]
