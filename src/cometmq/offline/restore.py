"""Restores a store directory from an archive with raw records: the log, then queues and index.

    `plan_restore` -> `begin_restore` -> `restore_task` for each log file, in any order -> `finish_restore` once

The directory is built beside its final place under another name, and `finish_restore` renames it. The target must be
missing or empty. The part of a log that is not in records (the mark at a file's end) is derived from the records.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.index_file import INDEX_HEADER_SIZE, decode_header
from cometmq.codec.record import BLANK_TAIL_SIZE, blank_tail
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.archive import (
    KEPT_CONFIG,
    kept_queues,
    parquet_files,
    read_manifest,
)
from cometmq.offline.archive_files import read_kept
from cometmq.offline.broker_tables import for_new_store
from cometmq.offline.columns.names import RAW_RECORD
from cometmq.offline.columns.pieces import contents
from cometmq.offline.findings import Finding
from cometmq.offline.folder import LOG_NAME_DIGITS, StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.lives import loaded_queues
from cometmq.offline.log_end import present_end, used_files
from cometmq.offline.new_folder import check_new, put_in_place
from cometmq.offline.plan import plan_tasks
from cometmq.offline.rebuild import begin, finish, rebuild_task, target_of
from cometmq.offline.rebuild_keys import begin_keys, finish_keys, keys_task
from cometmq.offline.store_sizes import kept_sizes
from cometmq.store.archive_mark import SPLITS, joined, overlap, without
from cometmq.store.checkpoint import Progress
from cometmq.store.index_file import IndexShape
from cometmq.store.settings import StoreSettings

_COLUMNS = ["commitLogOffset", RAW_RECORD]


@dataclass(frozen=True)
class LogPart:
    """A log file to restore; picklable.

    Attributes:
        start: Physical offset of its first byte.
        size: Size of the file in bytes.
        end: Physical offset up to which the archive has it, apart from holes.
        records: Number of its records according to the archive.
        parquet: The archive's files that hold its records.
        place: The archive.
        out: Directory in which the store is built.
        holes: Ranges that are missing in the archive, between ranges that it has; for the first file, if the restore has
            no `start`, also those before its first range.
    """

    start: int
    size: int
    end: int
    records: int
    parquet: tuple[str, ...]
    place: str
    out: str
    holes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class RestoredFile:
    """A restored log file.

    Attributes:
        start: Physical offset of its first byte.
        records: Number of its records that were restored.
        missing: Ranges of physical offsets without a record in the archive.
    """

    start: int
    records: int
    missing: tuple[tuple[int, int], ...] = ()

    def findings(self) -> Iterator[Finding]:
        """Yield the missing ranges as findings."""
        for lo, hi in self.missing:
            yield Finding(
                "archive", f"{lo} to {hi} of the log", "the archive has no records of it"
            )


def growing(to: str) -> str:
    """Return the path of the directory in which a restored store is built, next to its final place."""
    return f"{Path(to).absolute()}.restoring"


def plan_restore(
    place: str, to: str, *, start: int | None = None, end: int | None = None
) -> list[LogPart]:
    """Return the log files to restore: all in the archive, or those of a range.

    Args:
        place: The archive.
        to: The final directory.
        start: Physical offset in the first file to restore; None for the oldest file.
        end: Physical offset up to which to restore; the last file is restored whole. None for the newest file.

    Raises:
        SettingsError: There is no archive with raw records of all topics, `to` exists and is no empty folder, or the
            range is outside of the archive.
        StoreDamaged: A file of the archive that describes its content is damaged.
    """
    manifest = read_manifest(place)
    if manifest is None or not manifest.is_raw:
        raise SettingsError(
            f"{place} is not an archive that can be restored; archive with --raw for that"
        )
    if manifest.topics:
        raise SettingsError(
            f"{place} is an archive of the topics {', '.join(manifest.topics)} only, but a store needs all topics: "
            "archive without --topic"
        )
    check_new(to)
    size, source = manifest.log_file_size, StoreFolder(place)
    # An interrupted run may have left other files, which the next run overwrites.
    noted = [
        each
        for each in parquet_files(source)
        if overlap([each[:2]], manifest.ranges) == [each[:2]]
    ]
    counts = list(_split_counts(source))
    first = max(start or 0, manifest.ranges[0][0] if manifest.ranges else 0)
    last = min(2**63 if end is None else end, manifest.ranges[-1][1] if manifest.ranges else 0)
    parts: list[LogPart] = []
    for begins in range(first // size * size, last, size):
        held = tuple(path for lo, hi, path in noted if lo < begins + size and hi > begins)
        count = sum(rows for lo, rows in counts if begins <= lo < begins + size)
        limit = max((hi for _, hi in manifest.ranges), default=0)
        stop = min(limit, begins + size)
        holes = without((max(begins, manifest.ranges[0][0]), stop), manifest.ranges)
        if not parts and start is None:  # The archive has lost its beginning, and records that.
            lost = manifest.begins_at(), manifest.ranges[0][0]
            holes = joined([*without(lost, ()), *holes])
        parts.append(LogPart(begins, size, stop, count, held, place, growing(to), tuple(holes)))
    if not parts or last <= (start or 0):
        raise SettingsError(f"{place} has no records from {start} to {end}; name another range")
    return parts


def begin_restore(parts: Sequence[LogPart]) -> None:
    """Create the directory to build in, deleting the result of an aborted restore."""
    out = parts[0].out
    shutil.rmtree(out, ignore_errors=True)
    Path(out, "commitlog").mkdir(parents=True)


def restore_task(part: LogPart) -> RestoredFile:
    """Write one log file from the archive's records; return its description. Repeatable, also while others are written.

    Raises:
        StoreDamaged: Two records of the archive overlap, or a file of it is damaged.
        OSError: A file could not be read or written.
    """
    source = StoreFolder(part.place)
    path = f"{part.out}/commitlog/{part.start:0{LOG_NAME_DIGITS}d}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    extents: list[tuple[int, int]] = []
    try:
        os.posix_fallocate(fd, 0, part.size)
        for name in part.parquet:
            try:
                with source.files.open_input_file(name) as file:
                    for batch in pq.ParquetFile(file).iter_batches(columns=_COLUMNS):
                        extents += _write_records(fd, part, batch)
            except pa.ArrowInvalid as error:
                raise StoreDamaged(f"{name} is not a readable archive file: {error}") from error
        extents.sort()
        missing = tuple(joined([*_missing(part, extents), *part.holes]))
        end = extents[-1][1] if extents else part.start
        left = part.start + part.size - end
        # The archive continues after this file, so the broker had completed it.
        if part.end == part.start + part.size and left >= BLANK_TAIL_SIZE:
            _write_at(fd, blank_tail(left), end - part.start)
        os.fsync(fd)
    finally:
        os.close(fd)
    return RestoredFile(part.start, len(extents), missing)


def finish_restore(
    parts: Sequence[LogPart], to: str, *, clock: Clock, settings: StoreSettings | None = None
) -> int:
    """Build queues and index, restore the configuration, rename the directory; return the number of queue entries.

    Args:
        parts: The restored log files, as `plan_restore` returned them.
        to: The final directory.
        clock: Provides the time for the names of index files.
        settings: Sizes of queue and index files, and delay levels; None for those saved in the archive, or defaults.

    Raises:
        StoreDamaged: For example, two records claim the same place of a queue, or a file of the archive is damaged.
        OSError: A file could not be read or written, or `to` is no longer empty.
    """
    out, source = parts[0].out, StoreFolder(parts[0].place)
    settings = settings or kept_sizes(source)
    folder = StoreFolder(out)
    target = target_of(out, settings, out=out)
    begin(target)
    begin_keys(out)
    written = []
    for task in plan_tasks(folder):
        written += rebuild_task(folder, task, target)
        keys_task(folder, task, out)
    entries = finish(target, written, kept_queues(source))
    finish_keys(out, IndexShape(settings.index.slots, settings.index.entries), clock=clock)
    _restore_config(source, Path(out, "config"))
    _note_progress(out, settings)
    put_in_place(out, to)
    return entries


def _restore_config(source: StoreFolder, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for each in source.entries(source.path(KEPT_CONFIG)):
        place = f"{KEPT_CONFIG}/{each.base_name}"
        content = source.read(place)
        if content is not None:
            content = for_new_store(each.base_name, content, f"{place} of the archive")
            (folder / each.base_name).write_bytes(content)


def _note_progress(out: str, settings: StoreSettings) -> None:
    """Write the checkpoint, which states that every record has its entries or belongs to a deleted topic.

    Without the checkpoint, a broker would treat the newest messages of a deleted topic as messages without entries.
    """
    store = find_store(out, settings)
    try:
        loaded, _ = loaded_queues(store)
        name, count = 0, 0
        if store.index_paths:
            path = Path(store.index_paths[-1])
            with path.open("rb") as file:
                header = decode_header(file.read(INDEX_HEADER_SIZE))
            name, count = int(path.name), header.index_count
        folder = StoreFolder(out)
        end = present_end(folder, used_files(folder))
        entries = sum(each.stored_end for each in loaded)
        progress = Progress(end, end, entries, name, count)
        store.checkpoints.write(Checkpoint(), progress)
    finally:
        store.close()


def _split_counts(source: StoreFolder) -> Iterator[tuple[int, int]]:
    """Yield (first physical offset, number of messages) of each archived split (range of the log)."""
    for each in source.entries(source.path(SPLITS)):
        lo = each.base_name.partition("-")[0]
        if lo.isdigit():
            name = f"{SPLITS}/{each.base_name}"
            count = read_kept(source, name, lambda found: int(found["messages"]))
            yield int(lo), count or 0


def _write_records(fd: int, part: LogPart, batch: pa.RecordBatch) -> list[tuple[int, int]]:
    """Write the records of a batch that belong to the file; return their ranges.

    Records that are adjacent in both the log and the batch are written together.
    """
    batch = batch.filter(pc.is_valid(batch.column(1)))  # Damaged bytes have no record.
    places = batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64)
    octets, _, ends = contents(batch.column(1))
    view = memoryview(octets)
    stops = places + np.diff(ends)
    mine = np.flatnonzero((places >= part.start) & (places < part.start + part.size))
    follows = (places[mine[1:]] == stops[mine[:-1]]) & (np.diff(mine) == 1)
    breaks = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(mine)]
    for first, stop in pairwise(breaks):
        if first < stop:
            lo, hi = mine[first], mine[stop - 1]
            _write_at(fd, view[ends[lo] : ends[hi + 1]], int(places[lo]) - part.start)
    return list(zip(places[mine].tolist(), stops[mine].tolist(), strict=True))


def _missing(part: LogPart, extents: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of the file without records; the one at its end only if fewer records than archived were found.

    Raises StoreDamaged if two records overlap.
    """
    missing: list[tuple[int, int]] = []
    at = part.start
    for first, stop in extents:
        if first < at:
            raise StoreDamaged(
                f"{part.place}: two records of the archive have the physical offset {first}: it contains "
                "more than one store; restore another archive"
            )
        if first > at:
            missing.append((at, first))
        at = stop
    if len(extents) < part.records and at < part.end:
        missing.append((at, part.end))
    return tuple(missing)


def _write_at(fd: int, piece: bytes | memoryview, place: int) -> None:
    view, done = memoryview(piece), 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], place + done)
