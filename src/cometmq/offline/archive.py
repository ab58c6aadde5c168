"""Archives the log as Parquet: a task decodes ranges of the log (splits) and writes files named after each range.

    PLACE/topic=orders/dt=2026-11-21/00000000000000000000-00000000000134217728.parquet
    PLACE/_archive/splits/00000000000000000000-00000000000134217728.json     its number of messages, its files
    PLACE/_archive/archive.json     the archived ranges of the log
    PLACE/_archive/config/…         the broker's configuration and the timer's progress, as before the last run read the log
    PLACE/_archive/sizes.json       the sizes of a local store's files, and its delay levels
    PLACE/_archive/queues.json      the oldest message of each queue, if known: which records are of deleted topics

Readers of Parquet folders skip names that begin with `_`. A place describes its own content: `archive.json` names the
ranges, `splits` the files of each with their sizes. A run checks which of these exist and archives what is
missing of the wanted range. Another log is refused if a hash of bytes before the archive's end is recorded and differs.

`plan_archive` -> `begin_archive` -> `archive_task` for each task, on any machine that sees store and place ->
`finish_archive` once. A file is written under a temporary name and renamed to that of its range, so a repeated task
replaces its files. Damaged bytes of the log become rows without a topic (`topic=__HIVE_DEFAULT_PARTITION__`), if the
mode is PERMISSIVE and all topics are archived.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from pyarrow.fs import FileInfo

from cometmq.model.errors import SettingsError
from cometmq.offline.archive_files import (
    KEPT_VERSION,
    ArchivedFile,
    ArchiveFiles,
    file_name,
    read_kept,
    write_whole,
)
from cometmq.offline.broker_tables import CONFIG, is_table
from cometmq.offline.choices import SPLIT_BYTES, Mode
from cometmq.offline.columns.schema import stored_schema
from cometmq.offline.findings import Finding, OnFinding, warn
from cometmq.offline.folder import ListedFile, StoreFolder
from cometmq.offline.folder_disk import disk_of
from cometmq.offline.folder_queues import known_queues_in
from cometmq.offline.known_queues import KnownQueues
from cometmq.offline.log_end import check_has_records, damage_behind, present_end, used_files
from cometmq.offline.plan import LogRange, end_before, plan_tasks
from cometmq.offline.rebuild import found_settings
from cometmq.offline.rows import RowRules, message_batches
from cometmq.offline.splits import Split
from cometmq.offline.store_sizes import keep_sizes
from cometmq.store.archive_mark import (
    ARCHIVE_FILE,
    SPLITS,
    LogProof,
    archive_marks,
    digest_of,
    guarded_to,
    held_splits,
    joined,
    note_archived,
    overlap,
    without,
)
from cometmq.store.real_disk import RealDisk

_PROOF_BYTES = 4096
_PROOFS_MAX = 50  # A mark in the store names one of the last two.
KEPT_CONFIG = "_archive/config"
QUEUES_FILE = "_archive/queues.json"


@dataclass(frozen=True)
class ArchiveRules:
    """Content and form of an archive; picklable.

    Attributes:
        place: A path, or a URI of pyarrow's file systems.
        is_raw: Include the raw records, from which `restore` can restore the log.
        topics: Only these topics; empty for all. An archive of some topics is not recorded in the store.
        broker_name: Value of the column `brokerName`.
        compression: Compression of the Parquet files.
        mode: Handling of damage.
    """

    place: str
    is_raw: bool = False
    topics: tuple[str, ...] = ()
    broker_name: str = ""
    compression: str = "zstd"
    mode: Mode = Mode.PERMISSIVE


def plan_archive(
    folder: StoreFolder,
    wanted: LogRange,
    rules: ArchiveRules | None = None,
    *,
    split_bytes: int = SPLIT_BYTES,
) -> list[Split]:
    """Return the splits (ranges of the log) to archive: the wanted range without what the place already holds.

    Records after the log's present end are left to later runs, and so is the log from the first record on that was
    stored at or after the wanted time's end.

    Args:
        folder: The store.
        wanted: A range of the log; without a start, it begins with the oldest log file. A time at which it starts leaves
            out only whole log files.
        rules: The archive; None for what follows the archives recorded in a local store, or all of a remote one.
        split_bytes: Largest size of a split in bytes.

    Raises:
        SettingsError: The place is an archive of another log, kind or version.
        StoreDamaged: There is no readable log, a closed one has only damage, or the archive's manifest is damaged.
    """
    files = used_files(folder)
    check_has_records(folder, files)
    present = present_end(folder, files)
    end = present if wanted.end is None else min(present, wanted.end)
    if wanted.end_ms is not None:
        end = min(end, end_before(folder, files, wanted.end_ms))
    start = files[0].start if wanted.start is None else max(wanted.start, files[0].start)
    held: list[tuple[int, int]] = []
    if rules is None and folder.is_local:
        read = LogReader(folder, files, present)
        held = [(0, guarded_to(RealDisk(), folder.root, (start, end), read).settled)]
    elif rules is not None:
        held = _held_ranges(folder, files, present, rules)
    splits = []
    for lo, hi in without((start, end), held):
        tasks = plan_tasks(folder, replace(wanted, start=lo, end=hi), split_bytes=split_bytes)
        splits += [split for task in tasks for split in task]
    return splits


def _held_ranges(
    folder: StoreFolder, files: Sequence[ListedFile], present: int, rules: ArchiveRules
) -> list[tuple[int, int]]:
    """Return the archived (start, end) ranges of the log whose files are all in the place; empty without a manifest.

    Raises SettingsError if the place is of another kind or, if it holds any range, fails `_check_log`.
    """
    known = read_manifest(rules.place)
    if known is None:
        return []
    _check_kind(known, _fresh(files, rules), rules.place)
    target = StoreFolder(rules.place)
    whole = _whole_ranges(target)
    held = overlap(known.ranges, whole)
    if held:  # An emptied place may be filled with another log.
        _check_log(folder, files, present, known, rules.place)
    return held


def _whole_ranges(place: StoreFolder) -> list[tuple[int, int]]:
    """Return (start, end) of each range of the log that an archive has with all of its files."""
    held = held_splits(disk_of(place), place.root)
    return [(each.lo, each.hi) for each in held if each.is_whole]


def _log_file_size(files: Sequence[ListedFile]) -> int:
    return max(file.end - file.start for file in files)


def _fresh(files: Sequence[ListedFile], rules: ArchiveRules) -> "ArchiveManifest":
    topics = tuple(sorted(set(rules.topics)))
    return ArchiveManifest(_log_file_size(files), rules.is_raw, topics=topics)


def _check_kind(known: "ArchiveManifest", wanted: "ArchiveManifest", place: str) -> None:
    if (known.log_file_size, known.is_raw) != (wanted.log_file_size, wanted.is_raw):
        raise SettingsError(
            f"{place} was archived {_raw(known)} from log files of {known.log_file_size} bytes, but this run archives "
            f"{_raw(wanted)} and its log files have {wanted.log_file_size} bytes: use another folder"
        )
    if known.topics != wanted.topics:
        raise SettingsError(
            f"{place} is an archive of {_named(known.topics)}, not of {_named(wanted.topics)}: use another folder"
        )


def _raw(manifest: "ArchiveManifest") -> str:
    return "with --raw" if manifest.is_raw else "without --raw"


def _named(topics: Sequence[str]) -> str:
    return f"the topics {', '.join(topics)}" if topics else "all topics"


def _check_log(
    folder: StoreFolder,
    files: Sequence[ListedFile],
    present: int,
    known: "ArchiveManifest",
    place: str,
) -> None:
    """Raise SettingsError unless an archive is shown to be of this log; one without proofs is not checked."""
    if not known.proofs:
        return
    proof, start = known.proofs[-1], files[0].start
    if proof.hi > present:
        raise SettingsError(
            f"{place} has the log up to {proof.hi}, but the log of {folder.place} ends at {present}: it was "
            "truncated after it was archived, or belongs to another store: archive into another folder"
        )
    if proof.lo >= start:
        content = LogReader(folder, files, present)(proof.lo, proof.hi - proof.lo)
        if content is None or not proof.is_of(content):
            raise SettingsError(
                f"{place} has another log: its bytes from {proof.lo} to {proof.hi} differ from those of "
                f"{folder.place}; archive into another folder"
            )
        return
    marks = archive_marks(RealDisk(), folder.root) if folder.is_local else {}
    mark = marks.get(place)
    if mark is None or mark.proof not in known.proofs:
        raise SettingsError(
            f"{place} ends at {proof.hi}, before the log of {folder.place} starts, so it cannot be shown to be an "
            "archive of this store: archive into another folder"
        )


class LogReader:
    """Reads bytes of a store's log, which ends at `end` (physical offset), but not across two files."""

    def __init__(self, folder: StoreFolder, files: Sequence[ListedFile], end: int) -> None:
        self._folder = folder
        self._files = files
        self._end = end

    def __call__(self, offset: int, size: int) -> bytes | None:
        """Read bytes at a physical offset; None unless a single file has all of them, before the log's end."""
        for file in self._files:
            if file.start <= offset and offset + size <= min(file.start + file.size, self._end):
                with self._folder.opened(file.path) as read_at:
                    return read_at(offset - file.start, size)
        return None


def proof_before(folder: StoreFolder, files: Sequence[ListedFile], end: int) -> LogProof | None:
    """Return the hash and the place of the last bytes (up to 4,096) of a log before the physical offset `end`.

    Blocks of zeros, which may fill the end of a log file, are skipped; None if there is nothing else.
    """
    for file in reversed(files):
        at = min(end, file.start + file.size)
        with folder.opened(file.path) as read_at:
            while at > file.start:
                lo = max(file.start, at - _PROOF_BYTES)
                content = read_at(lo - file.start, at - lo)
                if any(content):
                    return LogProof(lo, at, digest_of(content))
                at = lo
    return None


def begin_archive(splits: Sequence[Split], rules: ArchiveRules) -> None:
    """Delete files of splits that are incomplete or not completely in the manifest, as left by an interrupted run.

    Such a split may be archived again under another name, and both would hold its messages. The descriptions (JSON) of
    `splits`, which are archived next, remain; so do Parquet files of topics other than `rules.topics`, if there are
    any. Raises OSError if a deletion fails.
    """
    target, known = StoreFolder(rules.place), read_manifest(rules.place)
    ranges = known.ranges if known is not None else ()
    found = held_splits(disk_of(target), target.root)
    kept = {(each.lo, each.hi) for each in found if each.is_whole}
    kept = {each for each in kept if overlap([each], ranges) == [each]}
    mine = {(split.lo, split.hi) for split in splits}
    for each in found:
        if (each.lo, each.hi) not in kept | mine:
            target.files.delete_file(target.path(f"{SPLITS}/{each.name}"))
    for lo, hi, path in parquet_files(target, rules.topics):
        if (lo, hi) not in kept:
            target.files.delete_file(path)


def archive_task(
    folder: StoreFolder,
    splits: Sequence[Split],
    rules: ArchiveRules,
    *,
    on_finding: OnFinding = warn,
) -> list[ArchivedFile]:
    """Write the Parquet files of some splits, and a JSON file about each split; return a list of the Parquet files.

    Can be repeated, and run beside other tasks. Calls `on_finding` for damage, unless the mode is FAILFAST.

    Raises:
        StoreDamaged: There is damage; usually only if the mode is FAILFAST.
        OSError: A file could not be read or written.
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
        _note_split(split, rules, files)
        written += files
    return written


def _note_split(split: Split, rules: ArchiveRules, files: Sequence[ArchivedFile]) -> None:
    """Record the number of messages and the files of a split in a JSON file, so that a missing file is noticed."""
    target = StoreFolder(rules.place)
    target.files.create_dir(target.path(SPLITS), recursive=True)
    name = file_name(split.lo, split.hi).replace(".parquet", ".json")
    content = {
        "messages": sum(file.rows for file in files if file.topic),
        "files": [[file.path, file.size] for file in files],
    }
    write_whole(target, f"{SPLITS}/{name}", json.dumps(content).encode())


# --- what the archive holds


@dataclass(frozen=True)
class ArchiveManifest:
    """The content of `archive.json`.

    Attributes:
        log_file_size: Size of the largest log file in bytes (mappedFileSizeCommitLog).
        is_raw: Whether every range has the raw records.
        ranges: Archived ranges of physical offsets, ascending.
        proofs: Hashes of the last bytes before the archive's end at the last runs (up to 50 that differ), newest last.
        begin: Physical offset from which on the archive should hold the log; None for the start of the first range.
        topics: Only messages of these topics are archived, ascending; empty for all.
    """

    log_file_size: int
    is_raw: bool
    ranges: tuple[tuple[int, int], ...] = ()
    proofs: tuple[LogProof, ...] = ()
    begin: int | None = None
    topics: tuple[str, ...] = ()

    def begins_at(self, none: int = 0) -> int:
        """Return the physical offset from which on the archive should hold the log; `none` without begin and ranges."""
        return (
            min([lo for lo, _ in self.ranges[:1]] or [none])
            if self.begin is None
            else self.begin
        )

    def with_ranges(self, more: Iterable[tuple[int, int]]) -> "ArchiveManifest":
        """Return the manifest with more archived ranges of physical offsets, joined if adjacent or overlapping."""
        return replace(self, ranges=tuple(joined([*self.ranges, *more])))


def read_manifest(place: str) -> ArchiveManifest | None:
    """Read and return an archive's manifest (`archive.json`); None if there is none.

    Raises:
        SettingsError: It has another version.
        StoreDamaged: The file is damaged.
    """

    def parse(found: Any) -> ArchiveManifest:
        ranges = tuple((lo, hi) for lo, hi in found["ranges"])
        proofs = tuple(LogProof(*each) for each in found.get("proofs", ()))
        begin, topics = found.get("begin"), tuple(found.get("topics", ()))
        return ArchiveManifest(
            found["logFileSize"], found["raw"], ranges, proofs, begin, topics
        )

    return read_kept(StoreFolder(place), ARCHIVE_FILE, parse)


def finish_archive(
    folder: StoreFolder,
    splits: Sequence[Split],
    rules: ArchiveRules,
    *,
    config: Mapping[str, bytes] | None = None,
) -> int | None:
    """Record in the archive which ranges it has, then mostly in the store how far it is archived (archived.json).

    Also saves the store's configuration, each queue's oldest message if known and, of a local store, the file sizes.

    Args:
        folder: The store.
        splits: The archived ranges.
        rules: The archive.
        config: Result of `read_config` from before `plan_archive`; None reads it now, for a store that no broker has open.

    Returns:
        The archived end (physical offset); None if it is not recorded: some topics only, a remote store, or no splits
            and no archive yet.

    Raises:
        SettingsError: The archive is of another kind or version.
        StoreDamaged: There is no log, or the archive's manifest is damaged.
        OSError: A file could not be read or written.
    """
    if not splits and read_manifest(rules.place) is None:
        return None
    files = used_files(folder)
    fresh = _fresh(files, rules)
    known = read_manifest(rules.place) or fresh
    _check_kind(known, fresh, rules.place)
    target = StoreFolder(rules.place)
    target.files.create_dir(target.path("_archive"), recursive=True)
    _keep_config(read_config(folder) if config is None else config, target)
    _keep_queues(folder, target)
    whole = _whole_ranges(target)
    fresh = fresh.with_ranges((split.lo, split.hi) for split in splits)
    ranges = overlap([*known.ranges, *fresh.ranges], whole)
    start, proofs = files[0].start, list(known.proofs)
    end = max((hi for lo, hi in ranges if lo <= start), default=start)
    proof = proof_before(folder, files, end) if end > start else None
    if proof is not None and proof not in proofs:
        proofs.append(proof)
    content = {
        "logFileSize": fresh.log_file_size,
        "ranges": ranges,
        "raw": rules.is_raw,
        **({"topics": fresh.topics} if fresh.topics else {}),
        "begin": min(known.begins_at(start), start),
        "proofs": proofs[-_PROOFS_MAX:],
        "v": KEPT_VERSION,
    }
    write_whole(target, ARCHIVE_FILE, json.dumps(content).encode())
    if folder.is_local:
        keep_sizes(target, found_settings(folder.root, log_paths=folder.log_paths))
    if rules.topics or not folder.is_local:
        return None
    return note_archived(RealDisk(), folder.root, end, rules.place, proof)


def resumed(
    folder: StoreFolder, noted: Sequence[Sequence[int]], planned: Sequence[Split]
) -> list[Split]:
    """Return splits for the ranges (start, end) that a killed run noted; empty unless `planned` covers them all."""
    left = joined([(split.lo, split.hi) for split in planned])
    found: list[Split] = []
    for lo, hi in noted:
        if overlap([(lo, hi)], left) != [(lo, hi)]:
            return []
        for task in plan_tasks(folder, LogRange(start=lo, end=hi)):
            found += task
    return found


def findings_of(folder: StoreFolder, rules: ArchiveRules) -> list[Finding]:
    """Return findings: damage behind the last record of a cleanly closed log, and bytes lost to log and archive."""
    behind = damage_behind(folder)
    found = [] if behind is None else [behind.finding()]
    known = read_manifest(rules.place)
    if known is None:
        return found
    target, start = StoreFolder(rules.place), used_files(folder)[0].start
    splits = held_splits(disk_of(target), target.root)
    whole = overlap(known.ranges, [(each.lo, each.hi) for each in splits if each.is_whole])
    begin = known.begins_at(start)
    what = "is not in this archive, and the log has already deleted it: a restored store will lack these bytes"
    return found + [
        Finding("archive", f"{rules.place}: {lo} to {hi} of the log", what)
        for lo, hi in without((begin, max(begin, start)), whole)
    ]


def kept_queues(source: StoreFolder) -> KnownQueues | None:
    """Return the store's queues as the archive recorded them; None if it did not, for example if they were damaged.

    Raises:
        SettingsError: The file has another version.
        StoreDamaged: The file is damaged.
    """
    return read_kept(source, QUEUES_FILE, KnownQueues.of_json)


def _keep_queues(folder: StoreFolder, target: StoreFolder) -> None:
    """Write a store's `KnownQueues`, if known, to its archive, by which readers recognize messages of deleted topics."""
    known = known_queues_in(folder)
    if known is not None:
        content = {**known.to_json(), "v": KEPT_VERSION}
        write_whole(target, QUEUES_FILE, json.dumps(content).encode())


def topic_files(
    source: StoreFolder, topics: Sequence[str] = ()
) -> Iterator[tuple[str, FileInfo]]:
    """Yield (topic, file) for the files in the folders of topics of an archive (none named: of all), sorted by path.

    The topic of damaged bytes is `archive_files.NONE`.
    """
    for folder in source.entries(source.root):
        name = folder.base_name.removeprefix("topic=")
        if name == folder.base_name or (topics and unquote(name) not in topics):
            continue
        for day in source.entries(folder.path):
            for file in source.entries(day.path):
                yield unquote(name), file


def parquet_files(
    source: StoreFolder, topics: Sequence[str] = ()
) -> list[tuple[int, int, str]]:
    """Return (first physical offset, end, path) of the Parquet files in a log's archive, sorted; no `topics`: all."""
    found = []
    for _, file in topic_files(source, topics):
        lo, _, hi = file.base_name.removesuffix(".parquet").partition("-")
        if lo.isdigit() and hi.isdigit():
            found.append((int(lo), int(hi), file.path))
    return sorted(found)


def read_config(folder: StoreFolder) -> dict[str, bytes]:
    """Read the files of a store's `config` that an archive keeps, by name: its JSON files and the timer's progress.

    Read them before `plan_archive` if a broker may have the store open. They must not be ahead of the archived log: a
    restored broker would skip the messages between the log's end and an offset beyond it.
    """
    names = [each.base_name for each in folder.entries(folder.path(CONFIG)) if each.is_file]
    found = {name: folder.read(f"{CONFIG}/{name}") for name in names if is_table(name)}
    return {name: content for name, content in found.items() if content is not None}


def _keep_config(config: Mapping[str, bytes], target: StoreFolder) -> None:
    for name, content in config.items():
        target.files.create_dir(target.path(KEPT_CONFIG), recursive=True)
        write_whole(target, f"{KEPT_CONFIG}/{name}", content)
