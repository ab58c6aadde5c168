"""What the tools of closed stores do, from beginning to end in this process."""

from __future__ import annotations

from pathlib import Path

from cometmq.offline import restore
from cometmq.offline.findings import Finding
from cometmq.offline.found import find_store
from cometmq.offline.rebuild_store import RebuildResult, StoreRebuild
from cometmq.offline.verify import StoreVerdict, verify
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings
from tests.support.hand_clock import HandClock

CLOCK = HandClock(1_800_000_000_000)


def files_below(root: Path) -> dict[str, bytes]:
    """Each file below a folder, with its bytes."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def verdict_of(root: Path) -> StoreVerdict:
    """What `cometmq store verify` finds."""
    found = find_store(str(root), None, RealDisk())
    try:
        return verify(found)
    finally:
        found.close()


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
