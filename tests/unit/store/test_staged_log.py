"""The transient pool: sends wait in memory, are shown when they are written, and lost with the process."""

from __future__ import annotations

import errno
import random
from dataclasses import replace

import pytest

from cometmq.model.errors import StorePoisoned
from cometmq.store import staged_log
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    queue_of,
    run_jobs,
    store_with,
)

POOL = replace(SMALL, pool_buffers=1)


def staged_store(**more):
    store, disk, clock = store_with(settings=replace(POOL, **more))
    return store, disk, clock


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
