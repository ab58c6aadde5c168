"""Rebuilds queue files from the log: tasks write entry n to its place, in any order and repeatably.

    `begin` -> `rebuild_task` for each task, in any order -> `finish` once -> `install` once

A task packs the entries of its part of the log and writes each run (consecutive entries) at byte 20 n of its queue. If
two records claim one place of a queue, the later one wins whichever is written first, so before `finish`, repeating a
task changes nothing. `finish` removes entries of deleted topics (`lives`) and fills what Java requires: blanks before a
queue's first entry, and gaps. The files are created in a folder of their own, and `install` replaces the old ones.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cometmq.codec.queue_entry import BLANK_ENTRY, QUEUE_ENTRY_SIZE, gap_entries
from cometmq.model.errors import StoreDamaged
from cometmq.offline.damage import Damage
from cometmq.offline.findings import Finding, OnFinding, warn
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store, with_found_sizes
from cometmq.offline.known_queues import FirstEntry, KnownQueues, QueueId
from cometmq.offline.lives import WrittenRun, living_runs
from cometmq.offline.new_folder import replace_folder
from cometmq.offline.plan import Task, plan_tasks
from cometmq.offline.queue_reader import QUEUES
from cometmq.offline.queue_runs import ENTRY, EntryRun, QueueRuns
from cometmq.offline.scan import scan
from cometmq.store.disk import Disk
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings

REBUILT = "rebuilt"  # Subfolder of the store in which the new files are created.


@dataclass(frozen=True)
class RebuildTarget:
    """Destination of rebuilt queue files; picklable.

    Attributes:
        root: A local directory; files are created in its `consumequeue`.
        file_size: Size of a queue file in bytes (mappedFileSizeConsumeQueue).
        delay_levels_ms: Delay of each level, ms (messageDelayLevel).
        topics: Only these topics; empty for all.
    """

    root: str
    file_size: int
    delay_levels_ms: tuple[int, ...]
    topics: tuple[str, ...] = ()


def found_settings(
    root: str, settings: StoreSettings | None = None, log_paths: tuple[str, ...] = ()
) -> StoreSettings:
    """Return the settings (or RocketMQ's defaults) with a local store's actual file sizes.

    Without `settings`, delay levels are also found in the files, unless the store is damaged, and the log is in `log_paths`
    (empty: in `commitlog`).

    Raises:
        StoreDamaged: There is no log file.
    """
    disk = RealDisk()
    try:
        found = find_store(root, settings, disk, log_paths=log_paths)
    except StoreDamaged:
        settings = settings or replace(StoreSettings(), commitlog_paths=log_paths)
        return with_found_sizes(root, settings, disk)
    found.close()
    return found.settings


def queue_file_size(root: str) -> int:
    """Return the size of a queue file of a local store in bytes; RocketMQ's default if it has none, or is no store."""
    try:
        return found_settings(root).queue_file_size
    except (StoreDamaged, FileNotFoundError):
        return StoreSettings().queue_file_size


def target_of(
    root: str, settings: StoreSettings, *, out: str | None = None, topics: Sequence[str] = ()
) -> RebuildTarget:
    """Return the target of a rebuild: the folder `rebuilt` of the store until `install`, or the directory `out`."""
    place = out or f"{root}/{REBUILT}"
    file_size = settings.queue_entries_per_file * QUEUE_ENTRY_SIZE
    return RebuildTarget(place, file_size, tuple(settings.delay_levels_ms), tuple(topics))


def logged_queues(folder: StoreFolder, levels_ms: Sequence[int]) -> KnownQueues | None:
    """Return the queues as the log shows them, for a store without usable queue files; damaged bytes are ignored.

    None if two records claim one place of a queue, and no deletion of their topic between or after them is known.

    Raises:
        StoreDamaged: For example, there is no log.
        OSError: The log cannot be read.
    """
    wanted = RebuildTarget("", 0, tuple(levels_ms))
    tasks = plan_tasks(folder)
    runs = [
        written_run(run)
        for task in tasks
        for run in packed_runs(folder, task, wanted, on_finding=_overlook)
    ]
    try:
        lives = list(living_runs(runs))
    except StoreDamaged:
        return None
    firsts = {
        QueueId(run.topic, run.queue_id): FirstEntry(run.first, run.place)
        for run in (queue.living[0] for queue in lives if queue.living)
    }
    names = [each.base_name for each in folder.entries(folder.path("batchconsumequeue"))]
    end = tasks[-1][-1].hi if tasks else 0
    return KnownQueues(0, end, firsts, frozenset(names))


def _overlook(_damage: Finding) -> None:
    """Ignore damage, which the reader of the records reports."""


def begin(target: RebuildTarget) -> None:
    """Create an empty directory for new queue files; what the destination has under its name is deleted."""
    shutil.rmtree(f"{target.root}/{QUEUES}", ignore_errors=True)
    Path(target.root, QUEUES).mkdir(parents=True)


def rebuild_task(
    folder: StoreFolder, task: Task, target: RebuildTarget, *, on_finding: OnFinding = warn
) -> list[WrittenRun]:
    """Write the queue entries of a part of the log to files and return the runs written; OSError if that fails.

    Repeatable before `finish`, also concurrently with other tasks. Calls `on_finding` for bytes of the log that are not
    records, and thus in no queue.
    """
    runs = packed_runs(folder, task, target, on_finding=on_finding)
    return [write_run(target, run) for run in runs]


def packed_runs(
    folder: StoreFolder, task: Task, target: RebuildTarget, *, on_finding: OnFinding = warn
) -> Iterator[EntryRun]:
    """Yield runs of queue entries of a part of the log, by queue; calls `on_finding` for bytes that are not records."""
    packer = QueueRuns(target.delay_levels_ms, target.topics)
    for split in task:
        for found in scan(folder, split):
            if isinstance(found, Damage):
                on_finding(found.finding())
            else:
                packer.take(found.window)
    yield from packer.runs()


def write_run(target: RebuildTarget, run: EntryRun) -> WrittenRun:
    """Write consecutive entries to their place, entry n at byte 20 n of the queue, and return their description.

    An existing entry remains if its record is later.
    """
    content = run.entries.tobytes()
    _write(target, run.topic, run.queue_id, run.first, content, is_later_kept=True)
    return written_run(run)


def written_run(run: EntryRun) -> WrittenRun:
    """Return the description of a run of entries, without the entries."""
    place, size, _ = run.entries[0].tolist()
    last_place = int(run.entries[-1]["offset"])
    return WrittenRun(
        run.topic, run.queue_id, run.first, run.end, place, size, last_place, run.is_named
    )


def finish(
    target: RebuildTarget, written: Iterable[WrittenRun], known: KnownQueues | None = None
) -> int:
    """Remove entries of deleted topics, fill gaps, and sync the files; return the number of entries without filler.

    Args:
        target: Destination of the files.
        written: Runs of all tasks.
        known: Queues as the store's own files show them; None to recognize deleted topics by the log alone.

    Raises:
        StoreDamaged: Two records claim one queue offset, and no deletion of their topic between or after them is known.
        OSError: A file could not be written.
    """
    entries = 0
    for queue in living_runs(written, known):
        if queue.dead:
            _remove_dead(target, queue.living, queue.dead)
        entries += sum(run.end - run.first for run in queue.living)
        _fill(target, queue.living)
    _sync(target)
    return entries


def _fill(target: RebuildTarget, runs: Sequence[WrittenRun]) -> None:
    """Fill a queue's offsets without entries: blanks up to the first run, then entries that lead to the next record (`gap_entries`)."""
    per_file = target.file_size // QUEUE_ENTRY_SIZE
    expected = None
    for run in runs:
        begin = run.first // per_file * per_file if expected is None else expected
        missing = run.first - begin
        if missing:
            filler = BLANK_ENTRY * missing
            if expected is not None:
                filler = gap_entries(missing, run.topic, run.place, run.size)
            _write(target, run.topic, run.queue_id, begin, filler)
        expected = run.end


def _remove_dead(
    target: RebuildTarget, living: Sequence[WrittenRun], dead: Sequence[WrittenRun]
) -> None:
    """Remove the entries that a queue has of a deleted topic, except those that `_fill` overwrites."""
    folder = Path(target.root, QUEUES, dead[0].topic, str(dead[0].queue_id))
    if not living:
        shutil.rmtree(folder, ignore_errors=True)
        return
    start = living[0].first * QUEUE_ENTRY_SIZE // target.file_size * target.file_size
    end = living[-1].end * QUEUE_ENTRY_SIZE
    for path in folder.iterdir():
        at = int(path.name)
        if not start <= at < end:
            path.unlink()
        elif end - at < target.file_size:
            os.truncate(path, end - at)
            os.truncate(path, target.file_size)


def install(root: str, target: RebuildTarget, *, disk: Disk | None = None) -> int:
    """Replace the old queues by the rebuilt ones; return their number. The broker must be stopped.

    At the end, deletes `target.root`, where the queues were rebuilt. Other queues, such as those without messages in the
    log, keep their files, which record their last offset.

    Raises:
        StoreLocked: A program has the directory open.
        OSError: A file could not be moved or deleted; each queue is the new one or the old one, maybe renamed to
            `.old`.
    """
    lock = DirectoryLock(disk or RealDisk(), root)
    lock.take()
    try:
        queues = sorted(Path(target.root, QUEUES).glob("*/*"))
        for queue in queues:
            place = Path(root, QUEUES, queue.parent.name, queue.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_folder(queue, place)
        shutil.rmtree(target.root)
    finally:
        lock.release()
    return len(queues)


def _write(
    target: RebuildTarget,
    topic: str,
    queue_id: int,
    first: int,
    content: bytes,
    *,
    is_later_kept: bool = False,
) -> None:
    """Write entries from queue offset `first` on, to as many files as needed.

    `is_later_kept` keeps an existing entry if its record is later. Other tasks may write the same file.
    """
    folder = f"{target.root}/{QUEUES}/{topic}/{queue_id}"
    Path(folder).mkdir(parents=True, exist_ok=True)
    place, view = first * QUEUE_ENTRY_SIZE, memoryview(content)
    while view:
        start = place // target.file_size * target.file_size
        part = view[: start + target.file_size - place]
        fd = os.open(f"{folder}/{start:020d}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # Held until the file is closed.
            if os.fstat(fd).st_size != target.file_size:
                os.ftruncate(fd, target.file_size)
            fresh = part
            if is_later_kept:
                fresh = _later(os.pread(fd, len(part), place - start), part)
            done = 0
            while done < len(fresh):
                done += os.pwrite(fd, fresh[done:], place - start + done)
        finally:
            os.close(fd)
        place, view = place + len(part), view[len(part) :]


def _later(there: bytes, fresh: memoryview) -> memoryview:
    """Merge entries for the same places, preferring those whose record is later in the log."""
    stored, wanted = np.frombuffer(there, ENTRY), np.frombuffer(fresh, ENTRY)
    is_later = (stored["size"] != 0) & (stored["offset"] > wanted["offset"])
    if not is_later.any():
        return fresh
    return memoryview(np.where(is_later, stored, wanted).tobytes())


def _sync(target: RebuildTarget) -> None:
    """Sync the whole file system once, because there may be very many files."""
    RealDisk().sync_all(target.root)
