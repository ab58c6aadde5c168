"""A log that nobody can read is no empty one, and what is damaged in another is a finding of every command that walks it.

A store verified in parts has what one walk over the whole finds, whatever the size of the parts.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cometmq.codec.index_file import entry_position
from cometmq.codec.properties import encode_properties
from cometmq.model.errors import StoreDamaged
from cometmq.net.clock import SystemClock
from cometmq.offline.archive import ArchiveRules, archive_task, finish_archive, plan_archive
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.findings import Findings
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_disk import FolderDisk
from cometmq.offline.found import FoundStore, find_store
from cometmq.offline.log_end import damage_behind, durable_end
from cometmq.offline.part_check import PartVerdict, check_part, parts_of
from cometmq.offline.plan import LogRange
from cometmq.offline.rebuild_store import StoreRebuild
from cometmq.offline.repair import repair
from cometmq.offline.summary import summarize
from cometmq.offline.verify import StoreCheck, StoreVerdict
from cometmq.store.lock import ABORT_FILE
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from tests.support.offline_steps import (
    CLOCK,
    STORES,
    files_below,
    looked_at,
    overwrite,
    rebuilt,
    store_with_a_record_in_a_body,
    verdict_of,
)
from tests.support.store_puts import SMALL, make_put, put, writable_copy, writing

MESSAGES = 60  # Of 400 bytes and more: the log has two files.
GARBAGE = b"\x5a\xa5"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that its broker has closed."""
    with writing(tmp_path / "store") as store:
        for number in range(MESSAGES):
            put(store, b"%d" % number * 150)
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
    summary = looked_at(unreadable, summarize)
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
    assert verdict_of(root).errors == 0


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
    assert verdict_of(root).errors


def test_an_index_file_that_ends_in_its_header_is_a_finding(tmp_path):
    with writing(tmp_path) as store:
        store.put_many([make_put(store, property_block=encode_properties({"KEYS": "a"}))])
        store.dispatch_pending()
    (file,) = (tmp_path / "index").iterdir()
    file.write_bytes(file.read_bytes()[:10])
    said = [each for each in verdict_of(tmp_path).findings if each.where == str(file)]
    assert [each.what for each in said] == ["its size is not that of an index file"]


@pytest.mark.parametrize("is_closed", [True, False])
def test_bytes_behind_the_end_are_found_where_no_start_cuts_them(root, tmp_path, is_closed):
    last = logs(root)[-1]
    end = len(last.read_bytes().rstrip(b"\0")) + 1
    spoil(last, end, end + 90)
    if not is_closed:
        (root / ABORT_FILE).write_text("1")
    assert verdict_of(root).errors == is_closed
    assert looked_at(root, summarize).no_records > 0
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


SLOTS = 1_000  # Of the golden stores (maxHashSlotNum).
SIZES = pytest.mark.parametrize("part_bytes", [1 << 30, 100_000, 9_973])


def verdict_in_parts(root: Path, part_bytes: int) -> StoreVerdict:
    """Each part alone and the last one first, as tasks may do it; through JSON, as a manifest keeps it."""

    def in_parts(store: FoundStore) -> StoreVerdict:
        check = StoreCheck(store)
        rows: list[str] = []
        for part in reversed(parts_of(store, part_bytes)):
            alone = find_store(str(root), store.settings, RealDisk())
            rows.append(json.dumps(check_part(alone, part, has_queues=check.has_queues)))
            alone.close()
        return check.finish(PartVerdict.of(json.loads(row)) for row in reversed(rows))

    return looked_at(root, in_parts)


@pytest.fixture(params=["clean", "crash"])
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store that Java wrote, to be damaged."""
    source = STORES / request.param / "store"
    return writable_copy(source, tmp_path / "store")


def index_file(root: Path) -> Path:
    return min((root / "index").iterdir())


def queue_file(root: Path) -> Path:
    return root / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)


def log_file(root: Path, number: int = 0) -> Path:
    return root / "commitlog" / f"{number * 262_144:020d}"


HARMS = {
    "a bit of a body": lambda root: overwrite(log_file(root), 246 + 88, b"\xff"),
    "a record's head": lambda root: overwrite(log_file(root), 246, bytes(8)),
    "much of the log": lambda root: overwrite(log_file(root, 1), 30_000, bytes(60_000)),
    "a queue entry": lambda root: overwrite(queue_file(root), 40 * 20 + 12, b"\1\2\3\4"),
    "an entry that is gone": lambda root: overwrite(queue_file(root), 99 * 20, bytes(20)),
    "an entry of no record": lambda root: overwrite(
        queue_file(root), 100 * 20, b"\0" * 6 + b"\0\xf6" + b"\0\0\0\xf6" + bytes(8)
    ),
    "a queue": lambda root: shutil.rmtree(queue_file(root).parent),
    "a queue file's size": lambda root: overwrite(queue_file(root), 6000, bytes(20)),
    "an index entry's hash": lambda root: overwrite(
        index_file(root), entry_position(77, SLOTS), b"\0\0\1\2"
    ),
    "an index entry's place": lambda root: overwrite(
        index_file(root), entry_position(100, SLOTS) + 6, b"\1"
    ),
    "a chain of the index": lambda root: overwrite(
        index_file(root), entry_position(90, SLOTS) + 16, (3).to_bytes(4)
    ),
    "an index file": lambda root: max((root / "index").iterdir()).unlink(),
}


def numbers(verdict: StoreVerdict) -> tuple[int, ...]:
    return (
        verdict.records,
        verdict.log_start,
        verdict.log_end,
        verdict.queue_entries,
        verdict.index_entries,
        verdict.errors,
        verdict.notes,
    )


@SIZES
@pytest.mark.parametrize("name", ["clean", "crash", "kinds"])
def test_what_java_wrote_is_sound_in_parts_too(name, part_bytes):
    root = STORES / name / "store"
    assert verdict_in_parts(root, part_bytes) == verdict_of(root)


@SIZES
@pytest.mark.parametrize("harm", HARMS)
def test_parts_find_what_one_walk_finds(copy, harm, part_bytes):
    HARMS[harm](copy)
    whole, parts = verdict_of(copy), verdict_in_parts(copy, part_bytes)
    assert whole.findings, "it is harm"
    assert numbers(parts) == numbers(whole)
    assert sorted(parts.findings) == sorted(whole.findings)


def test_every_place_of_a_part_begin_gives_the_same(tmp_path):
    """A record in a body is never taken for one, wherever a part begins."""
    store_with_a_record_in_a_body(tmp_path)
    whole = verdict_of(tmp_path)
    assert (whole.records, whole.errors) == (3, 0)
    for part_bytes in range(100, 900, 37):
        assert verdict_in_parts(tmp_path, part_bytes) == whole, part_bytes


def test_a_store_on_another_file_system_is_verified_by_the_same_walk(copy):
    overwrite(log_file(copy), 246 + 88, b"\xff")
    disk = FolderDisk(StoreFolder(f"file://{copy}"))
    elsewhere, here = verdict_of(copy, disk), verdict_of(copy)
    assert elsewhere == here
    fd = disk.open(str(log_file(copy)))
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pwrite(fd, b"x", 0)
    disk.close(fd)
    with pytest.raises(OSError, match="Read-only"):
        disk.open(str(copy / "new"), create=True)
