"""The log as an archive, and a store out of it: bit by bit, in pieces, killed, and with sizes of its own."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline import (
    archive,
    archive_files,
    rebuild,
    restore,
    store_sizes,
    topic_manifest,
)
from cometmq.offline.archive import ArchiveRules
from cometmq.offline.choices import Mode
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.plan import LogRange
from cometmq.offline.rows import DAY_MS
from cometmq.offline.verify import verify
from cometmq.store.archive_mark import archived_to
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import open_store, put, run_jobs
from tests.unit.spark.test_store_jobs import (
    CLOCK,
    STORES,
    big,  # noqa: F401  A fixture.
    contents,
    store_that_lost,
)

DAYS = 20_000  # Since 1970, at midnight.


@pytest.fixture(params=["clean", "crash", "big"])
def original(request: pytest.FixtureRequest) -> Path:
    """Stores of Java and of ours; only read."""
    if request.param == "big":
        return Path(request.getfixturevalue("big"))
    return STORES / str(request.param) / "store"


def archived(root: Path, place: Path, *, is_raw: bool = True, splits: int = 300_000) -> int:
    folder, rules = StoreFolder(str(root)), ArchiveRules(str(place), is_raw=is_raw)
    plan = archive.plan_archive(folder, LogRange(), rules, split_bytes=splits)
    archive.begin_archive(plan, rules)
    for split in plan:
        archive.archive_task(folder, [split], rules)
    moved = archive.finish_archive(folder, plan, rules)
    assert moved is not None
    return moved


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
    log = contents(root, "commitlog")
    assert contents(back, "commitlog") == {
        name: log[name] for name in contents(back, "commitlog")
    }
    assert not any(any(log[name]) for name in log.keys() - contents(back, "commitlog").keys())
    assert contents(back, "consumequeue") == contents(root, "consumequeue")
    assert list(contents(back, "index").values()) == list(contents(root, "index").values())
    for name, content in contents(back, "config").items():
        assert content == contents(root, "config")[name]


def test_a_growing_log_is_archived_piece_by_piece_and_a_second_run_changes_nothing(tmp_path):
    root, place = tmp_path / "store", tmp_path / "archive"
    store = open_store(root)
    marks = []
    for number in range(6):
        put(store, *[b"%d" % number * 800] * 7)
        run_jobs(store)
        marks.append(archived(root, place, splits=5000))
    before = contents(place, "")
    assert archived(root, place, splits=5000) == marks[-1]
    assert contents(place, "") == before
    assert marks == sorted(set(marks))
    assert marks[-1] == store.max_offset
    store.close()
    table = pq.read_table(place / "topic=orders")
    assert sorted(table["queueOffset"].to_pylist()) == list(range(42))
    _, done = restored(place, tmp_path / "back")
    assert sum(each.records for each in done) == 42


def test_each_file_has_one_topic_of_one_day_in_the_order_of_the_log(tmp_path):
    root, place, clock = tmp_path / "store", tmp_path / "archive", HandClock(DAYS * DAY_MS)
    store = open_store(root, clock=clock)
    rows: dict[tuple[str, int], list[bytes]] = {}
    for number in range(120):
        topic, day = ("orders", "ships", "mail")[number * 7 % 3], number // 50
        clock.turn((DAYS + day) * DAY_MS / 1000 + number - clock.now_ms() / 1000)
        put(store, b"%d" % number * 40, topic=topic)
        rows.setdefault((topic, day), []).append(b"%d" % number * 40)
    run_jobs(store)
    store.close()
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
    store = open_store(root)
    put(store, b"x" * 100)
    run_jobs(store)
    store.close()
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
    assert not [name for name in contents(place, "") if not Path(name).name.startswith(".")]
    assert archived_to(RealDisk(), str(root)) == 0
    archived(root, place)
    names = contents(place, "")
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
    store = open_store(other)
    put(store, b"x")
    run_jobs(store)
    store.close()
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
    whole = find_store(str(back), None, RealDisk())
    assert verify(whole).findings == []
    whole.close()
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
