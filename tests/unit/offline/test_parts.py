"""A store verified in parts: the parts find what one walk over the whole finds, whatever their size."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cometmq.codec.index_file import entry_position
from cometmq.codec.record import Record, encode_record
from cometmq.offline.findings import Finding
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_disk import FolderDisk
from cometmq.offline.found import find_store
from cometmq.offline.part_check import PartVerdict, check_part, parts_of
from cometmq.offline.verify import StoreCheck, StoreVerdict, verify
from cometmq.store.disk import Disk
from cometmq.store.real_disk import RealDisk
from tests.support.store_puts import open_store, put, run_jobs, writable_copy

STORES = Path(__file__).parents[2] / "golden" / "stores"
SLOTS = 1_000  # Of the golden stores (maxHashSlotNum).
SIZES = pytest.mark.parametrize("part_bytes", [1 << 30, 100_000, 9_973])


def whole_verdict(root: Path, disk: Disk | None = None) -> StoreVerdict:
    store = find_store(str(root), None, disk or RealDisk())
    try:
        return verify(store)
    finally:
        store.close()


def verdict_in_parts(root: Path, part_bytes: int) -> StoreVerdict:
    """Each part alone and the last one first, as tasks may do it; through JSON, as a manifest keeps it."""
    store = find_store(str(root), None, RealDisk())
    try:
        check = StoreCheck(store)
        rows: list[str] = []
        for part in reversed(parts_of(store, part_bytes)):
            alone = find_store(str(root), store.settings, RealDisk())
            rows.append(json.dumps(check_part(alone, part, has_queues=check.has_queues)))
            alone.close()
        return check.finish(PartVerdict.of(json.loads(row)) for row in reversed(rows))
    finally:
        store.close()


@pytest.fixture(params=["clean", "crash"])
def copy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store that Java wrote, to be damaged."""
    source = STORES / request.param / "store"
    return writable_copy(source, tmp_path / "store")


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


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


def ordered(findings: list[Finding]) -> list[Finding]:
    return sorted(findings)


@SIZES
@pytest.mark.parametrize("name", ["clean", "crash", "kinds"])
def test_what_java_wrote_is_sound_in_parts_too(name, part_bytes):
    root = STORES / name / "store"
    assert verdict_in_parts(root, part_bytes) == whole_verdict(root)


@SIZES
@pytest.mark.parametrize("harm", HARMS)
def test_parts_find_what_one_walk_finds(copy, harm, part_bytes):
    HARMS[harm](copy)
    whole, parts = whole_verdict(copy), verdict_in_parts(copy, part_bytes)
    assert whole.findings, "it is harm"
    assert numbers(parts) == numbers(whole)
    assert ordered(parts.findings) == ordered(whole.findings)


def test_every_place_of_a_part_begin_gives_the_same(tmp_path):
    """A record in a body is never taken for one, wherever a part begins."""
    store = open_store(tmp_path)
    put(store, b"x" * 300)
    at = store.max_offset
    forged = encode_record(Record(physical_offset=at + 88 + 100, topic="secret", body=b"no"))
    put(store, b"y" * 100 + forged + b"y" * 500)
    put(store, b"z" * 300)
    run_jobs(store)
    store.close()
    whole = whole_verdict(tmp_path)
    assert (whole.records, whole.errors) == (3, 0)
    for part_bytes in range(100, 900, 37):
        assert verdict_in_parts(tmp_path, part_bytes) == whole, part_bytes


def test_a_store_on_another_file_system_is_verified_by_the_same_walk(copy):
    overwrite(log_file(copy), 246 + 88, b"\xff")
    disk = FolderDisk(StoreFolder(f"file://{copy}"))
    elsewhere, here = whole_verdict(copy, disk), whole_verdict(copy)
    assert elsewhere == here
    fd = disk.open(str(log_file(copy)))
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pwrite(fd, b"x", 0)
    disk.close(fd)
    with pytest.raises(OSError, match="Read-only"):
        disk.open(str(copy / "new"), create=True)
