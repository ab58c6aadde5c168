"""Versioned Parquet table of the newest rows by key.

    cometmq_version=RUN-N/     the rows, one (or the last few) for each key
    _gone/cometmq_version=RUN-N/   deleted keys, so that an older change that arrives late is ignored
    _changes/RUN-N/    changes since the older version kept, a folder for each micro-batch
    _spark_metadata/0  list of the newest version's files: "v1", then a line of JSON for each file

A micro-batch writes only its changes; a new version rewrites the whole table from the last version and these changes.
That happens when the changes reach a tenth of the table or 200 folders, after ten minutes, at the end of a run that
does not fail, and with each micro-batch of a small table. The last two versions are kept, so that readers of the
previous one can finish.

A table may contain rows whose messages no longer exist. So each run, also with other options, continues from the newest
version in the folder and from the changes pending there. Reading a message again adds no row.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from urllib.parse import quote, unquote

from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.target import check_parquet
from cometmq.spark.jobs.text_values import without_rules
from cometmq.spark.schema import check_gains, quoted

GONE = "_is_gone"
GONE_FOLDER = "_gone"
CHANGES_FOLDER = "_changes"
# Parquet readers treat it as a column, so no column of a user may have this name.
_VERSION = "cometmq_version="
_MADE = re.compile(r"(cometmq_)?version=[0-9a-f]{12}(-[0-9a-f]+)?-\d+(\.\d+)?")
# A version is rewritten when the changes reach a tenth of it: a change costs at most ten times its own bytes,
# and reading a version with its pending changes costs at most a tenth more.
_SHARE = 10
_SMALL_BYTES = 8_000_000  # Written within the second that a micro-batch takes anyway.
_FRESH_S = 600  # Maximum age of a version in seconds.
_FOLDERS_MAX = 200  # Maximum folders of changes; each has to be listed.
_RANK, _DELETIONS, _FRESH, _NEWEST = "_rank", "_deletions", "_fresh", "_newest"
TAKEN = dict.fromkeys((GONE, _FRESH, _NEWEST, _VERSION[:-1]), "reserved by this job")
_IDENTITY = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp")


class NewestByKey:
    """Versioned Parquet table of the newest rows of each key.

    Args:
        run: Run that merges its micro-batches.
        place: Folder or URI of the table.
        keys: Columns that form the key.
        order: Orders the rows of a key; the greatest are kept.
        last: Number of rows to keep per key; a deletion removes older rows.
        split_by: Columns whose values become folder names of a version.
        clock: Returns monotonic seconds.

    Raises:
        SettingsError: The place holds a Delta table.
    """

    def __init__(
        self,
        run: Run,
        place: str,
        keys: Sequence[str],
        order: Column,
        *,
        last: int = 1,
        split_by: Sequence[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._last = last
        self._split_by = list(split_by)
        self._run = run
        check_parquet(place)
        self._place = hadoop_place(place)
        self._keys = list(keys)
        self._order = order
        self._clock = clock
        self._made_at = clock()
        self._go_on()

    def _go_on(self) -> None:
        """Let the run continue from the newest version at the place and the changes pending there: set `_kept`."""
        files, root = open_place(self._place)
        kept, listed = [*self._kept], listed_folder(self._place)
        is_own = listed is not None and listed.startswith(f"{_VERSION}{self._run.short_id}-")
        # A version of this run that its manifest lacks belongs to a micro-batch that will be repeated.
        if listed is not None and listed not in kept and not is_own:
            kept = [listed]
        chosen = fs.FileSelector(f"{root}/{CHANGES_FOLDER}", allow_not_found=True)
        for each in sorted(files.get_file_info(chosen), key=lambda found: found.path):
            name = f"{CHANGES_FOLDER}/{each.base_name}"
            is_whole = files.get_file_info(f"{each.path}/_SUCCESS").type == fs.FileType.File
            if is_whole and name not in kept:
                kept.append(name)
        if kept != self._kept:
            self._run.manifest.files = kept
            self._run.save()  # Must happen before a version of this run is listed.

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """Raise SettingsError if the schema lacks a column of the table, except those in `split_by`, or changes its type."""
        if self.current is not None:
            found = spark.read.parquet(read_path(f"{self._place}/{self.current}")).schema
            # Spark guesses the type of columns that are folder names.
            columns = [each for each in found.fields if each.name not in self._split_by]
            check_gains(StructType(columns), without_rules(schema))

    @property
    def current(self) -> str | None:
        """Name of the folder in the table's place with the newest whole version of the table; None before the first."""
        return next((each for each in reversed(self._kept) if _is_version(each)), None)

    @property
    def _kept(self) -> list[str]:
        """Names of the folders of versions, each followed by those of the changes since; part of the run's manifest."""
        return self._run.manifest.files

    def merge(self, changes: DataFrame, number: int) -> dict[str, int]:
        """Write the changes of a micro-batch, or a new version of the table that includes them if it is due.

        Args:
            changes: Rows with a column `_is_gone` that is true for a deleted key.
            number: Number of the micro-batch; a repeated one writes its files again.

        Returns:
            Differences to add to the run's counts, empty unless a version was written: "keys", and if `last` is above 1
                also "kept", the rows.
        """
        name = f"{self._run.short_id}-{number}"
        own = (f"{_VERSION}{name}", f"{CHANGES_FOLDER}/{name}")
        self._run.manifest.files = [each for each in self._kept if each not in own]
        if not self._is_due():
            self._reduced(changes).write.mode("overwrite").parquet(f"{self._place}/{own[1]}")
            self._run.manifest.files = [*self._kept, own[1]]
            return {}
        manifest = self._run.manifest
        before = manifest.before if number == manifest.batch else manifest.counts
        now = self._make_version(changes, self._waiting, own[0])
        return {name: count - before.get(name, 0) for name, count in now.items()}

    def finish(self, spark: SparkSession) -> None:
        """Write a version of the table with the pending changes, if there are any, and update and save the run's counts."""
        if waiting := self._waiting:
            last = spark.read.parquet(read_path(f"{self._place}/{waiting[-1]}"))
            name = f"{_VERSION}{self._run.short_id}-{max(0, self._run.manifest.batch)}"
            names = (name, *(f"{name}.{number}" for number in range(1, len(self._kept) + 1)))
            free = next(each for each in names if each not in self._kept)
            self._run.manifest.counts |= self._make_version(last, waiting[:-1], free)
            self._run.save()

    @property
    def _waiting(self) -> list[str]:
        """Names of the folders of changes since the newest version; empty without a version."""
        kept = self._kept
        made = [place for place, each in enumerate(kept) if _is_version(each)]
        return kept[made[-1] + 1 :] if made else []

    def _is_due(self) -> bool:
        """Return whether the present micro-batch must write the whole table as a version, instead of only adding its changes."""
        current, waiting = self.current, self._waiting
        if current is None or len(waiting) >= _FOLDERS_MAX:
            return True
        if self._clock() - self._made_at >= _FRESH_S:
            return True
        since = sum(map(self._size, waiting))
        return self._size(current) <= _SMALL_BYTES + _SHARE * since

    def _is_there(self, name: str) -> bool:
        files, root = open_place(self._place)
        return bool(files.get_file_info(f"{root}/{name}").type == fs.FileType.Directory)

    def _size(self, name: str) -> int:
        files, root = open_place(self._place)
        wanted = fs.FileSelector(f"{root}/{name}", recursive=True, allow_not_found=True)
        return sum(each.size or 0 for each in files.get_file_info(wanted))

    def _make_version(
        self, changes: DataFrame, waiting: Sequence[str], name: str
    ) -> dict[str, int]:
        """Write a version from the last one, pending and new changes; make it the newest, and return its counts."""
        newest = self._reduced(self._all_rows(changes, waiting)).persist()
        if self._is_there(name):
            # A repeated micro-batch overwrites its version, so readers must not be directed to it meanwhile.
            list_only(self._place, self.current)
        try:
            for folder, is_gone in (
                (self._place, False),
                (f"{self._place}/{GONE_FOLDER}", True),
            ):
                chosen = newest.where(f.col(GONE) == f.lit(is_gone)).drop(GONE)
                writer = chosen.write.mode("overwrite")
                if self._split_by:
                    writer = writer.partitionBy(*self._split_by)
                writer.parquet(f"{folder}/{name}")
            counts = self._counts(newest.where(~f.col(GONE)))
        finally:
            newest.unpersist()
        list_only(self._place, name)
        self._keep([*self._kept, name])
        self._made_at = self._clock()
        return counts

    def _all_rows(self, changes: DataFrame, waiting: Sequence[str]) -> DataFrame:
        """Return the rows of the newest version, the pending changes, and the new changes.

        The column `_fresh` is false for rows of the version, so that `_reduced` can prefer a message that was read again.
        """
        spark = changes.sparkSession
        rows = changes.withColumn(_FRESH, f.lit(True))  # noqa: FBT003
        if waiting:
            paths = [read_path(f"{self._place}/{each}") for each in waiting]
            since = spark.read.schema(changes.schema).parquet(*paths)
            rows = rows.unionByName(since.withColumn(_FRESH, f.lit(True)))  # noqa: FBT003
        if (current := self.current) is not None:
            version = self._version(spark, current, changes)
            rows = rows.unionByName(version.withColumn(_FRESH, f.lit(False)))  # noqa: FBT003
        return rows

    def _reduced(self, rows: DataFrame) -> DataFrame:
        """Return the newest row of each key, or with `last` above 1 the newest few; rows may be deletions."""
        fresh = [_FRESH] if _FRESH in rows.columns else []
        # One change can delete a key and set the same key; then setting it wins.
        order = f.struct(self._order, ~f.col(GONE), *fresh)
        reduced = (
            newest_by_key(rows, self._keys, order)
            if self._last == 1
            else self._newest_few(rows, order)
        )
        return reduced.drop(*fresh)

    def _counts(self, alive: DataFrame) -> dict[str, int]:
        if self._last == 1:
            return {"keys": alive.count()}
        by_key = alive.groupBy(*map(quoted, self._keys)).count()
        keys, kept = by_key.agg(
            f.count(f.lit(1)), f.coalesce(f.sum("count"), f.lit(0))
        ).collect()[0]
        return {"keys": keys, "kept": kept}

    def _newest_few(self, rows: DataFrame, order: Column) -> DataFrame:
        """Return the last rows of each key after its last deletion, and the deletion if it is among the last."""
        # A message that was read twice counts once.
        if identity := [each for each in _IDENTITY if each in rows.columns]:
            rows = rows.dropDuplicates(identity)
        newer = Window.partitionBy(*self._keys).orderBy(order.desc())
        before = newer.rowsBetween(Window.unboundedPreceding, -1)
        deletions = f.coalesce(f.sum(f.col(GONE).cast("int")).over(before), f.lit(0))
        ranked = rows.withColumns({_RANK: f.row_number().over(newer), _DELETIONS: deletions})
        return ranked.where((f.col(_RANK) <= self._last) & (f.col(_DELETIONS) == 0)).select(
            *rows.columns
        )

    def _version(self, spark: SparkSession, name: str, like: DataFrame) -> DataFrame:
        schema = like.drop(GONE).schema
        # Select in the order of the schema, because Spark puts folder columns last.
        alive, gone = (
            spark.read.schema(schema)
            .parquet(read_path(f"{folder}/{name}"))
            .select(*map(quoted, schema.names))
            for folder in (self._place, f"{self._place}/{GONE_FOLDER}")
        )
        return alive.withColumn(GONE, f.lit(False)).unionByName(  # noqa: FBT003
            gone.withColumn(GONE, f.lit(True))  # noqa: FBT003
        )

    def _keep(self, kept: list[str]) -> None:
        """Keep the last two versions and the changes since the older one, for a repeated micro-batch; delete others."""
        made = [place for place, each in enumerate(kept) if _is_version(each)]
        first = made[-2] if len(made) > 1 else 0
        self._run.manifest.files = kept[first:]
        files, root = open_place(self._place)
        for folder, name in self._made(files, root):
            if name not in kept[first:]:
                files.delete_dir(folder)

    def _made(self, files: fs.FileSystem, root: str) -> Iterator[tuple[str, str]]:
        """Yield the folders of versions and changes that runs have created here, each with its name as in `_kept`."""
        for parent, prefix in (
            ("", ""),
            (GONE_FOLDER, ""),
            (CHANGES_FOLDER, f"{CHANGES_FOLDER}/"),
        ):
            chosen = fs.FileSelector(f"{root}/{parent}".rstrip("/"), allow_not_found=True)
            for each in files.get_file_info(chosen):
                is_made = bool(prefix) or _MADE.fullmatch(each.base_name)
                if is_made and each.type == fs.FileType.Directory:
                    yield each.path, prefix + each.base_name


def newest_by_key(rows: DataFrame, keys: Sequence[str], order: Column) -> DataFrame:
    """Return the row with the greatest order for each key; of rows with equal orders, any one."""
    columns = [f.col(quoted(each)) for each in rows.columns if each not in keys]
    newest = f.max_by(f.struct(*columns), order).alias(_NEWEST)
    grouped = rows.groupBy(*map(quoted, keys)).agg(newest)
    return grouped.select(*map(quoted, keys), f"{_NEWEST}.*").select(*map(quoted, rows.columns))


def _is_version(name: str) -> bool:
    return name.startswith((_VERSION, "version="))


_FOLDER = "_spark_metadata"
_HEAD = "v1"
_LISTED = re.compile(r".*/((?:cometmq_)?version=[0-9a-f-]+[^/]*)/")


def list_only(place: str, folder: str | None) -> None:
    """Limit `spark.read` of a table's place to the files of one folder in it, or with None to no file at all.

    Spark's file sink keeps such a list, and `spark.read` uses it if it reads only that folder (MetadataLogFileIndex of
    Spark 4.3): other files are ignored. It is one file, so a table of several files changes atomically. Its paths are
    absolute URIs: after a folder is moved, read its versions directly, until a run writes the next version.

    Raises:
        OSError: The list cannot be written.
    """
    files, root = open_place(place)
    lines = [_HEAD]
    if folder is not None:
        base = f"{_uri(place)}/"
        for info in _data_files(files, f"{root}/{folder}"):
            path = base + quote(info.path.removeprefix(f"{root}/"))
            lines.append(json.dumps(_entry(path, info)))
    files.create_dir(f"{root}/{_FOLDER}", recursive=True)
    path = f"{root}/{_FOLDER}/0"
    # Spark ignores a file list whose name starts with a dot.
    with files.open_output_stream(f"{root}/{_FOLDER}/.new") as stream:
        stream.write("\n".join(lines).encode())
    files.move(f"{root}/{_FOLDER}/.new", path)


def listed_folder(place: str) -> str | None:
    """Return the name of the version folder that `list_only` listed, even if the table's folder was moved to another path.

    None if there is no list, or it has no such folder.
    """
    files, root = open_place(place)
    path = f"{root}/{_FOLDER}/0"
    if files.get_file_info(path).type != fs.FileType.File:
        return None
    with files.open_input_stream(path) as stream:
        _, *lines = stream.read().decode().split("\n")
    if not lines:
        return None
    found = _LISTED.match(unquote(json.loads(lines[0])["path"]))
    return found[1] if found else None


def _data_files(files: fs.FileSystem, folder: str) -> Iterator[fs.FileInfo]:
    found = files.get_file_info(fs.FileSelector(folder, recursive=True))
    for info in sorted(found, key=lambda each: each.path):
        if info.type == fs.FileType.File and not info.base_name.startswith(("_", ".")):
            yield info


def _entry(path: str, info: fs.FileInfo) -> dict[str, object]:
    changed = info.mtime
    return {
        "path": path,
        "size": info.size,
        "isDir": False,
        "modificationTime": 0 if changed is None else int(changed.timestamp() * 1000),
        "blockReplication": 1,
        "blockSize": 1 << 25,
        "action": "add",
    }


def _uri(place: str) -> str:
    place = hadoop_place(place)
    return place.rstrip("/") if "://" in place else Path(place).as_uri()
