"""Archives of one log at several places: each holds all of it or says what it lacks, whatever became of the others."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline import archive
from cometmq.offline.archive import ArchiveRules
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.findings import Finding
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import LogRange
from cometmq.store.archive_mark import ArchiveGuard, archive_marks, guarded_to
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from cometmq.store.retention import Retention
from tests.support.hand_clock import HandClock
from tests.support.offline_steps import CLOCK, errors_of, restored
from tests.support.store_puts import (
    SMALL,
    bodies_of,
    clean,
    open_store,
    put,
    read_all,
    settle,
    writing,
)

SPLIT = 5000
TOPICS = ("orders", "ships")
QUEUES = range(3)


class Killed(Exception):
    """The run ended in the middle."""


def run(
    root: Path,
    place: Path,
    *,
    is_raw: bool = True,
    topics: tuple[str, ...] = (),
    kill_after: int | None = None,
    until_ms: int | None = None,
) -> tuple[int, list[Finding]]:
    """One run of the archive; gives the rows that it wrote, and what it says that the archive lacks."""
    folder, rules = StoreFolder(str(root)), ArchiveRules(str(place), is_raw, topics)
    splits = archive.plan_archive(folder, LogRange(end_ms=until_ms), rules, split_bytes=SPLIT)
    archive.begin_archive(splits, rules)
    written = 0
    for number, split in enumerate(splits):
        if number == kill_after:
            raise Killed
        written += sum(file.rows for file in archive.archive_task(folder, [split], rules))
    if kill_after is not None:
        raise Killed
    archive.finish_archive(folder, splits, rules)
    return written, archive.findings_of(folder, rules)


def filled(root: Path, count: int = 100, *, first: int = 0) -> Path:
    """A closed store with so many messages more."""
    with writing(root) as store:
        put(store, *[b"%d " % number + b"x" * 200 for number in range(first, first + count)])
    return root


def bodies(root: Path, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    store = open_store(root, read_only=True)
    found = [record.body for record in read_all(store, topic, queue_id)]
    store.close()
    return found


def guard(root: Path) -> ArchiveGuard:
    store = open_store(root, read_only=True)
    log = store._directory.log
    found = guarded_to(RealDisk(), str(root), (log.chain.start, store.max_offset), log.read)
    store.close()
    return found


def log_end(root: Path) -> int:
    store = open_store(root, read_only=True)
    end = store.max_offset
    store.close()
    return end


def emptied(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()


def without_parquet(place: Path) -> None:
    for path in place.glob("topic=*/*/*.parquet"):
        path.unlink()


def without_one_file(place: Path) -> None:
    sorted(place.glob("topic=*/*/*.parquet"))[1].unlink()


def with_a_shorter_file(place: Path) -> None:
    path = sorted(place.glob("topic=*/*/*.parquet"))[1]
    path.write_bytes(path.read_bytes()[:-100])


def without_its_manifest(place: Path) -> None:
    (place / "_archive" / "archive.json").unlink()


def with_an_older_manifest(place: Path) -> None:
    path = place / "_archive" / "archive.json"
    found = json.loads(path.read_bytes())
    path.write_text(json.dumps({**found, "ranges": []}))


LOST: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "emptied": emptied,
    "without its Parquet files": without_parquet,
    "without one file": without_one_file,
    "with a file cut off": with_a_shorter_file,
    "without its manifest": without_its_manifest,
    "with a manifest that says nothing": with_an_older_manifest,
}


def test_a_second_place_gets_all_that_the_log_has(tmp_path):
    root = filled(tmp_path / "store")
    assert run(root, tmp_path / "trial", is_raw=False) == (100, [])
    assert run(root, tmp_path / "real") == (100, [])
    assert run(root, tmp_path / "real") == (0, [])
    back, missing = restored(tmp_path / "real", tmp_path / "back")
    assert (bodies(back), missing) == (bodies(root), [])
    filled(root, 20, first=100)
    assert [
        run(root, tmp_path / name, is_raw=name == "real")[0] for name in ("trial", "real")
    ] == [20, 20]
    marks = archive_marks(RealDisk(), str(root))
    assert {name: mark.archived_to for name, mark in marks.items()} == {
        str(tmp_path / "trial"): log_end(root),
        str(tmp_path / "real"): log_end(root),
    }


@pytest.mark.parametrize("lost", LOST.values(), ids=[name.replace(" ", "-") for name in LOST])
def test_what_a_place_has_lost_is_archived_again(tmp_path, lost):
    root, place = filled(tmp_path / "store"), tmp_path / "archive"
    run(root, place)
    lost(place)
    assert guard(root).settled < log_end(root)
    assert str(place) in guard(root).reasons
    written, findings = run(root, place)
    assert written > 0
    assert findings == []
    assert guard(root) == ArchiveGuard(log_end(root), {})
    back, missing = restored(place, tmp_path / "back")
    assert (bodies(back), missing) == (bodies(root), [])


def test_a_place_that_was_moved_does_not_count_and_the_new_one_does(tmp_path):
    root, place, moved = filled(tmp_path / "store"), tmp_path / "archive", tmp_path / "moved"
    run(root, place)
    place.rename(moved)
    assert guard(root).settled == 0
    assert run(root, moved) == (0, [])
    assert guard(root).settled == log_end(root)
    assert bodies(restored(moved, tmp_path / "back")[0]) == bodies(root)


@pytest.mark.parametrize("kill_after", [0, 1, 3, 99])
@pytest.mark.parametrize("grown", [0, 40])
def test_an_interrupted_run_leaves_nothing_that_the_next_one_doubles(
    tmp_path, kill_after, grown
):
    root, place = filled(tmp_path / "store"), tmp_path / "archive"
    with pytest.raises(Killed):
        run(root, place, kill_after=kill_after)
    assert guard(root).settled == 0
    if grown:
        filled(root, grown, first=100)
    assert run(root, place)[1] == []
    filled(root, 10, first=200)
    with pytest.raises(Killed):
        run(root, place, kill_after=kill_after)
    assert restored(place, tmp_path / "half")[1] == []
    assert run(root, place)[1] == []
    back, missing = restored(place, tmp_path / "back")
    assert (bodies(back), missing) == (bodies(root), [])


def test_the_archive_of_another_store_is_refused_and_does_not_count(tmp_path):
    one, other = filled(tmp_path / "one"), filled(tmp_path / "other", 90, first=500)
    filled(tmp_path / "short", 10)
    run(one, tmp_path / "archive")
    for root, why in ((other, "ends at"), (tmp_path / "short", "ends at")):
        with pytest.raises(SettingsError, match=why):
            run(root, tmp_path / "archive")
    filled(other, 50)
    with pytest.raises(SettingsError, match="has another log"):
        run(other, tmp_path / "archive")
    run(other, tmp_path / "of-other")
    shutil.rmtree(tmp_path / "archive")
    (tmp_path / "of-other").rename(tmp_path / "archive")
    assert guard(one) == ArchiveGuard(
        0, {str(tmp_path / "archive"): "another archive is in this folder"}
    )


def test_a_log_that_was_cut_and_went_on_is_another_log(tmp_path):
    root, place = filled(tmp_path / "store"), tmp_path / "archive"
    shutil.copytree(root, tmp_path / "before")
    filled(root, 30, first=100)
    run(root, place)
    promoted = tmp_path / "before"
    shutil.copy(root / "archived.json", promoted)
    with pytest.raises(SettingsError, match="it was truncated after"):
        run(promoted, place)
    assert guard(promoted).settled == 0
    filled(promoted, 60, first=700)
    with pytest.raises(SettingsError, match="has another log"):
        run(promoted, place)
    assert guard(promoted).settled == 0
    assert "truncated and rewritten" in guard(promoted).reasons[str(place)]
    assert run(promoted, tmp_path / "second") == (160, [])
    assert guard(promoted).settled == log_end(promoted)


def test_what_was_deleted_before_it_was_archived_is_said(tmp_path):
    root, place = filled(tmp_path / "store", 60), tmp_path / "archive"
    run(root, place)
    filled(root, 200, first=60)
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    _, findings = run(root, place)
    assert [each.what[:22] for each in findings] == ["is not in this archive"]
    assert run(root, place) == (0, findings)
    _, missing = restored(place, tmp_path / "back")
    assert missing
    assert run(root, tmp_path / "fresh")[1] == []
    back, missing = restored(tmp_path / "fresh", tmp_path / "other")
    assert (bodies(back), missing) == (bodies(root), [])


def test_nothing_shows_that_an_archive_that_ends_before_the_log_is_of_this_store(tmp_path):
    root, other, place = (
        filled(tmp_path / "store", 20),
        tmp_path / "other",
        tmp_path / "archive",
    )
    run(root, place)
    filled(other, 300)
    for path in sorted((other / "commitlog").iterdir())[:2]:
        path.unlink()
    with pytest.raises(SettingsError, match="cannot be shown to be an archive of this store"):
        run(other, place)


def test_retention_deletes_nothing_that_only_a_lost_archive_had(tmp_path):
    rules = Retention(delete_hours=frozenset(), is_archive_guarded=True)
    settings = replace(SMALL, retention=rules)
    root, place, clock = tmp_path / "store", tmp_path / "archive", HandClock()
    store = open_store(root, settings, clock=clock)
    put(store, *[b"%d " % number + b"x" * 900 for number in range(100)])
    settle(store, clock)
    clock.turn(1000 * 365 * 24 * 3600)
    count = len(list((root / "commitlog").iterdir()))
    run(root, place)
    place.rename(tmp_path / "away")
    clean(store)
    assert store.cleaner.plan() == []
    assert len(list((root / "commitlog").iterdir())) == count
    (tmp_path / "away").rename(place)
    sorted(place.glob("topic=*/*/*.parquet"))[4].unlink()
    clean(store)
    assert 0 < store.min_offset < store.max_offset - SMALL.commitlog_file_size
    run(root, place)
    clean(store)
    assert store.min_offset > store.max_offset - 3 * SMALL.commitlog_file_size
    last = bodies_of(store)
    store.close()
    back, missing = restored(place, tmp_path / "back")
    assert missing == []
    assert len(bodies(back)) == 100
    assert bodies(back)[-len(last) :] == last


def test_a_mark_of_an_older_version_is_read_and_its_archive_looked_at(tmp_path):
    root, place = filled(tmp_path / "store"), tmp_path / "archive"
    run(root, place)
    end = log_end(root)
    old = {"archivedTo": end, "place": str(place), "v": 1}
    (root / "archived.json").write_text(json.dumps(old))
    assert guard(root).settled == end
    shutil.rmtree(place)
    assert guard(root).settled == 0
    found = json.loads((root / "archived.json").read_text())
    assert found == old
    run(root, tmp_path / "second")
    found = json.loads((root / "archived.json").read_text())
    assert (found["archivedTo"], found["v"]) == (end, 1)


# --- anything, in any order


class Steps:
    """A store, its archives, and steps that change them at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.root = folder / "store"
        self.places = [folder / f"place-{number}" for number in range(3)]
        self.random = random.Random(seed)
        self.number = 0
        self.is_expired = False
        self.clock = HandClock()
        self.store: MessageStore = open_store(self.root, clock=self.clock)

    def step(self) -> None:
        chosen = self.random.choices(
            [
                self.send,
                self.recreate,
                self.archive,
                self.kill,
                self.lose,
                self.expire,
                self.restart,
            ],
            [8, 3, 4, 3, 2, 2, 2],
        )
        chosen[0]()

    def send(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            self.number += 1
            body = b"%d " % self.number + b"x" * self.random.randint(10, 900)
            topic, queue_id = self.random.choice(TOPICS), self.random.choice(QUEUES)
            put(self.store, body, topic=topic, queue_id=queue_id)
        settle(self.store, self.clock)

    def recreate(self) -> None:
        self.store.delete_topic(self.random.choice(TOPICS))
        settle(self.store, self.clock)

    def archive(self) -> None:
        run(self.root, self.random.choice(self.places))

    def kill(self) -> None:
        with pytest.raises(Killed):
            run(
                self.root, self.random.choice(self.places), kill_after=self.random.randint(0, 5)
            )

    def lose(self) -> None:
        place = self.random.choice(self.places)
        if list(place.glob("topic=*/*/*.parquet"))[2:]:
            lose = self.random.choice(list(LOST.values()))
            lose(place)

    def expire(self) -> None:
        """Delete the oldest log file if the guard lets it go."""
        self.restart()
        files = sorted((self.root / "commitlog").iterdir())
        if len(files) > 2 and guard(self.root).settled >= int(files[1].name):
            self.store.close()
            files[0].unlink()
            self.is_expired = True
            self.store = open_store(self.root, clock=self.clock)

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self.root, clock=self.clock)

    def messages(self, root: Path) -> dict[tuple[str, int], list[bytes]]:
        return {
            (topic, queue_id): bodies(root, topic, queue_id)
            for topic in TOPICS
            for queue_id in QUEUES
        }


@pytest.mark.parametrize("seed", range(16))
def test_a_restored_store_is_the_store_or_its_archive_said_what_it_lacks(tmp_path, seed):
    steps = Steps(tmp_path, seed)
    steps.send()
    for _ in range(30):
        steps.step()
    steps.store.close()
    wanted = steps.messages(steps.root)
    assert errors_of(steps.root) == []
    for number, place in enumerate(steps.places):
        _, findings = run(steps.root, place)
        back, missing = restored(place, tmp_path / f"back-{number}")
        assert bool(missing) <= bool(findings)
        if not missing:
            assert errors_of(back) == []
        for queue, messages in steps.messages(back).items():
            if steps.is_expired:  # What the log has deleted, the archive may have.
                count = len(wanted[queue])
                assert messages[len(messages) - count :] == wanted[queue], (place, queue)
            else:
                assert messages == wanted[queue], (place, queue)


def test_a_damaged_file_of_an_archive_is_named_by_its_restore(tmp_path):
    root, place = filled(tmp_path / "store"), tmp_path / "archive"
    run(root, place)
    file = next(place.rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(StoreDamaged, match=f"{file.name} is not a readable archive file"):
        restored(place, tmp_path / "back")


def test_an_archive_of_a_topic_says_what_it_holds_and_a_run_writes_what_is_not_there(
    tmp_path: Path,
):
    root, place = filled(tmp_path / "store"), tmp_path / "trial"
    with pytest.raises(Killed):
        run(root, place, topics=("orders",), kill_after=2)
    assert run(root, place, topics=("orders",)) == (100, [])
    assert run(root, place, topics=("orders",)) == (0, [])
    filled(root, 50, first=100)
    assert run(root, place, topics=("orders",)) == (50, [])
    files = sorted(place.rglob("*.parquet"))
    files[0].unlink()
    again, findings = run(root, place, topics=("orders",))
    assert again > 0
    assert findings == []
    assert sorted(place.rglob("*.parquet")) == files
    # Another place gets all, and an emptied one, too.
    assert run(root, tmp_path / "real", topics=("orders",)) == (150, [])
    emptied(place)
    assert run(root, place, topics=("orders",)) == (150, [])
    assert run(root, tmp_path / "none", topics=("nothing",)) == (0, [])
    assert guard(root).settled == 0
    assert archive_marks(RealDisk(), str(root)) == {}


def test_an_archive_of_a_topic_is_none_of_the_store(tmp_path: Path):
    root, place = filled(tmp_path / "store"), tmp_path / "place"
    run(root, place)
    assert guard(root).settled == log_end(root)
    with pytest.raises(SettingsError, match="an archive of all topics, not of the topics"):
        run(root, place, topics=("orders",))
    emptied(place)
    run(root, place, topics=("orders",))
    assert guard(root).settled == 0
    with pytest.raises(SettingsError, match="an archive of the topics orders, not of all"):
        run(root, place)
    with pytest.raises(
        SettingsError, match="of the topics orders only, but a store needs all topics"
    ):
        restored(place, tmp_path / "back")


def test_an_archive_of_a_topic_is_compared_with_its_store(tmp_path: Path):
    root, place = filled(tmp_path / "store"), tmp_path / "place"
    with writing(root) as store:
        put(store, b"other", topic="ships")
    run(root, place, topics=("orders",))
    found = compare_folders(str(root), str(place), clock=CLOCK)
    assert found.is_same


@pytest.mark.parametrize(
    ("content", "places"),
    [
        ('{"archivedTo": 5, "place": "p", "proof": [1]}', []),
        ('{"places": {"p": {"archivedTo": 5, "proof": [1, 2]}}}', []),
        ('{"places": {"p": {"archivedTo": 5, "proof": {"lo": 1}}}}', []),
        ('{"places": [5]}', []),
        ('{"archivedTo": 5, "place": "p"}', ["p"]),
        ('{"places": {"p": {"archivedTo": 5, "proof": [1, 2, "9f"]}}}', ["p"]),
    ],
)
def test_a_damaged_mark_claims_nothing(tmp_path: Path, content: str, places: list[str]):
    (tmp_path / "archived.json").write_text(content)
    assert [*archive_marks(RealDisk(), str(tmp_path))] == places


# --- until a time


@pytest.mark.parametrize("count", [3, 100], ids=["in one log file", "over several"])
def test_an_archive_until_a_time_has_exactly_what_was_stored_before_it(tmp_path, count):
    """Later runs add what was left out."""
    clock, root, place = HandClock(), tmp_path / "store", tmp_path / "place"
    begins = []
    with writing(root, clock=clock) as store:
        for number in range(3 * count):
            if number % count == 0:
                clock.turn(90)
                begins.append(clock.now_ms())
            put(store, b"%d " % number + b"x" * 200)
    _, second, third = begins
    rows = [
        run(root, place, until_ms=until_ms)[0]
        for until_ms in (second, second + 1, third, third, None)
    ]
    assert rows == [count, count, 0, 0, count]
    assert bodies(restored(place, tmp_path / "to")[0]) == bodies(root)
