"""The index: files that fill up, are named in order, brought to the device, searched and deleted."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from cometmq.codec.index_file import decode_header
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import store_time
from cometmq.model.errors import StoreDamaged, StoreFull
from cometmq.store import index_search
from cometmq.store.appender import Put
from cometmq.store.checkpoint import CheckpointJob
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import IndexSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import (
    ROOT,
    SMALL,
    delete_before,
    make_put,
    open_store,
    run_jobs,
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

    def find(
        self, key: str, *, topic: str = "orders", count: int = 100, **times: int
    ) -> list[int]:
        asked = {"begin_ms": 0, "end_ms": 1 << 62, **times}
        search = self.store.index.search(topic, key, **asked)
        return list(islice(search.run().offsets, count))

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


def test_a_message_is_found_as_soon_as_it_is_visible():
    shelf = Shelf()
    first, second = shelf.put("a", "b"), shelf.put("b")
    assert shelf.find("a") == [first]
    assert shelf.find("b") == [second, first]
    assert shelf.find("b", count=1) == [second]
    assert shelf.find("b", topic="payments") == []


def test_what_is_not_on_disk_yet_is_not_found_with_synchronous_flush():
    shelf = Shelf()
    shelf.store.close()
    shelf.settings = replace(shelf.settings, flush_sync=True)
    shelf.open()
    offset = shelf.put("a")
    assert shelf.find("a") == []
    run_jobs(shelf.store)
    assert shelf.find("a") == [offset]


def test_a_half_message_is_indexed_and_a_rolled_back_one_is_not():
    shelf = Shelf()
    half = shelf.put("a", transaction=4)
    shelf.put("a", transaction=12)
    assert shelf.find("a") == [half]


def test_messages_without_keys_make_no_file():
    shelf = Shelf()
    shelf.put()
    run_jobs(shelf.store)
    assert shelf.names() == []


def test_a_full_file_is_followed_by_one_that_begins_where_it_ends():
    shelf = Shelf()
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


def test_names_are_in_order_even_when_the_clock_is_set_back():
    shelf = Shelf()
    for number in range(31):
        if number % 10 == 0:
            shelf.clock.turn(-3600)
        shelf.put(f"k{number}")
    shelf.find("k0")
    names = [file.name for file in shelf.store.index.files]
    assert len(names) == 4
    assert names == sorted(set(names))


def test_times_are_held_to_the_second_and_a_message_of_a_second_may_be_any_of_it():
    shelf = Shelf()
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


def test_a_full_file_needs_no_memory_once_it_is_on_the_device():
    shelf = Shelf()
    for number in range(11):
        shelf.put(f"k{number}")
    for _ in range(5):
        shelf.clock.turn(2)
        run_jobs(shelf.store)
    full, growing = shelf.store.index.files
    assert full.slots is None
    assert growing.slots is not None
    assert shelf.find("k3")


def test_a_file_that_fills_up_while_a_checkpoint_is_made_waits_for_the_next():
    shelf = Shelf()
    for number in range(9):
        shelf.put(f"k{number}")
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
    for _ in range(5):
        shelf.clock.turn(2)
        run_jobs(shelf.store)
    [file] = shelf.store.index.files
    assert file.slots is None
    assert shelf.find("k9") == [offset]


def test_a_file_that_is_deleted_while_a_checkpoint_is_made_is_no_failure():
    shelf = Shelf()
    for number in range(15):
        shelf.put(f"k{number}")
    job = shelf.checkpoint()
    before = shelf.names()
    delete_before(shelf.store.index, 1 << 40)
    assert len(shelf.names()) == len(before) - 1
    job.run()
    assert job.error is None


def test_a_failed_sync_ends_checkpoints_and_a_restart_finds_every_key():
    shelf = Shelf()
    offsets = [shelf.put(f"k{number}") for number in range(15)]
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


def test_an_index_that_cannot_be_written_stops_senders_until_it_can():
    shelf = Shelf()
    for number in range(10):
        shelf.put(f"k{number}")
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


def test_files_of_deleted_messages_go_and_the_newest_stays():
    shelf = Shelf()
    offsets = [shelf.put(f"k{number}") for number in range(25)]
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


def test_a_search_goes_on_while_its_file_is_deleted():
    shelf = Shelf()
    for number in range(15):
        shelf.put("a", f"k{number}")
    search = shelf.store.index.search("orders", "a", begin_ms=0, end_ms=1 << 62)
    delete_before(shelf.store.index, 1 << 40)
    assert 0 < len(list(search.run().offsets)) < 15


def test_a_file_of_another_size_is_an_error_that_names_it_and_the_settings():
    shelf = Shelf()
    for number in range(15):
        shelf.put(f"k{number}")
    shelf.store.close()
    shelf.settings = replace(shelf.settings, index=IndexSettings(slots=200, entries=11))
    with pytest.raises(
        StoreDamaged, match=rf"{shelf.names()[0]} .* have 660 bytes.*maxHashSlotNum"
    ):
        shelf.open()


def test_a_file_that_was_being_made_is_removed():
    shelf = Shelf()
    shelf.disk.make_directory(DIRECTORY)
    shelf.store.close()
    shelf.disk.close(shelf.disk.open(f"{DIRECTORY}/20260101000000000", create=True))
    shelf.open()
    assert shelf.names() == []


def test_where_it_is_switched_off_what_is_there_can_still_be_asked():
    shelf = Shelf()
    offset = shelf.put("a")
    shelf.store.close()
    shelf.settings = replace(
        shelf.settings, index=replace(shelf.settings.index, is_built=False)
    )
    shelf.open()
    shelf.put("a")
    assert shelf.find("a") == [offset]


def test_javas_checkpoint_moves_with_full_files_only():
    shelf = Shelf()
    times = shelf.store._upkeep
    for number in range(9):
        shelf.put(f"k{number}")
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
def test_a_file_that_became_empty_is_built_again(caplog, number, is_clean):
    shelf = Shelf()
    offsets = [shelf.put(f"k{each}") for each in range(25)]
    shelf.store.close()
    name = shelf.names()[number]
    if not is_clean:
        shelf.disk.close(shelf.disk.open("/store/abort", create=True))
    shelf.disk.resize(shelf.disk.open(f"{DIRECTORY}/{name}"), 0)
    shelf.open()
    assert [shelf.find(f"k{each}") for each in range(25)] == [[offset] for offset in offsets]
    assert f"{name} has 0 bytes, which is not the size of an index file" in caplog.text
