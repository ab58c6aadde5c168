"""The log as Parquet: each task decodes its split and writes the files of it, named after the range.

    PLACE/topic=orders/dt=2026-11-21/00000000000000000000-00000000000134217728.parquet
    PLACE/_archive/splits/00000000000000000000-00000000000134217728.json     how many messages that makes
    PLACE/_archive/archive.json     what the archive holds
    PLACE/_archive/config/…         the broker's configuration, as it was last

Readers of Parquet folders pass over what begins with `_`.

`plan_archive` -> `archive_task` for each task, anywhere -> `finish_archive` once. A file is written under another
name and renamed, and its name says what is in it: a task that runs twice makes the same files, and
whatever a killed run left is overwritten or ignored. Rows do not pass through the JVM. Bytes of the log that
are no record are rows without a topic (`topic=__HIVE_DEFAULT_PARTITION__`), so that they are not forgotten.

Next: cometmq.spark.store.restore
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cometmq.model.errors import SettingsError
from cometmq.spark.columns.schema import arrow_schema
from cometmq.spark.store.folder import StoreFolder
from cometmq.spark.store.log_end import fixed_end, log_end, used_files
from cometmq.spark.store.plan import LogRange, plan_tasks
from cometmq.spark.store.rows import Mode, RowRules, message_batches
from cometmq.spark.store.schema import MESSAGES, view_schema
from cometmq.spark.store.splits import SPLIT_BYTES, Split
from cometmq.store.archive_mark import archived_to, note_archived
from cometmq.store.disk import RealDisk

ARCHIVE_FILE = "_archive/archive.json"
KEPT_CONFIG = "_archive/config"
_CONFIG = "config"
_BUFFERED_BYTES = 32 << 20  # Of one file, before a row group is written.
SPLITS = "_archive/splits"
_DAY_MS = 86_400_000
_NONE = "__HIVE_DEFAULT_PARTITION__"  # Spark's name of a folder for NULL.

Group = tuple[str, int]  # Topic, and days since 1970; "" and 0 for what is no record.


@dataclass(frozen=True)
class ArchiveRules:
    """What an archive holds and how; picklable.

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


@dataclass(frozen=True)
class ArchivedFile:
    """A file that a task has written.

    Attributes:
        path: below the archive's place.
        topic: of its messages; "" for what is no record.
        lo: physical offset at which the split begins.
        hi: and where it ends.
        rows: messages.
        size: bytes of the file.
    """

    path: str
    topic: str
    lo: int
    hi: int
    rows: int
    size: int

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return asdict(self)


def plan_archive(
    folder: StoreFolder, wanted: LogRange, *, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """The splits to archive; where no start is named, from where the watermark stands.

    A range has a certain end, so that the next one begins where it ends.
    """
    files = used_files(folder)
    end = fixed_end(folder, files)
    end = log_end(folder, files, 0) if end is None else end
    if wanted.end is not None:
        end = min(end, wanted.end)
    start = wanted.start
    if start is None and folder.is_local:
        start = archived_to(RealDisk(), folder.root)
    tasks = plan_tasks(folder, replace(wanted, start=start, end=end), split_bytes=split_bytes)
    return [split for task in tasks for split in task]


def archive_task(
    folder: StoreFolder, splits: Sequence[Split], rules: ArchiveRules
) -> list[ArchivedFile]:
    """Write the files of some splits. May run again, and beside others.

    Raises:
        StoreDamaged: something is broken, and the mode is FAILFAST.
        OSError: something could not be read or written.
    """
    written: list[ArchivedFile] = []
    for split in splits:
        files = list(_SplitFiles(folder, split, rules).write())
        if not rules.topics:
            _note_split(split, rules, sum(file.rows for file in files if file.topic))
        written += files
    return written


def _note_split(split: Split, rules: ArchiveRules, messages: int) -> None:
    """Say how many messages a split has made, so that a file that is lost later is missed."""
    target = StoreFolder(rules.place)
    target.files.create_dir(target.path(SPLITS), recursive=True)
    name = file_name(split.lo, split.hi).replace(".parquet", ".json")
    _write(target, f"{SPLITS}/{name}", json.dumps({"messages": messages}).encode())


class _SplitFiles:
    """The files of one split, a writer for each topic and day."""

    def __init__(self, folder: StoreFolder, split: Split, rules: ArchiveRules) -> None:
        self._folder = folder
        self._split = split
        self._rules = rules
        self._target = StoreFolder(rules.place)
        self._waiting: dict[Group, list[pa.RecordBatch]] = {}
        self._sizes: dict[Group, int] = {}
        self._rows: dict[Group, int] = {}
        self._writers: dict[Group, pq.ParquetWriter] = {}

    def write(self) -> Iterator[ArchivedFile]:
        """All of them."""
        schema = arrow_schema(view_schema(MESSAGES, with_raw=self._rules.is_raw))
        rows = RowRules(
            mode=self._rules.mode,
            broker_name=self._rules.broker_name,
            topics=self._rules.topics,
        )
        try:
            for batch in message_batches(self._folder, (self._split,), schema, rows):
                for group, part in _groups(batch):
                    self._add(group, part)
            for group in sorted(self._waiting):
                self._flush(group)
                self._writers.pop(group).close()
                yield self._renamed(group)
        finally:
            for writer in self._writers.values():
                with suppress(OSError, pa.ArrowException):
                    writer.close()

    def _add(self, group: Group, part: pa.RecordBatch) -> None:
        self._waiting.setdefault(group, []).append(part)
        self._rows[group] = self._rows.get(group, 0) + part.num_rows
        self._sizes[group] = self._sizes.get(group, 0) + part.nbytes
        if self._sizes[group] > _BUFFERED_BYTES:
            self._flush(group)

    def _flush(self, group: Group) -> None:
        """Write what waits as a row group."""
        waiting, self._waiting[group] = self._waiting[group], []
        self._sizes[group] = 0
        if group not in self._writers:
            path = self._path(group)
            self._target.files.create_dir(path.rpartition("/")[0], recursive=True)
            self._writers[group] = pq.ParquetWriter(
                _unfinished(path),
                waiting[0].schema,
                filesystem=self._target.files,
                compression=self._rules.compression,
            )
        if waiting:
            self._writers[group].write_table(pa.Table.from_batches(waiting))

    def _renamed(self, group: Group) -> ArchivedFile:
        path, files = self._path(group), self._target.files
        files.move(_unfinished(path), path)
        size = files.get_file_info(path).size
        name = path.removeprefix(self._target.root + "/")
        split = self._split
        return ArchivedFile(name, group[0], split.lo, split.hi, self._rows[group], size)

    def _path(self, group: Group) -> str:
        topic, day = group
        folder = f"topic={_NONE}/dt={_NONE}"
        if topic:
            date = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).date()
            folder = f"topic={quote(topic, safe='')}/dt={date.isoformat()}"
        return self._target.path(f"{folder}/{file_name(self._split.lo, self._split.hi)}")


def file_name(lo: int, hi: int) -> str:
    """The name of the files of a split."""
    return f"{lo:020d}-{hi:020d}.parquet"


def _unfinished(path: str) -> str:
    """Where a file grows: hidden from readers of the folder by its first sign."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}"


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """The rows by topic and day, without the topic, which the path says."""
    if batch.column("topic").null_count:  # Damage is a batch of its own.
        yield ("", 0), batch.drop_columns(["topic"])
        return
    topics = batch.column("topic").dictionary_encode()
    codes = np.asarray(topics.indices).astype(np.int64)
    days = batch.column("storeTimestamp").view(pa.int64()).to_numpy() // (_DAY_MS * 1000)
    kinds, which = np.unique(np.stack((codes, days), axis=1), axis=0, return_inverse=True)
    names = topics.dictionary.to_pylist()
    rest = batch.drop_columns(["topic"])
    for number, (code, day) in enumerate(kinds.tolist()):
        part = rest if len(kinds) == 1 else rest.filter(pa.array(which.ravel() == number))
        yield (names[code], day), part


# --- what the archive holds


@dataclass(frozen=True)
class Holdings:
    """The content of `archive.json`.

    Attributes:
        log_file_size: bytes of a log file (mappedFileSizeCommitLog).
        is_raw: every range has the records' own bytes.
        ranges: archived ranges of physical offsets, ascending and apart.
    """

    log_file_size: int
    is_raw: bool
    ranges: tuple[tuple[int, int], ...] = ()

    def with_ranges(self, more: Iterable[tuple[int, int]]) -> "Holdings":
        """With further ranges; neighbours become one."""
        joined: list[tuple[int, int]] = []
        for lo, hi in sorted((*self.ranges, *more)):
            if joined and lo <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(hi, joined[-1][1])
            else:
                joined.append((lo, hi))
        return replace(self, ranges=tuple(joined))


def read_holdings(place: str) -> Holdings | None:
    """What an archive holds; None where there is none.

    Raises:
        SettingsError: it was written by a later version.
    """
    content = StoreFolder(place).read(ARCHIVE_FILE)
    if content is None:
        return None
    found = json.loads(content)
    if found.get("v") != 1:
        raise SettingsError(f"{place}/{ARCHIVE_FILE} has version {found.get('v')}, known is 1")
    ranges = tuple((lo, hi) for lo, hi in found["ranges"])
    return Holdings(found["logFileSize"], found["raw"], ranges)


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
    fresh = Holdings(size, rules.is_raw)
    known = read_holdings(rules.place) or fresh
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
    holdings = known.with_ranges((split.lo, split.hi) for split in splits)
    content = {
        "logFileSize": size,
        "ranges": holdings.ranges,
        "raw": rules.is_raw,
        "v": 1,
    }
    _write(target, ARCHIVE_FILE, json.dumps(content).encode())
    if not folder.is_local:
        return None
    disk, start = RealDisk(), max(archived_to(RealDisk(), folder.root), files[0].start)
    covered = [hi for lo, hi in holdings.ranges if lo <= start]
    return note_archived(disk, folder.root, max([start, *covered]), rules.place)


def _keep_config(folder: StoreFolder, target: StoreFolder) -> None:
    """Topics, groups and offsets as they are now: without topics a log is of little use."""
    for each in folder.entries(folder.path(_CONFIG)):
        if each.is_file and each.base_name.endswith(".json"):
            content = folder.read(f"{_CONFIG}/{each.base_name}")
            if content is not None:
                target.files.create_dir(target.path(KEPT_CONFIG), recursive=True)
                _write(target, f"{KEPT_CONFIG}/{each.base_name}", content)


def _write(target: StoreFolder, name: str, content: bytes) -> None:
    path = target.path(name)
    with closing(target.files.open_output_stream(_unfinished(path))) as stream:
        stream.write(content)
    target.files.move(_unfinished(path), path)
