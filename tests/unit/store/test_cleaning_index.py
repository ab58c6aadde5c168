"""Index files follow the log: those that only point before its start go, the newest stays."""

from __future__ import annotations

from dataclasses import replace

from cometmq.store.retention import Retention
from tests.crash.test_index_recovery import ALL_TIME, INDEX, keyed_put
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, clean, open_store, run_jobs, settle

COUNT = 400
SETTINGS = replace(SMALL, index=INDEX, retention=Retention(delete_hours=frozenset()))


def test_index_files_before_the_log_go_and_what_is_left_is_found():
    disk, clock = FakeDisk(), HandClock()
    disk.clock = clock
    store = open_store(disk=disk, clock=clock, settings=SETTINGS)
    for number in range(COUNT):
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

    left = [number for number in range(COUNT) if is_found(number)]
    assert left == list(range(left[0], COUNT))
    assert left[0] > 0
    store.close()
    again = open_store(disk=disk.kill(), clock=clock, settings=SETTINGS)
    assert [file.path for file in again.index.files] == [
        f"/store/index/{name}" for name in after
    ]
