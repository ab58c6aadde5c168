"""Queue files made anew from the log: tasks write where entry n belongs, in any order, again if need be.

    plan -> `rebuild_task` for each task, anywhere -> `finish` once -> `install` once

A task packs the entries of its part of the log and writes each run at byte 20 n of its queue, so that a
task that runs twice changes nothing. `finish` fills what Java wants filled: blanks before a queue's
first entry, and gaps. The files are made beside the old ones; `install` puts them in their place.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cometmq.codec.queue_entry import BLANK_ENTRY, QUEUE_ENTRY_SIZE, gap_entries
from cometmq.model.errors import StoreDamaged
from cometmq.offline.damage import Damage
from cometmq.offline.findings import OnFinding, warn
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store, with_found_sizes
from cometmq.offline.plan import Task
from cometmq.offline.queue_reader import QUEUES
from cometmq.offline.queue_runs import EntryRun, QueueRuns
from cometmq.offline.scan import scan
from cometmq.store.disk import Disk
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings

REBUILT = "rebuilt"  # The folder beside the old files in which new ones grow.


@dataclass(frozen=True)
class RebuildTarget:
    """The target of rebuilt queue files; picklable.

    Attributes:
        root: a local directory; the files go below `consumequeue` in it.
        file_size: bytes of a queue file (mappedFileSizeConsumeQueue).
        delay_levels_ms: the delay of each level, ms (messageDelayLevel).
        topics: only these; none: all.
    """

    root: str
    file_size: int
    delay_levels_ms: tuple[int, ...]
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrittenRun:
    """A run of entries that stands in the files.

    Attributes:
        topic: of the queue.
        queue_id: its number.
        first: queue offset of the first entry.
        end: and behind the last.
        place: physical offset of the first entry's record.
        size: bytes of the same.
    """

    topic: str
    queue_id: int
    first: int
    end: int
    place: int
    size: int

    def to_dict(self) -> dict[str, str | int]:
        """For a manifest."""
        return asdict(self)


def found_settings(root: str, settings: StoreSettings | None = None) -> StoreSettings:
    """The sizes and delay levels that a local directory shows; damaged logs show less.

    Raises:
        StoreDamaged: there is no store.
    """
    disk = RealDisk()
    try:
        found = find_store(root, settings, disk)
    except StoreDamaged:
        return with_found_sizes(root, settings, disk)
    found.close()
    return found.settings


def queue_file_size(root: str) -> int:
    """Bytes of a queue file in a local directory; RocketMQ's size where it is no store yet."""
    try:
        return found_settings(root).queue_file_size
    except (StoreDamaged, FileNotFoundError):
        return StoreSettings().queue_file_size


def target_of(
    root: str, settings: StoreSettings, *, out: str | None = None, topics: Sequence[str] = ()
) -> RebuildTarget:
    """The target of a rebuild: beside the old files until `install`, or below another directory."""
    place = out or f"{root}/{REBUILT}"
    file_size = settings.queue_entries_per_file * QUEUE_ENTRY_SIZE
    return RebuildTarget(place, file_size, tuple(settings.delay_levels_ms), tuple(topics))


def begin(target: RebuildTarget) -> None:
    """Make the directory for new files; what a broken-off rebuild left there goes."""
    shutil.rmtree(f"{target.root}/{QUEUES}", ignore_errors=True)
    Path(target.root, QUEUES).mkdir(parents=True)


def rebuild_task(
    folder: StoreFolder, task: Task, target: RebuildTarget, *, on_finding: OnFinding = warn
) -> list[WrittenRun]:
    """Write the entries of a part of the log. May run again, and beside others.

    Args:
        folder: the store.
        task: which part of its log.
        target: where the entries go.
        on_finding: told of bytes of the log that are no record, and so in no queue.

    Raises:
        OSError: something could not be read or written.
    """
    runs = packed_runs(folder, task, target, on_finding=on_finding)
    return [write_run(target, run) for run in runs]


def packed_runs(
    folder: StoreFolder, task: Task, target: RebuildTarget, *, on_finding: OnFinding = warn
) -> Iterator[EntryRun]:
    """The entries of a part of the log, by queue; `on_finding` is told of bytes that are no record."""
    packer = QueueRuns(target.delay_levels_ms, target.topics)
    for split in task:
        for found in scan(folder, split):
            if isinstance(found, Damage):
                on_finding(found.finding())
            else:
                packer.take(found.window)
    yield from packer.runs()


def write_run(target: RebuildTarget, run: EntryRun) -> WrittenRun:
    """Put a run where it belongs: entry n at byte 20 n of the queue."""
    content = run.entries.tobytes()
    _write(target, run.topic, run.queue_id, run.first, content)
    place, size, _ = run.entries[0].tolist()
    return WrittenRun(run.topic, run.queue_id, run.first, run.end, place, size)


def finish(target: RebuildTarget, written: Iterable[WrittenRun]) -> int:
    """Fill what lies before and between the runs, and bring all to the device.

    Returns:
        How many entries stand in the files.

    Raises:
        StoreDamaged: two records of the log have one place in a queue.
        OSError: something could not be written.
    """
    entries, last = 0, ("", -1, 0)
    for run in sorted(written, key=lambda run: (run.topic, run.queue_id, run.first)):
        is_new = (run.topic, run.queue_id) != last[:2]
        per_file = target.file_size // QUEUE_ENTRY_SIZE
        expected = run.first // per_file * per_file if is_new else last[2]
        if run.first < expected:
            raise StoreDamaged(
                f"two records of the log are message {run.first} of {run.topic}/{run.queue_id}; "
                "`cometmq store verify` shows which"
            )
        missing = run.first - expected
        if missing:
            before = BLANK_ENTRY * missing
            if not is_new:
                before = gap_entries(missing, run.topic, run.place, run.size)
            _write(target, run.topic, run.queue_id, expected, before)
        entries += run.end - run.first
        last = (run.topic, run.queue_id, run.end)
    _sync(target)
    return entries


def install(root: str, target: RebuildTarget, *, disk: Disk | None = None) -> int:
    """Put the new queues of a rebuild in place of the old ones; the broker must be stopped.

    A queue of which the log has no message keeps its files: they know how far it once was.

    Returns:
        How many queues have been replaced.

    Raises:
        StoreLocked: a broker has the directory.
        OSError: something could not be moved; each queue is the old or the new one.
    """
    lock = DirectoryLock(disk or RealDisk(), root)
    lock.take()
    try:
        queues = sorted(Path(target.root, QUEUES).glob("*/*"))
        for queue in queues:
            place = Path(root, QUEUES, queue.parent.name, queue.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            old = place.with_name(place.name + ".old")
            shutil.rmtree(old, ignore_errors=True)
            with suppress(FileNotFoundError):
                place.rename(old)
            queue.rename(place)
            shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(target.root)
    finally:
        lock.release()
    return len(queues)


def _write(
    target: RebuildTarget, topic: str, queue_id: int, first: int, content: bytes
) -> None:
    """Write entries from a queue offset on, over as many files as they take."""
    folder = f"{target.root}/{QUEUES}/{topic}/{queue_id}"
    Path(folder).mkdir(parents=True, exist_ok=True)
    place, view = first * QUEUE_ENTRY_SIZE, memoryview(content)
    while view:
        start = place // target.file_size * target.file_size
        part = view[: start + target.file_size - place]
        fd = os.open(f"{folder}/{start:020d}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(fd).st_size != target.file_size:
                os.ftruncate(fd, target.file_size)
            done = 0
            while done < len(part):
                done += os.pwrite(fd, part[done:], place - start + done)
        finally:
            os.close(fd)
        place, view = place + len(part), view[len(part) :]


def _sync(target: RebuildTarget) -> None:
    """Everything to the device: one sync of the file system, since the files may be very many."""
    RealDisk().sync_all(target.root)
