"""The kernels of the store jobs: what they make is what a broker made, byte for byte; twice changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cometmq.model.errors import SettingsError, StoreDamaged, StoreLocked
from cometmq.offline import (
    archive,
    archive_files,
    rebuild,
    rebuild_keys,
    restore,
    store_sizes,
    topic_manifest,
)
from cometmq.offline.archive import ArchiveRules
from cometmq.offline.choices import Mode
from cometmq.offline.folder import StoreFolder
from cometmq.offline.lives import WrittenRun
from cometmq.offline.plan import LogRange, plan_tasks
from cometmq.offline.rows import DAY_MS
from cometmq.store.archive_mark import archived_to
from cometmq.store.index_file import IndexShape
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk
from tests.support.big_store import SETTINGS, make_big_store
from tests.support.hand_clock import HandClock
from tests.support.offline_steps import (
    CLOCK,
    STORES,
    archived,
    files_below,
    overwrite_log,
    verdict_of,
)
from tests.support.store_puts import open_store, put, read_all, run_jobs, writing
from tests.unit.spark.test_store_rows import rows


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
    assert files_below(tmp_path / "consumequeue") == files_below(store / "consumequeue")


def test_an_index_made_anew_is_that_of_the_broker(store, tmp_path):
    folder, settings = StoreFolder(str(store)), rebuild.found_settings(str(store))
    rebuild_keys.begin_keys(str(tmp_path))
    keys = sum(rebuild_keys.keys_task(folder, task, str(tmp_path)) for task in tasks_of(store))
    shape = IndexShape(settings.index.slots, settings.index.entries)
    assert rebuild_keys.finish_keys(str(tmp_path), shape, clock=CLOCK) == keys
    made, there = files_below(tmp_path / "index"), files_below(store / "index")
    assert list(made.values()) == list(there.values())
    assert keys


def test_the_store_is_sound_and_says_how_much_there_is(store):
    verdict = verdict_of(store)
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
    expected = files_below(root / "consumequeue")
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
    assert files_below(root / "consumequeue") == {
        **expected,
        f"Expired/0/{6000:020d}": bytes(6000),
    }
    assert not (root / rebuild.REBUILT).exists()


def store_that_lost(root, number, *, of):
    """A store of so many messages, one of which the log lost; that message's row before."""
    with writing(root) as store:
        for each in range(of):
            put(store, b"%d" % each * 300)
    lost = rows(root)[number]
    overwrite_log(root, lost["commitLogOffset"], bytes(60))
    return lost


def test_a_message_that_the_log_lost_is_a_gap_and_the_queue_goes_on(tmp_path):
    store_that_lost(tmp_path, 4, of=9)
    target = rebuilt(tmp_path, tmp_path / rebuild.REBUILT, 700)
    rebuild.install(str(tmp_path), target)
    assert [r["queueOffset"] for r in rows(tmp_path, view="consumequeue")] == [
        0, 1, 2, 3, 5, 6, 7, 8,
    ]  # fmt: skip
    assert {finding.part for finding in verdict_of(tmp_path).findings} == {"log"}


def test_two_records_in_one_place_are_refused(tmp_path):
    target = rebuild.RebuildTarget(str(tmp_path), 400, ())
    runs = [
        WrittenRun("t", 0, 0, 5, 0, 100),
        WrittenRun("t", 0, 4, 6, 500, 100),
    ]
    with pytest.raises(StoreDamaged, match="have the queue offset 4 of t/0"):
        rebuild.finish(target, runs)


DAYS = 20_000  # Since 1970, at midnight.


@pytest.fixture(params=["clean", "crash", "big"])
def original(request: pytest.FixtureRequest) -> Path:
    """Stores of Java and of ours; only read."""
    if request.param == "big":
        return Path(request.getfixturevalue("big"))
    return STORES / str(request.param) / "store"


def restored(place: Path, back: Path) -> tuple[list[restore.LogPart], list[Any]]:
    """The parts of a store that comes out of an archive, and what became of each."""
    parts = restore.plan_restore(str(place), str(back))
    restore.begin_restore(parts)
    return parts, [restore.restore_task(part) for part in parts]


def test_what_is_archived_comes_back_bit_by_bit(original, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(original, root)
    end = archived(root, tmp_path / "archive")
    assert archived_to(RealDisk(), str(root)) == end
    rules = ArchiveRules(str(tmp_path / "archive"), is_raw=True)
    assert archive.plan_archive(StoreFolder(str(root)), LogRange(), rules) == []
    assert archive.plan_archive(StoreFolder(str(root)), LogRange()) == []
    back = tmp_path / "back"
    parts, done = restored(tmp_path / "archive", back)
    done.append(restore.restore_task(parts[0]))
    assert not any(each.missing for each in done)
    restore.finish_restore(parts, str(back), clock=CLOCK)  # With the sizes that it had.
    log = files_below(root / "commitlog")
    assert files_below(back / "commitlog") == {
        name: log[name] for name in files_below(back / "commitlog")
    }
    assert not any(
        any(log[name]) for name in log.keys() - files_below(back / "commitlog").keys()
    )
    assert files_below(back / "consumequeue") == files_below(root / "consumequeue")
    assert list(files_below(back / "index").values()) == list(
        files_below(root / "index").values()
    )
    for name, content in files_below(back / "config").items():
        assert content == files_below(root / "config")[name]


def test_a_growing_log_is_archived_piece_by_piece_and_a_second_run_changes_nothing(tmp_path):
    root, place = tmp_path / "store", tmp_path / "archive"
    store = open_store(root)
    marks = []
    for number in range(6):
        put(store, *[b"%d" % number * 800] * 7)
        run_jobs(store)
        marks.append(archived(root, place, splits=5000))
    before = files_below(place)
    assert archived(root, place, splits=5000) == marks[-1]
    assert files_below(place) == before
    assert marks == sorted(set(marks))
    assert marks[-1] == store.max_offset
    store.close()
    table = pq.read_table(place / "topic=orders")
    assert sorted(table["queueOffset"].to_pylist()) == list(range(42))
    _, done = restored(place, tmp_path / "back")
    assert sum(each.records for each in done) == 42


def test_each_file_has_one_topic_of_one_day_in_the_order_of_the_log(tmp_path):
    root, place, clock = tmp_path / "store", tmp_path / "archive", HandClock(DAYS * DAY_MS)
    rows: dict[tuple[str, int], list[bytes]] = {}
    with writing(root, clock=clock) as store:
        for number in range(120):
            topic, day = ("orders", "ships", "mail")[number * 7 % 3], number // 50
            clock.turn((DAYS + day) * DAY_MS / 1000 + number - clock.now_ms() / 1000)
            put(store, b"%d" % number * 40, topic=topic)
            rows.setdefault((topic, day), []).append(b"%d" % number * 40)
    archived(root, place, splits=1 << 20)
    assert len(rows) == 9
    for (topic, day), bodies in rows.items():
        date = datetime.fromtimestamp((DAYS + day) * DAY_MS / 1000, UTC).date()
        table = pq.read_table(place / f"topic={topic}" / f"dt={date}")
        assert table["body"].to_pylist() == bodies
        assert table["valid"].to_pylist() == [True] * len(bodies)
        offsets = table["commitLogOffset"].to_pylist()
        assert offsets == sorted(offsets)


def test_a_piece_of_the_log_without_a_sound_message_makes_no_file(tmp_path):
    root, place = tmp_path / "store", tmp_path / "archive"
    with writing(root) as store:
        put(store, b"x" * 100)
    (log,) = (root / "commitlog").iterdir()
    content = log.read_bytes()
    log.write_bytes(content.replace(b"x" * 100, b"x" * 99 + b"y"))
    folder = StoreFolder(str(root))
    rules = ArchiveRules(str(place), mode=Mode.DROPMALFORMED)
    plan = archive.plan_archive(folder, LogRange())
    assert archive.archive_task(folder, plan, rules) == []


def test_a_task_that_was_killed_leaves_nothing_that_counts(tmp_path, monkeypatch):
    root, place = tmp_path / "store", tmp_path / "archive"
    shutil.copytree(STORES / "clean" / "store", root)
    folder, rules = StoreFolder(str(root)), ArchiveRules(str(place), is_raw=True)
    plan = archive.plan_archive(folder, LogRange(), split_bytes=300_000)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archive_files.ArchiveFiles, "_renamed", killed)
        with pytest.raises(KeyboardInterrupt):
            archive.archive_task(folder, plan, rules)
    assert not [name for name in files_below(place) if not Path(name).name.startswith(".")]
    assert archived_to(RealDisk(), str(root)) == 0
    archived(root, place)
    names = files_below(place)
    assert not [name for name in names if Path(name).name.startswith(".")]


@pytest.mark.parametrize("is_raw", [True, False])
def test_what_cannot_be_restored_is_refused(tmp_path, is_raw):
    root, place, back = tmp_path / "store", tmp_path / "archive", tmp_path / "back"
    shutil.copytree(STORES / "clean" / "store", root)
    archived(root, place, is_raw=is_raw)
    if not is_raw:
        with pytest.raises(SettingsError, match="--raw"):
            restore.plan_restore(str(place), str(back))
        return
    back.mkdir()
    assert restore.plan_restore(str(place), str(back))
    for start, end in ((100, 50), (100, 100), (None, 0)):
        with pytest.raises(SettingsError, match=f"has no records from {start} to {end}"):
            restore.plan_restore(str(place), str(back), start=start, end=end)
    (back / "file").touch()
    with pytest.raises(SettingsError, match="is not empty"):
        restore.plan_restore(str(place), str(back))
    other = tmp_path / "other"
    with writing(other) as store:
        put(store, b"x")
    with pytest.raises(SettingsError, match="another folder"):
        archived(other, place)


@pytest.mark.parametrize("place_in_log", [0, -1])
def test_messages_missing_from_an_archive_are_named(tmp_path, place_in_log):
    root, place, back = tmp_path / "store", tmp_path / "archive", tmp_path / "back"
    shutil.copytree(STORES / "clean" / "store", root)
    archived(root, place, splits=20_000)
    lost = sorted(place.glob("topic=*/*/*.parquet"), key=lambda path: path.name)[place_in_log]
    first = min(pq.read_table(lost)["commitLogOffset"].to_pylist())
    lost.unlink()
    _, done = restored(place, back)
    missing = [each for part in done for each in part.missing]
    assert any(start <= first < stop for start, stop in missing)


def test_what_is_no_record_is_not_forgotten_by_an_archive(tmp_path):
    root, place, back = tmp_path / "store", tmp_path / "archive", tmp_path / "back"
    lost = store_that_lost(root, 2, of=5)
    archived(root, place)
    (damage,) = place.glob("topic=__HIVE_DEFAULT_PARTITION__/*/*.parquet")
    (row,) = pq.read_table(damage).to_pylist()
    assert (row["commitLogOffset"], row["valid"]) == (lost["commitLogOffset"], False)
    _, (done,) = restored(place, back)
    start = lost["commitLogOffset"]
    assert done.missing == ((start, start + lost["storeSize"]),)
    assert done.records == 4


def test_a_store_comes_back_with_the_sizes_that_are_chosen_and_the_rest_as_it_was(tmp_path):
    root, place, back = tmp_path / "store", tmp_path / "archive", tmp_path / "back"
    shutil.copytree(STORES / "clean" / "store", root)
    archived(root, place)
    kept = store_sizes.kept_sizes(StoreFolder(str(place)))
    assert store_sizes.sizes_of(kept) == {
        "mappedFileSizeCommitLog": 262_144,
        "mappedFileSizeConsumeQueue": 6_000,
        "maxHashSlotNum": 1_000,
        "maxIndexNum": 2_000,
    }
    given = {"queue_file_size": 4_000, "index_slots": 0, "index_entries": 500}
    chosen = store_sizes.chosen_sizes(kept, **given)
    parts, _ = restored(place, back)
    restore.finish_restore(parts, str(back), clock=CLOCK, settings=chosen)
    found = rebuild.found_settings(str(back))
    assert found.commitlog_file_size == 262_144
    assert (found.queue_file_size, found.index.slots, found.index.entries) == (
        4_000,
        1_000,
        500,
    )
    assert verdict_of(back).findings == []
    with pytest.raises(SettingsError, match="is not a size"):
        store_sizes.chosen_sizes(kept, **{**given, "index_slots": -1})


@pytest.mark.parametrize("content", ["", "{", "[]", '{"v": 1}', '{"v": 1, "ranges": [3]}'])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("archive", archive.read_manifest),
        ("topics", topic_manifest.read_topic_manifest),
        ("sizes", lambda place: store_sizes.kept_sizes(StoreFolder(place))),
    ],
)
def test_a_damaged_file_of_an_archive_is_named_in_one_line(tmp_path, name, read, content):
    file = tmp_path / "_archive" / f"{name}.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(
        StoreDamaged, match=rf"{name}\.json is damaged \(.*: restore it from a copy"
    ):
        read(str(tmp_path))
    file.write_text('{"v": 2}')
    with pytest.raises(
        SettingsError, match=rf"{name}\.json has version 2, but this CometMQ reads version 1"
    ):
        read(str(tmp_path))
