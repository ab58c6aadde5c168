"""Delta tables without a jar: Spark writes appended rows as Parquet, delta-rs (package `deltalake`) merges and commits.

The transaction of a micro-batch records its query and number; a micro-batch that Spark repeats after a crash is
therefore not committed a second time. Why Spark's own jar is not used: docs/design/0065-delta-tables.md
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, in_quotes, plural
from cometmq.offline.place import hadoop_place, open_place, read_path, same_place
from cometmq.spark.jobs.checkpoint import query_id
from cometmq.spark.jobs.connect_session import is_connect
from cometmq.spark.schema import check_gains

try:
    import deltalake
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, RemoveAction
except ModuleNotFoundError as missing:
    raise SettingsError(
        f"Delta tables need the package {missing.name}; run pip install 'cometmq[delta]'"
    ) from missing

# Decoration in error messages of delta-rs, which show the chain of errors as a tree with the cause last.
_PICTURE = re.compile(r"\x1b\[\d*m|↳|^\s+|\s+$", re.MULTILINE)
# Features that Spark's Parquet and delta-rs treat alike; others change the meaning of the files.
_FEATURES = frozenset({"timestampNtz"})
_QUERY_ID = "sql.streaming.queryId"  # Local property that Spark sets in the thread of a query.
_FOLDER_TYPES = (
    t.BooleanType, t.ByteType, t.DateType, t.IntegerType, t.LongType, t.ShortType, t.StringType,
)  # fmt: skip
_PLAIN = (
    t.BinaryType, t.BooleanType, t.ByteType, t.DateType, t.DecimalType, t.DoubleType, t.FloatType,
    t.IntegerType, t.LongType, t.ShortType, t.StringType, t.TimestampNTZType, t.TimestampType,
)  # fmt: skip


def delta_sink(
    place: str,
    checkpoint: str,
    *,
    partition_by: Sequence[str] = (),
    merge_keys: Sequence[str] = (),
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each micro-batch to a Delta table exactly once.

    Args:
        place: Folder or URI of the table; the first micro-batch creates it if it is missing.
        checkpoint: The query's `checkpointLocation`. A query with another checkpoint is a different query, whose
            micro-batches all count as new.
        partition_by: Columns whose values become folder names: text, whole numbers, dates or booleans.
        merge_keys: Columns that identify a row; empty to append all rows. With keys, a row replaces the table's rows with
            the same keys; a micro-batch must have at most one row per key, and is held in the driver's memory.

    Raises:
        SettingsError: Raised by the returned function, not by this one: the place is unusable or holds a table that does
            not fit the rows or partitions; a column has an unsupported type; the checkpoint is not that of the query
            (not checked with Spark Connect); a key is null or no column, or two rows have the same keys.
    """

    def write(batch: DataFrame, number: int) -> None:
        _check_own(batch.sparkSession, checkpoint)
        table = DeltaTable(place, batch.schema, checkpoint, partition_by=partition_by)
        if merge_keys:
            table.merge(batch, merge_keys, number)
            return
        table.stage(batch, number)
        table.commit(number)

    return write


def read_delta(spark: SparkSession, place: str) -> DataFrame:
    """Return the rows that a Delta table has at the time of this call, as a data frame; no jar is needed.

    Args:
        spark: Spark session, also one of Spark Connect.
        place: Folder or URI of the table.

    Raises:
        SettingsError: There is no such table, it cannot be reached, or it has features that are not supported here.
    """
    with _named_errors(place):
        table = deltalake.DeltaTable(same_place(place), storage_options=_storage())
        _check_plain(place, table)
        schema, files = _schema_of(table), _files_of(hadoop_place(place), table)
    if not files:
        return spark.createDataFrame([], schema)
    parts = []
    for values, paths in files.items():
        # Spark must not derive partition values from folder names: the table's log has them.
        reader = spark.read.option("recursiveFileLookup", "true")
        named = dict(values)
        inside = t.StructType([each for each in schema.fields if each.name not in named])
        rows = reader.schema(inside).parquet(*map(read_path, paths))
        columns = [
            f.lit(named[each.name]).cast(each.dataType).alias(each.name)
            if each.name in named
            else rows["`" + each.name.replace("`", "``") + "`"]
            for each in schema.fields
        ]
        parts.append(rows.select(*columns) if named else rows)
    return reduce(DataFrame.unionAll, parts)


class DeltaTable:
    """Delta table as one query writes it, created if it is missing; a repeated micro-batch is not committed again.

    Args:
        place: Folder or URI of the table.
        schema: Columns of the rows: all of the table with their types; those that the table lacks are added to it.
        checkpoint: Checkpoint location of the query.
        properties: Table properties, used if the table is created now.
        partition_by: Columns whose values become folder names.

    Raises:
        SettingsError: The place cannot be used, or has a table that does not fit the columns and partitions or has
            unsupported features; or a column has an unsupported type, or cannot be a partition.
    """

    def __init__(
        self,
        place: str,
        schema: t.StructType,
        checkpoint: str,
        properties: Mapping[str, str] | None = None,
        *,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.place = hadoop_place(place)
        self._checkpoint = checkpoint
        self._partition_by = list(partition_by)
        # All columns are nullable: a column that is added later is null in older rows.
        fields = [t.StructField(each.name, each.dataType) for each in schema.fields]
        for each in fields:
            _check_type(each.name, each.dataType)
        wanted = t.StructType(fields)
        _check_partitions(wanted, partition_by)
        with _named_errors(place):
            _check_place(place)
            self.lake = deltalake.DeltaTable.create(
                same_place(place),
                deltalake.Schema.from_json(wanted.json()),
                mode="ignore",
                partition_by=self._partition_by,
                configuration=properties,
                storage_options=_storage(),
            )
            _check_plain(place, self.lake)
            _check_unruled(place, self.lake)
            if (there := self.lake.metadata().partition_columns) != self._partition_by:
                raise SettingsError(
                    f"{place} is a Delta table with the partition columns {', '.join(there) or 'none'}: set "
                    "partition_by to these, or use another folder"
                )
            present = _schema_of(self.lake)
            check_gains(present, wanted)
            if added := [each for each in fields if each.name not in present.names]:
                later = deltalake.Schema.from_json(t.StructType(added).json())
                self.lake.alter.add_columns(later.fields)

    @cached_property
    def _query(self) -> str:
        return query_id(self._checkpoint)  # Spark writes the id when the query starts.

    def has(self, number: int) -> bool:
        """Return whether a micro-batch of this query, or a later one, is already committed to the table."""
        self.lake.update_incremental()
        last = self.lake.transaction_version(self._query)
        return last is not None and number <= last

    def stage(self, rows: DataFrame, number: int) -> None:
        """Write a micro-batch's rows as files that readers of the Delta table do not see before `commit`.

        If the micro-batch is committed already, its query runs, but no file is written.
        """
        if self.has(number):
            # Run the query anyway, for observers that count its rows.
            rows.write.format("noop").mode("overwrite").save()
            return
        # The Parquet type that Delta requires; Spark's default is INT96. Micro-batches have their own
        # session, so this does not change the user's.
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("overwrite")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(f"{self.place}/{self._folder(number)}")

    def commit(self, number: int) -> None:
        """Make the staged rows of a micro-batch visible to readers, unless it or a later one is already committed."""
        if self.has(number):
            return
        files, root = open_place(self.place)
        begin = len(f"{root}/")
        staged = fs.FileSelector(f"{root}/{self._folder(number)}", recursive=True)
        added: list[AddAction | RemoveAction] = []
        for each in files.get_file_info(staged):
            if not each.base_name.endswith(".parquet"):
                continue
            metadata = pq.read_metadata(each.path, filesystem=files)
            if not metadata.num_rows:
                continue
            added.append(
                AddAction(
                    path=each.path[begin:],
                    size=each.size,
                    partition_values=partition_values(each.path, self._partition_by),
                    modification_time=(each.mtime_ns or 0) // 1_000_000,
                    data_change=True,
                    stats=json.dumps(file_statistics(metadata)),
                )
            )
        self.lake.create_write_transaction(
            added,
            "append",
            self.lake.schema(),
            self._partition_by,
            commit_properties=self.transaction(number),
        )

    def merge(self, rows: DataFrame, keys: Sequence[str], number: int) -> None:
        """Insert the rows of a micro-batch, replacing those with the same keys, unless the batch is already committed.

        Raises:
            SettingsError: A key is not a column or is null, or two of the new rows have the same keys.
        """
        if unknown := [each for each in keys if each not in rows.columns]:
            raise SettingsError(
                f"merge_keys: the rows have no column {in_quotes(unknown[0])}; their columns are "
                f"{', '.join(rows.columns)}"
            )
        if self.has(number):
            return
        changes = rows.toArrow()
        _check_keys(changes, keys)
        same = (f"s.{name} = t.{name}" for name in map(quoted, keys))
        merger = self.lake.merge(
            changes,
            " AND ".join(same),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # With few changes in memory, delta-rs skips files that contain none of their keys.
            commit_properties=self.transaction(number),
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def transaction(self, number: int) -> deltalake.CommitProperties:
        """Return the commit properties that identify a micro-batch in the table's log, for `has`."""
        mark = deltalake.Transaction(self._query, number)
        return deltalake.CommitProperties(app_transactions=[mark])

    def _folder(self, number: int) -> str:
        return f"{self._query}/{number}"


def quoted(name: str) -> str:
    """Quote a column name for the SQL of delta-rs, so that it may contain any characters."""
    return '"' + name.replace('"', '""') + '"'


def _files_of(
    place: str, table: deltalake.DeltaTable
) -> dict[tuple[tuple[str, Any], ...], list[str]]:
    """Return the paths of a table's files by partition, a tuple of (column, value) pairs."""
    columns = table.metadata().partition_columns
    found: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        # The log escapes file names as in a URI; Spark expects them unescaped.
        path = unquote(each["path"])
        values = tuple((name, each[f"partition.{name}"]) for name in columns)
        found.setdefault(values, []).append(path if "://" in path else f"{place}/{path}")
    return found


@contextmanager
def _named_errors(place: str) -> Iterator[None]:
    """Convert a DeltaError or OSError of the `with` block to a one-line SettingsError that names the place."""
    try:
        yield
    except DeltaError as error:
        why = str(error).partition("\n")[0]
        raise SettingsError(
            f"{place} is not a usable Delta table: {why}; name another folder"
        ) from error
    except OSError as error:
        why = _PICTURE.sub("", str(error)).splitlines()[-1]
        raise SettingsError(
            f"{place} cannot be reached or written to: {why}; name another folder, or check the environment variables "
            "(AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID)"
        ) from error


def _storage() -> dict[str, str]:
    """Return options that let delta-rs use HTTP without TLS if AWS_ENDPOINT_URL begins with http://, or else none."""
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"allow_http": "true"} if is_plain else {}


def _schema_of(table: deltalake.DeltaTable) -> t.StructType:
    """Return a table's columns; Delta stores a schema in Spark's JSON form."""
    return t.StructType.fromJson(json.loads(table.schema().to_json()))


def _check_plain(place: str, table: deltalake.DeltaTable) -> None:
    """Raise SettingsError if the table has reader features other than `timestampNtz`, or column mapping."""
    foreign = {*(table.protocol().reader_features or ())} - _FEATURES
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        foreign.add("columnMapping")
    _check_none(place, sorted(foreign))


def _check_unruled(place: str, table: deltalake.DeltaTable) -> None:
    """Raise SettingsError for constraints, and top-level columns that are NOT NULL or have metadata, as generated ones."""
    rules = [each for each in table.metadata().configuration if "constraints." in each]
    columns = [
        each.name for each in table.schema().fields if each.metadata or not each.nullable
    ]
    _check_none(place, rules + columns)


def _check_none(place: str, foreign: list[str]) -> None:
    if foreign:
        raise SettingsError(
            f"{place} is a Delta table of another program with features that are not supported here "
            f"({', '.join(foreign)}); name another folder"
        )


def _check_own(spark: SparkSession, checkpoint: str) -> None:
    """Raise SettingsError if the checkpoint is not that of the running query, or no query's checkpoint.

    With Spark Connect nothing is checked; outside a streaming query, any query's checkpoint is accepted.
    """
    if is_connect(spark):
        return  # With Spark Connect the function cannot find out which query runs it.
    running, own = spark.sparkContext.getLocalProperty(_QUERY_ID), query_id(checkpoint)
    if running and running != own:
        raise SettingsError(
            f"delta_sink: {checkpoint} is the checkpoint of query {own}, but query {running} is running: "
            'start the query with .option("checkpointLocation", ...) and pass the same folder to delta_sink'
        )


def _check_partitions(schema: t.StructType, columns: Sequence[str]) -> None:
    """Raise SettingsError if a partition column is missing or of an unsuitable type, or if no other column is left."""
    for each in columns:
        if each not in schema.names:
            raise SettingsError(
                f"partition_by: the rows have no column {in_quotes(each)}; their columns are {', '.join(schema.names)}"
            )
        if not isinstance(kind := schema[each].dataType, _FOLDER_TYPES):
            raise SettingsError(
                f"partition_by: column {each} has type {kind.simpleString()}; only text, whole numbers, dates and "
                "booleans can partition a table"
            )
    if columns and set(schema.names) == set(columns):
        raise SettingsError("partition_by: at least one column must not be a partition column")


def _check_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Raise SettingsError if a key is null or two rows have the same keys."""
    for each in keys:
        if rows[each].null_count:
            raise SettingsError(
                f"merge_keys: {each} is null in {rows[each].null_count} {plural(rows[each].null_count, 'row')}; "
                "filter these rows out first"
            )
    counts = rows.group_by(list(keys)).aggregate([([], "count_all")])
    if twice := counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist():
        count = twice[0].pop("count_all")
        raise SettingsError(
            f"merge_keys: {count} rows of one micro-batch have the same keys {as_given(twice[0])}; keep only one of "
            "them, for example with groupBy and max_by, before the batch is merged"
        )


def _check_place(place: str) -> None:
    """Raise SettingsError if the folder has files or folders that a reader of a table would see, but no Delta table."""
    files, root = open_place(place)
    names = [
        each.base_name
        for each in files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    ]
    seen = [each for each in sorted(names) if not each.startswith(("_", "."))]
    if seen and "_delta_log" not in names:
        raise SettingsError(f"{place} has {seen[0]} and no Delta table: name another folder")


def _check_type(column: str, kind: t.DataType) -> None:
    """Raise SettingsError unless a column has a type that can be written to a Delta table here."""
    if isinstance(kind, t.StructType):
        for each in kind.fields:
            _check_type(f"{column}.{each.name}", each.dataType)
    elif isinstance(kind, t.ArrayType):
        _check_type(column, kind.elementType)
    elif isinstance(kind, t.MapType):
        _check_type(column, kind.keyType)
        _check_type(column, kind.valueType)
    elif not isinstance(kind, _PLAIN):
        raise SettingsError(
            f"column {column} has type {kind.simpleString()}, which cannot be written to a Delta table here; "
            "cast it to another type, or write Parquet"
        )


_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# Limits of Delta's own writer: columns with statistics, and length of a text used as bound.
_DESCRIBED_COLUMNS = 32
_BOUND_LETTERS = 32


def file_statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return the statistics by which Delta readers skip a file: row count, and minimum, maximum and nulls per column.

    The result is a dict with `numRecords`, `minValues`, `maxValues` and `nullCount`. Columns inside others or with a dot
    in the name, all after the first 32 leaf columns, and those without statistics in the Parquet file have none. Bounds
    are whole numbers, dates, times with a zone (in ms, rounded outwards) and texts of at most 32 characters.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for column in range(min(metadata.num_columns, _DESCRIBED_COLUMNS)):
        name = metadata.schema.column(column).path
        parts = [group.column(column).statistics for group in groups]
        if "." in name or any(each is None or not each.has_null_count for each in parts):
            continue
        nulls[name] = sum(each.null_count for each in parts)
        bounded = [
            each for each in parts if each.null_count < each.num_values + each.null_count
        ]
        if not bounded or not all(each.has_min_max for each in bounded):
            continue
        try:
            low = _bound(min(each.min for each in bounded), is_up=False)
            high = _bound(max(each.max for each in bounded), is_up=True)
        except (ValueError, OverflowError):
            continue  # A time outside Python's range.
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }


def _bound(value: object, *, is_up: bool) -> int | str | None:
    """Convert a bound (whole number, date, time with a zone, short text) to its form in Delta's log; others to None.

    Times are rounded to ms, up if `is_up`, otherwise down.
    """
    match value:
        case int() if not isinstance(value, bool):
            return value
        case datetime() if value.tzinfo is not None:
            ticks = timedelta(microseconds=value.microsecond % 1000)
            if ticks:
                value += timedelta(milliseconds=int(is_up)) - ticks
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case str() if len(value) <= _BOUND_LETTERS:
            return value
    return None


def partition_values(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """Return the partition values by column as texts, from the folder names in a file's path; None for a null."""
    folders = path.split("/")[-1 - len(columns) : -1] if columns else []
    values = {}
    for column, folder in zip(columns, folders, strict=True):
        value = unquote(folder.partition("=")[2])
        values[column] = None if value == _NULL_FOLDER else value
    return values
