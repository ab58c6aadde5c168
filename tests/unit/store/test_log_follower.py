"""What a feature builds from the log: at its own position, which the cleaner and a start respect."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cometmq.model.errors import StoreBusy, StoreDamaged, StoreFull
from cometmq.store.log_follower import RETRY_SECONDS_MAX
from cometmq.store.message_store import MessageStore
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.log_builder import PlacesBuilder, go_on
from tests.support.store_puts import (
    BODY,
    FILE,
    NEVER,
    SMALL,
    bodies_of,
    clean,
    flush,
    open_store,
    put,
    read_all,
    run_jobs,
    settle,
)

HOUR_S = 3600


def store_of(files: int, settings=NEVER) -> tuple[MessageStore, FakeDisk, HandClock]:
    """A store whose log has so many files, on the device, all of them expired."""
    disk, clock = FakeDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=settings)
    for number in range(files * 4):
        put(store, b"%d " % number + BODY)
        settle(store, clock)
    clock.turn(100 * HOUR_S)
    return store, disk, clock


def all_places(store: MessageStore) -> list[int]:
    return [record.physical_offset for record in read_all(store)]


def test_a_builder_gets_every_record_once_and_in_order_from_its_position_on():
    store, disk, _ = store_of(3)
    places = all_places(store)
    builder = PlacesBuilder(disk, position=places[5])
    follower = store.follow(builder)
    assert go_on(follower)
    assert builder.places == places[5:]
    assert builder.position == store.max_offset
    assert follower.due() is None
    put(store, b"more", b"and more")
    flush(store)
    assert go_on(follower)
    assert builder.places == all_places(store)[5:]


def test_a_builder_gets_records_longer_than_a_piece_and_pieces_of_many_records(clock, disk):
    store = open_store(
        disk=disk, clock=clock, settings=replace(SMALL, commitlog_file_size=8 << 20)
    )
    put(store, *[b"short"] * 15_000)
    put(store, b"y" * (3 << 20))
    put(store, b"short")
    settle(store, clock)
    builder = PlacesBuilder(disk)
    go_on(store.follow(builder))
    assert builder.places == all_places(store)
    assert 3 < len(builder.given) < 8


def test_a_builder_gets_only_what_is_visible_and_on_the_device(disk):
    store = open_store(disk=disk, settings=replace(SMALL, flush_sync=True))
    follower = store.follow(builder := PlacesBuilder(disk))
    put(store, b"1")
    assert follower.due() is None
    flush(store)
    assert go_on(follower)
    asynchronous = open_store(disk=FakeDisk(), clock=(clock := HandClock()))
    follower = asynchronous.follow(builder := PlacesBuilder(FakeDisk()))
    end = put(asynchronous, b"1")
    assert bodies_of(asynchronous) == [b"1"]
    assert follower.due() is None
    asynchronous.replica_side.replicated(end, 1)  # The only replica lacks what follows.
    put(asynchronous, b"2")
    clock.turn(11)
    flush(asynchronous)
    assert bodies_of(asynchronous) == [b"1"]
    assert go_on(follower)
    assert len(builder.places) == 1
    asynchronous.replica_side.replicated(asynchronous.max_offset, 1)
    asynchronous.dispatch_pending()
    assert go_on(follower)
    assert len(builder.places) == 2


def test_a_builder_holds_the_cleaner_at_its_position():
    store, disk, _ = store_of(5)
    builder = PlacesBuilder(disk)
    follower = store.follow(builder)
    places = all_places(store)
    assert store.cleaner.plan() == []
    clean(store)
    assert store.min_offset == 0
    go_on(follower, steps=1)
    assert 0 < builder.position < FILE  # The first file has a blank end.
    clean(store)
    assert store.min_offset == 0
    go_on(follower, steps=1)
    assert FILE < builder.position <= 2 * FILE
    assert [doomed.path for doomed in store.cleaner.plan()] == ["/store/commitlog/" + "0" * 20]
    clean(store)
    assert store.min_offset == FILE
    go_on(follower)
    clean(store)
    assert store.min_offset == store._log.chain.files[-1].start
    assert builder.places == places
    assert builder.gaps == []


def test_a_builder_that_is_too_far_behind_is_told_what_it_has_missed_and_goes_on(caplog):
    store, disk, _ = store_of(5)
    places = all_places(store)
    builder = PlacesBuilder(disk, kept_max=2 * FILE)
    follower = store.follow(builder)
    go_on(follower, steps=1)
    assert builder.position < FILE
    clean(store)
    assert store.min_offset == 2 * FILE  # Two more files are kept for it.
    assert go_on(follower)
    assert builder.gaps == [[FILE, 2 * FILE]]
    assert builder.places == [place for place in places if place < FILE or place >= 2 * FILE]
    assert "places has missed the log" in caplog.text


def test_a_builder_that_fails_gets_the_same_again_after_a_pause_and_disturbs_nobody(caplog):
    store, disk, clock = store_of(3)
    builder = PlacesBuilder(disk)
    follower = store.follow(builder)
    builder.is_failing = True
    assert go_on(follower) == 1
    assert "Input/output error" in str(follower.fault)
    assert builder.position == 0
    put(store, b"taken")
    settle(store, clock)
    assert bodies_of(store)[-1] == b"taken"
    clean(store)
    assert store.min_offset == 0
    for _ in range(300):
        clock.turn(1)
        go_on(follower)
    assert 8 <= len(builder.given) <= 6 + 300 / RETRY_SECONDS_MAX + 2
    assert caplog.text.count("places cannot go on at 0 of the log") == 1
    builder.is_failing = False
    clock.turn(RETRY_SECONDS_MAX)
    assert go_on(follower)
    assert follower.fault is None
    assert builder.places == all_places(store)
    assert "places goes on" in caplog.text


def test_while_the_disk_is_full_the_refusal_names_the_builder_that_is_behind():
    settings = replace(NEVER, retention=replace(NEVER.retention, is_clean_forced=True))
    store, disk, clock = store_of(6, settings)
    follower = store.follow(builder := PlacesBuilder(disk))
    builder.is_failing = True
    go_on(follower)
    disk.capacity = disk.used_bytes * 100 // 93
    clock.turn(2)
    run_jobs(store)
    with pytest.raises(StoreFull, match="places still needs the log from 0 on"):
        put(store, b"refused")
    clean(store)
    assert store.min_offset == 0
    builder.is_failing = False
    clock.turn(RETRY_SECONDS_MAX)
    go_on(follower)
    run_jobs(store)
    with pytest.raises(StoreFull) as refused:
        put(store, b"refused")
    assert "places" not in str(refused.value)
    clean(store)
    assert store.min_offset > 0
    clock.turn(2)
    run_jobs(store)
    put(store, b"taken")
    go_on(follower)


def test_a_truncation_waits_for_a_step_and_the_builder_goes_back_before_it_gets_more():
    store, disk, clock = store_of(3)
    places = all_places(store)
    follower = store.follow(builder := PlacesBuilder(disk))
    step = follower.due()
    assert step is not None
    with pytest.raises(StoreBusy, match="builder"):
        store.truncate(places[6])
    step()
    go_on(follower)
    builder.on_back = lambda: due.append(follower.due())
    due: list[object] = []
    store.truncate(places[9])
    assert due == [None]  # It gets nothing before the log is cut.
    assert builder.places == places[:9]
    builder.is_failing = True  # A builder that cannot go back does not stop a truncation.
    store.truncate(places[6])
    go_on(follower)
    assert builder.places == places[:9]
    put(store, b"new", b"newer")
    settle(store, clock)
    builder.is_failing = False
    clock.turn(RETRY_SECONDS_MAX)
    go_on(follower)
    assert builder.places == all_places(store)
    assert builder.places[:6] == places[:6]


def test_a_builder_that_is_ahead_of_the_log_at_a_start_goes_back():
    store, disk, _ = store_of(2)
    follower = store.follow(builder := PlacesBuilder(disk))
    go_on(follower)
    places = builder.places
    store.unfollow(follower)  # The feature is off while the log is truncated.
    store.truncate(places[5])
    assert builder.places == places
    store.close()
    again = open_store(disk=disk, settings=NEVER)
    follower = again.follow(builder := PlacesBuilder(disk))
    go_on(follower)
    assert builder.places == places[:5]


def test_a_damaged_record_is_a_typed_fault_and_the_builder_stays_before_it():
    store, disk, _ = store_of(2)
    places = all_places(store)
    disk.names["/store/commitlog/" + "0" * 20].content[places[2] : places[2] + 8] = b"\xff" * 8
    follower = store.follow(builder := PlacesBuilder(disk))
    go_on(follower)
    assert builder.places == places[:2]
    assert isinstance(follower.fault, StoreDamaged)
    assert f"no valid record at {places[2]}" in str(follower.fault)


@pytest.mark.parametrize("seed", range(8))
def test_after_any_stop_each_builder_goes_on_at_its_position(seed, clock):
    """Killed or without power: what is built afterwards is what the log has, each record once."""
    chance = random.Random(seed)
    disk = FakeDisk()
    for _ in range(12):
        store = open_store(disk=disk, clock=clock)
        builder = PlacesBuilder(disk)
        assert builder.position <= store.max_offset
        assert builder.places == all_places(store)[: len(builder.places)]
        follower = store.follow(builder)
        for _ in range(chance.randint(1, 8)):
            put(
                store,
                *[b"%d" % n * chance.randint(1, 900) for n in range(chance.randint(1, 9))],
            )
            clock.turn(chance.random())
            if chance.random() < 0.6:
                run_jobs(store)
            go_on(follower, steps=chance.randint(0, 3))
        disk = disk.kill() if chance.random() < 0.5 else disk.power_cut(chance)
    store = open_store(disk=disk, clock=clock)
    follower = store.follow(builder := PlacesBuilder(disk))
    settle(store, clock)
    go_on(follower)
    assert builder.places == all_places(store)
    assert builder.gaps == []
