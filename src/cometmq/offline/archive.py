"""The log as Parquet: each task decodes its split and writes the files of it, named after the range.

    PLACE/topic=orders/dt=2026-11-21/00000000000000000000-00000000000134217728.parquet
    PLACE/_archive/splits/00000000000000000000-00000000000134217728.json     how many messages that makes
    PLACE/_archive/archive.json     what the archive holds
    PLACE/_archive/config/…         the broker's configuration, as it was last
    PLACE/_archive/sizes.json       the sizes of its files
    PLACE/_archive/queues.json      the oldest message of each queue: which records are of deleted topics

Readers of Parquet folders pass over what begins with `_`.

`plan_archive` -> `archive_task` for each task, anywhere -> `finish_archive` once. A file is written under another
name and renamed, and its name says what is in it: a task that runs twice makes the same files, and
whatever a killed run left is overwritten or ignored. Rows do not pass through the JVM. Bytes of the log that
are no record are rows without a topic (`topic=__HIVE_DEFAULT_PARTITION__`), so that they are not forgotten.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.offline.archive_files import (
    KEPT_VERSION,
    ArchivedFile,
    ArchiveFiles,
    file_name,
    read_kept,
    write_whole,
)
from cometmq.offline.columns.schema import stored_schema
from cometmq.offline.findings import OnFinding, warn
from cometmq.offline.folder import StoreFolder
from cometmq.offline.lives import KnownQueues
from cometmq.offline.log_end import check_has_records, present_end, used_files
from cometmq.offline.plan import LogRange, plan_tasks
from cometmq.offline.rebuild import found_settings, known_queues_in
from cometmq.offline.rows import Mode, RowRules, message_batches
from cometmq.offline.splits import SPLIT_BYTES, Split
from cometmq.offline.store_sizes import keep_sizes
from cometmq.store.archive_mark import archived_to, note_archived
from cometmq.store.real_disk import RealDisk

ARCHIVE_FILE = "_archive/archive.json"
KEPT_CONFIG = "_archive/config"
_CONFIG = "config"
SPLITS = "_archive/splits"
QUEUES_FILE = "_archive/queues.json"


@dataclass(frozen=True)
class ArchiveRules:
    """The content and form of an archive; picklable.

    Attributes:
        place: a folder: a path, or a URI that pyarrow's file systems know.
        is_raw: with the records' own bytes, so that `restore` can give the log back.
        topics: only these; none: all. An archive of some topics moves no watermark.
        broker_name: for the column `brokerName`.
        compression: of the Parquet files.
        mode: what becomes of what is broken.
    """

    place: str
    is_raw: bool = False
    topics: tuple[str, ...] = ()
    broker_name: str = ""
    compression: str = "zstd"
    mode: Mode = Mode.PERMISSIVE


def plan_archive(
    folder: StoreFolder, wanted: LogRange, *, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """The splits to archive; where no start is named, from where the watermark stands.

    A range has a certain end, so that the next one begins where it ends.

    Raises:
        StoreDamaged: there is no log, or nothing of it can be read.
    """
    files = used_files(folder)
    check_has_records(folder, files)
    end = present_end(folder, files)
    if wanted.end is not None:
        end = min(end, wanted.end)
    start = wanted.start
    if start is None and folder.is_local:
        start = archived_to(RealDisk(), folder.root)
    tasks = plan_tasks(folder, replace(wanted, start=start, end=end), split_bytes=split_bytes)
    return [split for task in tasks for split in task]


def archive_task(
    folder: StoreFolder,
    splits: Sequence[Split],
    rules: ArchiveRules,
    *,
    on_finding: OnFinding = warn,
) -> list[ArchivedFile]:
    """Write the files of some splits. May run again, and beside others.

    Args:
        folder: the store.
        splits: of its log.
        rules: content and form of the archive.
        on_finding: told of what is no record, or not what its record says.

    Raises:
        StoreDamaged: something is broken, and the mode is FAILFAST.
        OSError: something could not be read or written.
    """
    schema = stored_schema(with_raw=rules.is_raw)
    rows = RowRules(
        mode=rules.mode,
        broker_name=rules.broker_name,
        topics=rules.topics,
        is_grouped=True,
    )
    written: list[ArchivedFile] = []
    for split in splits:
        name = file_name(split.lo, split.hi)
        batches = message_batches(folder, (split,), schema, rows, on_finding=on_finding)
        files = list(ArchiveFiles(rules.place, name, rules.compression).write(batches))
        if not rules.topics:
            _note_split(split, rules, sum(file.rows for file in files if file.topic))
        written += files
    return written


def _note_split(split: Split, rules: ArchiveRules, messages: int) -> None:
    """Say how many messages a split has made, so that a file that is lost later is missed."""
    target = StoreFolder(rules.place)
    target.files.create_dir(target.path(SPLITS), recursive=True)
    name = file_name(split.lo, split.hi).replace(".parquet", ".json")
    write_whole(target, f"{SPLITS}/{name}", json.dumps({"messages": messages}).encode())


# --- what the archive holds


@dataclass(frozen=True)
class ArchiveManifest:
    """The content of `archive.json`.

    Attributes:
        log_file_size: bytes of a log file (mappedFileSizeCommitLog).
        is_raw: every range has the records' own bytes.
        ranges: archived ranges of physical offsets, ascending and apart.
    """

    log_file_size: int
    is_raw: bool
    ranges: tuple[tuple[int, int], ...] = ()

    def with_ranges(self, more: Iterable[tuple[int, int]]) -> "ArchiveManifest":
        """With further ranges; neighbours become one."""
        joined: list[tuple[int, int]] = []
        for lo, hi in sorted((*self.ranges, *more)):
            if joined and lo <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(hi, joined[-1][1])
            else:
                joined.append((lo, hi))
        return replace(self, ranges=tuple(joined))


def read_manifest(place: str) -> ArchiveManifest | None:
    """Read the manifest of an archive; None where there is none.

    Raises:
        SettingsError: it was written by a later version.
        StoreDamaged: it is damaged.
    """

    def parse(found: Any) -> ArchiveManifest:
        ranges = tuple((lo, hi) for lo, hi in found["ranges"])
        return ArchiveManifest(found["logFileSize"], found["raw"], ranges)

    return read_kept(StoreFolder(place), ARCHIVE_FILE, parse)


def finish_archive(
    folder: StoreFolder, splits: Sequence[Split], rules: ArchiveRules
) -> int | None:
    """All tasks of these splits are through: say so in the archive, then to the broker.

    Returns:
        Where the watermark stands; None where none was moved (some topics only, or a store that is not
        of this machine).

    Raises:
        SettingsError: the archive is one of another kind.
        OSError: something could not be written.
    """
    files = used_files(folder)
    size = max(file.end - file.start for file in files)
    fresh = ArchiveManifest(size, rules.is_raw)
    known = read_manifest(rules.place) or fresh
    if (known.log_file_size, known.is_raw) != (size, rules.is_raw):
        raise SettingsError(
            f"{rules.place} is an archive of log files of {known.log_file_size} bytes with raw="
            f"{known.is_raw}; this store's have {size}, with raw={rules.is_raw}: take another place"
        )
    if rules.topics:
        return None
    target = StoreFolder(rules.place)
    target.files.create_dir(target.path("_archive"), recursive=True)
    _keep_config(folder, target)
    _keep_queues(folder, target)
    manifest = known.with_ranges((split.lo, split.hi) for split in splits)
    content = {
        "logFileSize": size,
        "ranges": manifest.ranges,
        "raw": rules.is_raw,
        "v": KEPT_VERSION,
    }
    write_whole(target, ARCHIVE_FILE, json.dumps(content).encode())
    if not folder.is_local:
        return None
    keep_sizes(target, found_settings(folder.root))
    disk, start = RealDisk(), max(archived_to(RealDisk(), folder.root), files[0].start)
    covered = [hi for lo, hi in manifest.ranges if lo <= start]
    return note_archived(disk, folder.root, max([start, *covered]), rules.place)


def kept_queues(source: StoreFolder) -> KnownQueues | None:
    """Return what the store's queue files showed when it was archived; None if nobody noted it.

    Raises:
        SettingsError: it was written by a later version.
        StoreDamaged: it is damaged.
    """
    return read_kept(source, QUEUES_FILE, KnownQueues.of_json)


def _keep_queues(folder: StoreFolder, target: StoreFolder) -> None:
    """Note which queues there are, so that a restored store has no message of a deleted topic.

    If the queue files are damaged, what was noted before stays: it is still true.
    """
    known = known_queues_in(folder)
    if known is not None:
        content = {**known.to_json(), "v": KEPT_VERSION}
        write_whole(target, QUEUES_FILE, json.dumps(content).encode())


def _keep_config(folder: StoreFolder, target: StoreFolder) -> None:
    """Topics, groups and offsets as they are now: without topics a log is of little use."""
    for each in folder.entries(folder.path(_CONFIG)):
        if each.is_file and each.base_name.endswith(".json"):
            content = folder.read(f"{_CONFIG}/{each.base_name}")
            if content is not None:
                target.files.create_dir(target.path(KEPT_CONFIG), recursive=True)
                write_whole(target, f"{KEPT_CONFIG}/{each.base_name}", content)
