"""The kernels of the store jobs: what they make is what a broker made, byte for byte; twice changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.model.errors import StoreDamaged, StoreLocked
from cometmq.offline import rebuild, rebuild_keys
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.lives import WrittenRun
from cometmq.offline.plan import plan_tasks
from cometmq.offline.verify import verify
from cometmq.store.index_file import IndexShape
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk
from tests.support.big_store import SETTINGS, make_big_store
from tests.support.hand_clock import HandClock
from tests.support.store_puts import open_store, put, read_all, run_jobs
from tests.unit.spark.test_store_rows import rows

STORES = Path(__file__).parents[2] / "golden" / "stores"
CLOCK = HandClock(1_800_000_000_000)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A store of ours with very many messages; only read."""
    path = tmp_path_factory.mktemp("big") / "store"
    make_big_store(path, int(request.config.getoption("--messages", default=20_000)))
    return path


@pytest.fixture(params=["clean", "crash", "big"])
def store(request: pytest.FixtureRequest) -> Path:
    """Stores of Java and of ours; only read."""
    if request.param == "big":
        return Path(request.getfixturevalue("big"))
    return STORES / str(request.param) / "store"


def contents(root: Path, part: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root / part)): path.read_bytes()
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


def tasks_of(root: Path, split_bytes: int = 300_000) -> list:
    return plan_tasks(StoreFolder(str(root)), split_bytes=split_bytes)


def rebuilt(root: Path, out: Path, split_bytes: int = 300_000) -> rebuild.RebuildTarget:
    """All queues of a store made anew in another directory, every second task twice."""
    folder = StoreFolder(str(root))
    target = rebuild.target_of(str(root), rebuild.found_settings(str(root)), out=str(out))
    rebuild.begin(target)
    written = []
    for number, task in enumerate(reversed(tasks_of(root, split_bytes))):
        written += rebuild.rebuild_task(folder, task, target)
        if number % 2:
            rebuild.rebuild_task(folder, task, target)
    rebuild.finish(target, written)
    return target


def test_queues_made_anew_are_those_of_the_broker(store, tmp_path):
    rebuilt(store, tmp_path)
    assert contents(tmp_path, "consumequeue") == contents(store, "consumequeue")


def test_an_index_made_anew_is_that_of_the_broker(store, tmp_path):
    folder, settings = StoreFolder(str(store)), rebuild.found_settings(str(store))
    rebuild_keys.begin_keys(str(tmp_path))
    keys = sum(rebuild_keys.keys_task(folder, task, str(tmp_path)) for task in tasks_of(store))
    shape = IndexShape(settings.index.slots, settings.index.entries)
    assert rebuild_keys.finish_keys(str(tmp_path), shape, clock=CLOCK) == keys
    made, there = contents(tmp_path, "index"), contents(store, "index")
    assert list(made.values()) == list(there.values())
    assert keys


def test_the_store_is_sound_and_says_how_much_there_is(store):
    found = find_store(str(store), None, RealDisk())
    verdict = verify(found)
    found.close()
    assert (verdict.errors, verdict.notes) == (0, 0)
    assert verdict.records == verdict.queue_entries == len(rows(store, columns="queueOffset"))


def test_rows_queues_and_direct_reading_agree(big):
    """Every message of a store of ours: by its log, by its queues, and read as a broker reads."""
    columns = "topic,queueId,queueOffset,commitLogOffset,storeSize,bodyCrc"
    messages = rows(big, columns=columns, splitBytes="5000000")
    entries = rows(big, view="consumequeue", columns=columns.removesuffix(",bodyCrc"))
    crcs = [message.pop("bodyCrc") for message in messages]

    def order(row: dict) -> tuple:
        return row["topic"], row["queueId"], row["queueOffset"]

    assert sorted(messages, key=order) == sorted(entries, key=order)
    assert sorted(direct(big)) == sorted(
        (*order(message), crc) for message, crc in zip(messages, crcs, strict=True)
    )


def direct(root: Path) -> Iterator[tuple[str, int, int, int]]:
    settings = replace(
        SETTINGS,
        transfer_bytes_in_memory=8 << 20,
        transfer_count_in_memory=8000,
        transfer_bytes_on_disk=8 << 20,
        transfer_count_on_disk=8000,
    )
    store = open_store(root, settings, read_only=True)
    for topic in store.topics():
        for queue in store.queues_of(topic):
            for record in read_all(store, topic, queue.queue_id):
                yield topic, queue.queue_id, record.queue_offset, record.body_crc
    store.close()


# --- rebuild


def test_a_rebuild_replaces_what_is_broken_and_keeps_queues_that_the_log_forgot(tmp_path):
    root = tmp_path / "store"
    shutil.copytree(STORES / "clean" / "store", root)
    expected = contents(root, "consumequeue")
    forgotten = root / "consumequeue" / "Expired" / "0"
    forgotten.mkdir(parents=True)
    (forgotten / f"{6000:020d}").write_bytes(bytes(6000))
    queue = next((root / "consumequeue" / "GoldenOrders").glob("*"))
    shutil.rmtree(queue)
    target = rebuilt(root, root / rebuild.REBUILT)
    lock = DirectoryLock(RealDisk(), str(root))
    lock.take()
    with pytest.raises(StoreLocked):
        rebuild.install(str(root), target)
    lock.release()
    assert rebuild.install(str(root), target) == len({Path(n).parent for n in expected})
    assert contents(root, "consumequeue") == {**expected, f"Expired/0/{6000:020d}": bytes(6000)}
    assert not (root / rebuild.REBUILT).exists()


def store_that_lost(root, number, *, of):
    """A store of so many messages, one of which the log lost; that message's row before."""
    store = open_store(root)
    for each in range(of):
        put(store, b"%d" % each * 300)
    run_jobs(store)
    store.close()
    lost = rows(root)[number]
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(lost["commitLogOffset"])
        file.write(bytes(60))
    return lost


def test_a_message_that_the_log_lost_is_a_gap_and_the_queue_goes_on(tmp_path):
    store_that_lost(tmp_path, 4, of=9)
    target = rebuilt(tmp_path, tmp_path / rebuild.REBUILT, 700)
    rebuild.install(str(tmp_path), target)
    assert [r["queueOffset"] for r in rows(tmp_path, view="consumequeue")] == [
        0, 1, 2, 3, 5, 6, 7, 8,
    ]  # fmt: skip
    found = find_store(str(tmp_path), None, RealDisk())
    assert {finding.part for finding in verify(found).findings} == {"log"}
    found.close()


def test_two_records_in_one_place_are_refused(tmp_path):
    target = rebuild.RebuildTarget(str(tmp_path), 400, ())
    runs = [
        WrittenRun("t", 0, 0, 5, 0, 100),
        WrittenRun("t", 0, 4, 6, 500, 100),
    ]
    with pytest.raises(StoreDamaged, match="have the queue offset 4 of t/0"):
        rebuild.finish(target, runs)
