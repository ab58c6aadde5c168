"""Delta tables without a jar: Spark writes the files, delta-rs (the package `deltalake`) the transactions.

A transaction says of which query and which micro-batch it is; a micro-batch that comes again after a kill is
passed over where its transaction stands. Why not Spark's own jar: docs/design/0065-delta-tables.md
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from cometmq.model.text import plural
from cometmq.offline.place import hadoop_place, open_place, read_path, same_place
from cometmq.spark.delta_file import file_statistics, partition_values
from cometmq.spark.jobs.checkpoint import query_id
from cometmq.spark.jobs.connect_session import is_connect
from cometmq.spark.schema import check_gains

try:
    import deltalake
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, RemoveAction
except ModuleNotFoundError as missing:
    raise SettingsError(
        f"Delta tables need the package {missing.name}: pip install 'cometmq[delta]'"
    ) from missing

# The cause of an error of delta-rs stands last, behind a picture of what led to it.
_PICTURE = re.compile(r"\x1b\[\d*m|↳|^\s+|\s+$", re.MULTILINE)
# Read and written alike by Spark's Parquet and delta-rs; other features change what the files mean.
_FEATURES = frozenset({"timestampNtz"})
_QUERY_ID = "sql.streaming.queryId"  # What Spark's own thread of a query knows.
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
    """A function for Spark's `foreachBatch` that writes each micro-batch to a Delta table, exactly once.

    Args:
        place: the table's folder or URI; the first micro-batch makes it.
        checkpoint: the query's `checkpointLocation`. A query with another checkpoint is another one,
            whose micro-batches are all new.
        partition_by: columns whose values name folders: text, whole numbers, dates or booleans.
        merge_keys: columns by which a row is known. A row replaces the table's row with the same keys instead of standing
            beside it. A micro-batch has one row for each key at most, and is held in the driver's memory.

    Raises:
        SettingsError: the place holds something else, or a table with other columns or partitions; the checkpoint is not that
            of the query; two rows of a micro-batch have the same keys, or a key is null (when a batch comes).
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
    """The rows of a Delta table as they are now, read without a jar.

    Args:
        spark: any session.
        place: the table's folder or URI.

    Raises:
        SettingsError: there is no such table, or one that only Delta's own reader understands.
    """
    with _named_errors(place):
        table = deltalake.DeltaTable(same_place(place), storage_options=_storage())
        _check_plain(place, table)
        schema, files = _schema_of(table), _files_of(hadoop_place(place), table)
    if not files:
        return spark.createDataFrame([], schema)
    parts = []
    for values, paths in files.items():
        # Folders that name values are none of Spark's business: the log says them.
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
    """A Delta table as one query writes it: a micro-batch is one transaction, or none.

    Args:
        place: its folder or URI.
        schema: of the rows; columns that the table lacks are added to it.
        checkpoint: of the query.
        properties: of the table, where it is made now.
        partition_by: columns whose values name folders.

    Raises:
        SettingsError: the place holds something else, or a table with other columns or partitions.
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
        # What a table holds may always be null: columns that come later are, in the rows before.
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
                    f"{place} is a Delta table with the partitions {there}, not {self._partition_by}: name those, or "
                    "another folder"
                )
            present = _schema_of(self.lake)
            check_gains(present, wanted)
            if added := [each for each in fields if each.name not in present.names]:
                later = deltalake.Schema.from_json(t.StructType(added).json())
                self.lake.alter.add_columns(later.fields)

    @cached_property
    def _query(self) -> str:
        return query_id(self._checkpoint)  # Spark writes it when the query begins.

    def has(self, number: int) -> bool:
        """Whether the micro-batch is committed."""
        self.lake.update_incremental()
        last = self.lake.transaction_version(self._query)
        return last is not None and number <= last

    def stage(self, rows: DataFrame, number: int) -> None:
        """Write the rows of a micro-batch as files that no reader sees yet."""
        if self.has(number):
            # For those who count its rows as they pass.
            rows.write.format("noop").mode("overwrite").save()
            return
        # As the format says; what Spark writes by itself is older than the format. A stream's batches
        # have a session of their own.
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("overwrite")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(f"{self.place}/{self._folder(number)}")

    def commit(self, number: int) -> None:
        """Show the staged rows to all readers, unless an earlier run has."""
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
        """Put the rows of a micro-batch in the place of those with the same keys, unless an earlier run has.

        Raises:
            SettingsError: a key is no column or null, or two rows have the same keys.
        """
        if unknown := [each for each in keys if each not in rows.columns]:
            raise SettingsError(
                f"merge_keys: there is no column {unknown[0]!r}; there are {rows.columns}"
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
            streamed_exec=False,  # The changes are few: files without any of their keys are not read.
            commit_properties=self.transaction(number),
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def transaction(self, number: int) -> deltalake.CommitProperties:
        """The mark in the table's log by which `has` knows the micro-batch."""
        mark = deltalake.Transaction(self._query, number)
        return deltalake.CommitProperties(app_transactions=[mark])

    def _folder(self, number: int) -> str:
        return f"{self._query}/{number}"


def quoted(name: str) -> str:
    """A column's name as SQL of delta-rs takes any."""
    return '"' + name.replace('"', '""') + '"'


def _files_of(
    place: str, table: deltalake.DeltaTable
) -> dict[tuple[tuple[str, Any], ...], list[str]]:
    """The paths of a table's files by the values of their partitions."""
    columns = table.metadata().partition_columns
    found: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        # The log has the name of a file as a URI has it; Spark takes a name as it is.
        path = unquote(each["path"])
        values = tuple((name, each[f"partition.{name}"]) for name in columns)
        found.setdefault(values, []).append(path if "://" in path else f"{place}/{path}")
    return found


@contextmanager
def _named_errors(place: str) -> Iterator[None]:
    """Turn errors of delta-rs about a place into a line that names it."""
    try:
        yield
    except DeltaError as error:
        why = str(error).partition("\n")[0]
        raise SettingsError(
            f"{place} is no Delta table that can be used: {why}; name another folder"
        ) from error
    except OSError as error:
        why = _PICTURE.sub("", str(error)).splitlines()[-1]
        raise SettingsError(
            f"{place} cannot be reached or written to: {why}; name another folder, or look at the environment "
            "(AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID)"
        ) from error


def _storage() -> dict[str, str]:
    """Let delta-rs go to a server without TLS where the environment names one, as pyarrow does."""
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"allow_http": "true"} if is_plain else {}


def _schema_of(table: deltalake.DeltaTable) -> t.StructType:
    """A table's columns: Delta keeps them as Spark writes them."""
    return t.StructType.fromJson(json.loads(table.schema().to_json()))


def _check_plain(place: str, table: deltalake.DeltaTable) -> None:
    """Refuse a table whose files are not its rows, nothing less and nothing more.

    Raises:
        SettingsError: it has a feature by which its files mean something else.
    """
    foreign = {*(table.protocol().reader_features or ())} - _FEATURES
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        foreign.add("columnMapping")
    _check_none(place, sorted(foreign))


def _check_unruled(place: str, table: deltalake.DeltaTable) -> None:
    """Refuse a table with rules for its rows: who writes files beside its own program keeps none.

    Raises:
        SettingsError: it has constraints, or columns that are computed or must not be null.
    """
    rules = [each for each in table.metadata().configuration if "constraints." in each]
    columns = [
        each.name for each in table.schema().fields if each.metadata or not each.nullable
    ]
    _check_none(place, rules + columns)


def _check_none(place: str, foreign: list[str]) -> None:
    if foreign:
        raise SettingsError(
            f"{place} is a Delta table of another program, with rules that are not kept here "
            f"({', '.join(foreign)}); name another folder"
        )


def _check_own(spark: SparkSession, checkpoint: str) -> None:
    """Refuse the checkpoint of another query: micro-batches with the same numbers would be taken for its own.

    Raises:
        SettingsError: it is not the running query's.
    """
    if is_connect(spark):
        return  # Its server does not tell the function which query runs it.
    running, own = spark.sparkContext.getLocalProperty(_QUERY_ID), query_id(checkpoint)
    if running and running != own:
        raise SettingsError(
            f"delta_sink: {checkpoint} is the checkpoint of another query ({own}) than the one that runs ({running}): "
            'start the query with .option("checkpointLocation", ...) and give delta_sink the same'
        )


def _check_partitions(schema: t.StructType, columns: Sequence[str]) -> None:
    """Refuse columns that cannot name folders.

    Raises:
        SettingsError: there is no such column, its values have no text that all readers know, or no other column is left.
    """
    for each in columns:
        if each not in schema.names:
            raise SettingsError(
                f"partition_by: there is no column {each!r}; there are {schema.names}"
            )
        if not isinstance(kind := schema[each].dataType, _FOLDER_TYPES):
            raise SettingsError(
                f"partition_by: {each} {kind.simpleString()}: only text, whole numbers, dates and booleans name folders"
            )
    if columns and set(schema.names) == set(columns):
        raise SettingsError(
            "partition_by: a column must be left that is none of the partitions"
        )


def _check_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Refuse rows that their keys do not tell apart.

    Raises:
        SettingsError: a key is null, or two rows have the same.
    """
    for each in keys:
        if rows[each].null_count:
            raise SettingsError(
                f"merge_keys: {each} is null in {rows[each].null_count} {plural(rows[each].null_count, 'row')}; leave them out before"
            )
    counts = rows.group_by(list(keys)).aggregate([([], "count_all")])
    if twice := counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist():
        count = twice[0].pop("count_all")
        raise SettingsError(
            f"merge_keys: {count} rows of one micro-batch have the keys {twice[0]}; keep one of them, for example by "
            "groupBy and max_by, before the batch is merged"
        )


def _check_place(place: str) -> None:
    """Refuse a folder that holds no Delta table, but something that a reader of a table would see.

    Raises:
        SettingsError: it holds something else.
    """
    files, root = open_place(place)
    names = [
        each.base_name
        for each in files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    ]
    seen = [each for each in sorted(names) if not each.startswith(("_", "."))]
    if seen and "_delta_log" not in names:
        raise SettingsError(f"{place} holds {seen[0]} and no Delta table: name another folder")


def _check_type(column: str, kind: t.DataType) -> None:
    """Refuse a type that Delta or one of its two writers does not know.

    Raises:
        SettingsError: one of them does not.
    """
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
            f"{column} {kind.simpleString()}: a Delta table written here has no such columns; "
            "give it another type, or write Parquet"
        )
