"""A log that nobody can read is no empty one, and what is damaged in another is a finding of every command that walks it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.model.errors import StoreDamaged
from cometmq.net.clock import SystemClock
from cometmq.offline.archive import ArchiveRules, archive_task, finish_archive, plan_archive
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.findings import Findings
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.log_end import damage_behind, durable_end
from cometmq.offline.plan import LogRange
from cometmq.offline.rebuild_store import StoreRebuild
from cometmq.offline.repair import repair
from cometmq.offline.summary import summarize
from cometmq.offline.verify import verify
from cometmq.store.lock import ABORT_FILE
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from tests.support.offline_steps import CLOCK, files_below, rebuilt
from tests.support.store_puts import SMALL, make_put, open_store, put, run_jobs

MESSAGES = 60  # Of 400 bytes and more: the log has two files.
GARBAGE = b"\x5a\xa5"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that its broker has closed."""
    store = open_store(tmp_path / "store")
    for number in range(MESSAGES):
        put(store, b"%d" % number * 150)
    run_jobs(store)
    store.close()
    return tmp_path / "store"


def logs(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def spoil(path: Path, start: int, stop: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    stop = len(content) if stop is None else stop
    content[start:stop] = (GARBAGE * (stop - start))[: stop - start]
    path.write_bytes(content)


def record_starts(root: Path) -> list[int]:
    """Where the records of the first file begin."""
    content, at, starts = logs(root)[0].read_bytes(), 0, []
    while content[at + 4 : at + 8] == b"\xda\xa3\x20\xa7":
        starts.append(at)
        at += int.from_bytes(content[at : at + 4])
    return starts


def archived(root: Path, place: Path) -> tuple[int, list[str]]:
    """How many rows an archive has of a store, and what was found."""
    folder, rules, found = StoreFolder(str(root)), ArchiveRules(str(place)), Findings()
    splits = plan_archive(folder, LogRange())
    files = archive_task(folder, splits, rules, on_finding=found.take)
    if splits:
        finish_archive(folder, splits, rules)
    if (behind := damage_behind(folder)) is not None:
        found.take(behind.finding())
    return sum(file.rows for file in files), [str(each) for each in found.told()]


# --- no record at all


@pytest.fixture
def unreadable(root: Path) -> Path:
    for path in logs(root):
        spoil(path, 0)
    return root


@pytest.mark.parametrize(
    "use",
    [
        lambda root, _: rebuilt(root),
        lambda root, _: rebuilt(root, is_check=True),
        archived,
        lambda root, _: durable_end(StoreFolder(str(root)), 0),
        lambda root, _: compare_folders(str(root), str(root), clock=SystemClock()),
    ],
    ids=["rebuild", "check", "archive", "stream", "compare"],
)
def test_a_log_without_any_record_is_refused_and_nothing_changes(unreadable, tmp_path, use):
    before = files_below(unreadable)
    with pytest.raises(StoreDamaged) as refused:
        use(unreadable, tmp_path / "archive")
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{logs(unreadable)[0]} at byte 0 (physical offset 0): ")
    assert "cometmq store repair" in line
    assert files_below(unreadable) == before
    assert not (tmp_path / "archive").exists()


def test_a_store_in_numbers_says_how_much_of_it_is_no_record(unreadable):
    found = find_store(str(unreadable), None, RealDisk())
    summary = summarize(found)
    found.close()
    assert (summary.log_end, summary.last_ms) == (0, None)
    assert summary.no_records == SMALL.commitlog_file_size, "of the first file"


def test_what_the_refusal_says_of_repair_is_true(unreadable):
    """The bytes are kept in `cut`, and a broker opens an empty log."""
    spoiled = sum(path.stat().st_size for path in logs(unreadable))
    repair(str(unreadable), SMALL, clock=CLOCK, disk=RealDisk())
    kept = list((unreadable / "cut").iterdir())
    assert sum(path.stat().st_size for path in kept) == spoiled
    store = MessageStore.open(unreadable, SMALL, clock=CLOCK)
    assert (store.max_offset, store.refusal) == (0, None)
    store.close()


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\1\0\xda\xa3\x20\xa7" * 9], ids=["empty", "torn"]
)
def test_a_log_that_has_no_record_yet_is_not_refused(tmp_path, content):
    """A new one, and one whose broker writes its first record, or was killed then: the next start cuts it."""
    root = tmp_path / "store"
    log = root / "commitlog" / f"{0:020d}"
    log.parent.mkdir(parents=True)
    log.write_bytes(content.ljust(SMALL.commitlog_file_size, b"\0"))
    if content:
        (root / ABORT_FILE).write_text("1")
    assert archived(root, tmp_path / "archive") == (0, [])
    result = rebuilt(root)
    assert (set(result.counts.values()), result.findings) == ({0}, [])
    found = find_store(str(root), None, RealDisk())
    assert verify(found).errors == 0
    found.close()


# --- damage


@pytest.mark.parametrize("first", [0, 5], ids=["at the begin", "in the middle"])
def test_damage_is_found_by_all_and_what_stands_behind_it_is_there(root, tmp_path, first):
    starts = record_starts(root)
    spoil(logs(root)[0], starts[first], starts[first + 2])
    where = f"{logs(root)[0]} at byte {starts[first]} (physical offset {starts[first]}): "
    checked, result = rebuilt(root, is_check=True), rebuilt(root)
    assert str(result.findings[0]).startswith(where)
    assert str(checked.findings[0]).startswith(where)
    assert len(result.findings) == 1
    assert result.counts["queue entries"] == MESSAGES - 2
    rows, findings = archived(root, tmp_path / "archive")
    assert rows == MESSAGES - 2 + 1, "the damage is a row, too"
    assert [each.startswith(where) for each in findings] == [True]
    found = find_store(str(root), None, RealDisk())
    assert verify(found).errors
    found.close()


def test_an_index_file_that_ends_in_its_header_is_a_finding(tmp_path):
    store = open_store(tmp_path)
    store.put_many([make_put(store, property_block=encode_properties({"KEYS": "a"}))])
    store.dispatch_pending()
    run_jobs(store)
    store.close()
    (file,) = (tmp_path / "index").iterdir()
    file.write_bytes(file.read_bytes()[:10])
    found = find_store(str(tmp_path), None, RealDisk())
    said = [each for each in verify(found).findings if each.where == str(file)]
    assert [each.what for each in said] == ["its size is not that of an index file"]
    found.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_bytes_behind_the_end_are_found_where_no_start_cuts_them(root, tmp_path, is_closed):
    last = logs(root)[-1]
    end = len(last.read_bytes().rstrip(b"\0")) + 1
    spoil(last, end, end + 90)
    if not is_closed:
        (root / ABORT_FILE).write_text("1")
    found = find_store(str(root), None, RealDisk())
    assert verify(found).errors == is_closed
    assert summarize(found).no_records > 0
    found.close()
    rows, findings = archived(root, tmp_path / "archive")
    assert rows == MESSAGES
    assert len(findings) == is_closed
    assert all(f"{last} at byte " in each for each in findings)
    assert len(rebuilt(root).findings) == is_closed
    damages = compare_folders(str(root), str(root), clock=CLOCK).damages
    assert [each[:2] for each in damages] == ["A:", "B:"] * is_closed
    assert {each[3:] for each in damages} == set(findings)


def test_a_body_that_is_not_what_its_record_says_is_a_finding_of_an_archive(root, tmp_path):
    place = record_starts(root)[7]
    spoil(logs(root)[0], place + 90, place + 91)
    rows, findings = archived(root, tmp_path / "archive")
    assert rows == MESSAGES
    assert findings == [
        f"{logs(root)[0]}: the message at offset 7 of orders/0: the CRC of its body is wrong"
    ]


def test_a_store_with_findings_is_rebuilt_again_from_a_manifest(root):
    """Rows of tasks go through JSON: a killed job finds them in its manifest."""
    shutil.rmtree(root / "consumequeue")
    starts = record_starts(root)
    spoil(logs(root)[0], starts[3], starts[4])
    made = StoreRebuild.of(str(root))
    tasks = made.tasks()
    made.begin()
    rows = [[*row] for task in tasks for row in made.work(task)]
    assert [len(row) for row in rows if len(row) == 4] == [4]
    result = made.finish(rows, clock=CLOCK)
    assert [each.part for each in result.findings] == ["log"]
    assert (root / "consumequeue" / "orders" / "0").is_dir()
