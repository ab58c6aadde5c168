"""What the tools of closed stores do, from beginning to end in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cometmq.codec.record import Record, encode_record
from cometmq.offline import archive, restore
from cometmq.offline.archive import ArchiveRules
from cometmq.offline.findings import Finding
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import FoundStore, find_store
from cometmq.offline.log_scan import LogScan
from cometmq.offline.plan import LogRange
from cometmq.offline.rebuild_store import RebuildResult, StoreRebuild
from cometmq.offline.verify import StoreVerdict, verify
from cometmq.store.disk import Disk
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings
from tests.support.hand_clock import HandClock
from tests.support.store_puts import put, writing

CLOCK = HandClock(1_800_000_000_000)
STORES = Path(__file__).parents[1] / "golden" / "stores"
T = TypeVar("T")


def files_below(root: Path) -> dict[str, bytes]:
    """Each file below a folder, with its bytes."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def looked_at(root: Path, look: Callable[[FoundStore], T], disk: Disk | None = None) -> T:
    """What somebody sees who looks at a closed store."""
    found = find_store(str(root), None, disk or RealDisk())
    try:
        return look(found)
    finally:
        found.close()


def verdict_of(root: Path, disk: Disk | None = None) -> StoreVerdict:
    """What `cometmq store verify` finds."""
    return looked_at(root, verify, disk)


def errors_of(root: Path) -> list[Finding]:
    """The findings of `cometmq store verify` that are errors."""
    return [each for each in verdict_of(root).findings if each.is_error]


def log_records(root: Path) -> list[Record]:
    """All records of a log, in order."""
    return looked_at(root, lambda found: [each for piece in LogScan(found) for each in piece])


def overwrite(path: Path, at: int, content: bytes) -> None:
    """Write other bytes at a place of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def overwrite_log(root: Path, offset: int, content: bytes) -> None:
    """Write other bytes into a log at a physical offset."""
    path = max(each for each in (root / "commitlog").iterdir() if int(each.name) <= offset)
    overwrite(path, offset - int(path.name), content)


def flip_bit(root: Path, offset: int) -> None:
    """Change a bit of a log at a physical offset of its first file."""
    path = min((root / "commitlog").iterdir())
    overwrite(path, offset, bytes([path.read_bytes()[offset] ^ 1]))


def store_with_a_record_in_a_body(root: Path) -> None:
    """A closed store of three messages; in the second one's body lies what looks like a record of its place."""
    with writing(root) as store:
        put(store, b"x" * 300)
        at = store.max_offset + 88 + 100
        forged = encode_record(Record(physical_offset=at, topic="secret", body=b"no"))
        put(store, b"y" * 100 + forged + b"y" * 500)
        put(store, b"z" * 300)


def archived(root: Path, place: Path, *, is_raw: bool = True, splits: int = 300_000) -> int:
    """Archive a log in pieces of so many bytes; gives up to where it is archived."""
    folder, rules = StoreFolder(str(root)), ArchiveRules(str(place), is_raw=is_raw)
    plan = archive.plan_archive(folder, LogRange(), rules, split_bytes=splits)
    archive.begin_archive(plan, rules)
    for split in plan:
        archive.archive_task(folder, [split], rules)
    moved = archive.finish_archive(folder, plan, rules)
    assert moved is not None
    return moved


def rebuilt(
    root: Path, settings: StoreSettings | None = None, *, is_check: bool = False
) -> RebuildResult:
    """Make queues and index of a store anew, or say what that would change."""
    plan = StoreRebuild.of(str(root), settings, is_check=is_check)
    tasks = plan.tasks()
    plan.begin()
    done = [row for task in tasks for row in plan.work(task)]
    return plan.finish(done, clock=CLOCK)


def restored(place: Path, to: Path) -> tuple[Path, list[Finding]]:
    """Make a store of an archive; gives it, and what the archive lacks."""
    parts = restore.plan_restore(str(place), str(to))
    restore.begin_restore(parts)
    missing = [each for part in parts for each in restore.restore_task(part).findings()]
    restore.finish_restore(parts, str(to), clock=CLOCK)
    return to, missing
