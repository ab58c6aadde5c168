"""Writes an archive's Parquet files (one for each archived part, topic and day of storing) and its small files."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.model.text import decode_reason
from cometmq.offline.columns.pieces import indices_of
from cometmq.offline.folder import StoreFolder
from cometmq.offline.rows import DAY_MS

_BUFFERED_BYTES = 32 << 20  # Per file, before a row group is written.
NONE = "__HIVE_DEFAULT_PARTITION__"  # Spark's folder name for NULL.

# Version of the archive's small files ("v"); files without one have this version.
KEPT_VERSION = 1
Kept = TypeVar("Kept")
Group = tuple[str, int]  # Topic, and days since 1970; "" and 0 for damaged bytes.

# Without a dictionary for these columns, whose values differ, files are a quarter smaller.
_ALL_DIFFERENT = frozenset(
    [
        "body",
        "rawRecord",
        "msgId",
        "offsetMsgId",
        "keys",
        "queueOffset",
        "commitLogOffset",
        "bodyCrc",
        "bornTimestamp",
        "storeTimestamp",
    ]
)


@dataclass(frozen=True)
class ArchivedFile:
    """A written Parquet file: path relative to the archive, topic ("" for damaged bytes), rows, size in bytes."""

    path: str
    topic: str
    rows: int
    size: int


class ArchiveFiles:
    """The Parquet files of one archived part of a log or queue, all of one name; a writer for each topic and day."""

    def __init__(self, place: str, name: str, compression: str = "zstd") -> None:
        self._target = StoreFolder(place)
        self._name = name
        self._compression = compression
        self._waiting: dict[Group, list[pa.RecordBatch]] = {}
        self._sizes: dict[Group, int] = {}
        self._rows: dict[Group, int] = {}
        self._writers: dict[Group, pq.ParquetWriter] = {}

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ArchivedFile]:
        """Write the batches to a file per topic and day, then yield their `ArchivedFile`s; OSError if a write fails."""
        try:
            for batch in batches:
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
        waiting, self._waiting[group] = self._waiting[group], []
        self._sizes[group] = 0
        if group not in self._writers:
            path = self._path(group)
            self._target.files.create_dir(path.rpartition("/")[0], recursive=True)
            self._writers[group] = pq.ParquetWriter(
                _unfinished(path),
                waiting[0].schema,
                filesystem=self._target.files,
                compression=self._compression,
                use_dictionary=_dictionaries(waiting[0].schema),
                write_statistics=_bounded(waiting[0].schema),
            )
        if waiting:
            self._writers[group].write_table(pa.Table.from_batches(waiting))

    def _renamed(self, group: Group) -> ArchivedFile:
        path, files = self._path(group), self._target.files
        files.move(_unfinished(path), path)
        size = files.get_file_info(path).size
        name = path.removeprefix(self._target.root + "/")
        return ArchivedFile(name, group[0], self._rows[group], size)

    def _path(self, group: Group) -> str:
        topic, day = group
        folder = f"topic={NONE}/dt={NONE}"
        if topic:
            date = datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date()
            folder = f"topic={quote(topic, safe='')}/dt={date.isoformat()}"
        return self._target.path(f"{folder}/{self._name}")


def file_name(lo: int, hi: int) -> str:
    """Return the name of the Parquet files for a range of offsets, such as physical offsets of a log."""
    return f"{lo:020d}-{hi:020d}.parquet"


def _dictionaries(schema: pa.Schema) -> list[str]:
    """Return the names of the Parquet columns for which a dictionary is useful, because values repeat."""
    paths = [
        "properties.key_value.key" if name == "properties" else name for name in schema.names
    ]
    return [path for path in paths if path not in _ALL_DIFFERENT]


def _bounded(schema: pa.Schema) -> list[str]:
    """Return the names of the columns for which minimum and maximum are useful; not body, raw record and properties."""
    return [name for name in schema.names if name not in {"body", "rawRecord", "properties"}]


def _unfinished(path: str) -> str:
    """Return the path of a file until it is complete; its name begins with a dot, so readers of the folder skip it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}"


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[Group, pa.RecordBatch]]:
    """Yield ((topic, days since 1970), rows without topic column) for each run of these; ("", 0) for damaged bytes."""
    rest = batch.drop_columns(["topic"])
    if batch.column("topic").null_count:  # Damage is in a batch of its own.
        yield ("", 0), rest
        return
    topics = batch.column("topic").dictionary_encode()
    codes, names = indices_of(topics), topics.dictionary.to_pylist()
    stored = batch.column("storeTimestamp")
    days = np.frombuffer(stored.buffers()[1], np.int64)[stored.offset :][: len(stored)]
    days = days // (DAY_MS * 1000)
    edges = 1 + np.flatnonzero((codes[1:] != codes[:-1]) | (days[1:] != days[:-1]))
    for start, end in pairwise((0, *edges.tolist(), len(codes))):
        yield (names[codes[start]], int(days[start])), rest.slice(start, end - start)


def read_kept(source: StoreFolder, name: str, parse: Callable[[Any], Kept]) -> Kept | None:
    """Read a small JSON file of an archive and return the result of `parse`; None if there is no file.

    Raises:
        SettingsError: It has another version.
        StoreDamaged: The file is damaged.
    """
    content = source.read(name)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if found.get("v", KEPT_VERSION) != KEPT_VERSION:
            raise SettingsError(
                f"{source.place}/{name} has version {found['v']}, but this CometMQ reads version {KEPT_VERSION}: "
                "use the CometMQ that wrote it"
            )
        return parse(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(
            f"{source.place}/{name} is damaged ({decode_reason(error)}): restore it from a copy, or archive into "
            "another folder"
        ) from error


def write_whole(target: StoreFolder, name: str, content: bytes) -> None:
    """Write a small file of an archive under a temporary name, then rename it."""
    path = target.path(name)
    with closing(target.files.open_output_stream(_unfinished(path))) as stream:
        stream.write(content)
    target.files.move(_unfinished(path), path)
