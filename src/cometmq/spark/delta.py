"""Delta tables without a jar: Spark writes the files, delta-rs (the package `deltalake`) the transactions.

A transaction says of which query and which micro-batch it is; a micro-batch that comes again after a kill is
passed over where its transaction stands. Why not Spark's own jar: docs/design/0065-delta-tables.md
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from urllib.parse import unquote

from pyarrow import fs
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path, same_place
from cometmq.spark.jobs.checkpoint import query_id
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
_PLAIN = (
    t.BinaryType, t.BooleanType, t.ByteType, t.DateType, t.DecimalType, t.DoubleType, t.FloatType,
    t.IntegerType, t.LongType, t.ShortType, t.StringType, t.TimestampNTZType, t.TimestampType,
)  # fmt: skip


def delta_sink(place: str, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """A function for Spark's `foreachBatch` that appends each micro-batch to a Delta table, exactly once.

    Args:
        place: the table's folder or URI; the first micro-batch makes it.
        checkpoint: the query's `checkpointLocation`. A query with another checkpoint is another one,
            whose micro-batches are all new.

    Raises:
        SettingsError: the place holds something else, or a table with other columns (when a batch comes).
    """

    def write(batch: DataFrame, number: int) -> None:
        table = DeltaTable(place, batch.schema, checkpoint)
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
        schema, paths = _schema_of(table), [unquote(each) for each in table.file_uris()]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*map(read_path, paths))


class DeltaTable:
    """A Delta table as one query writes it: a micro-batch is one transaction, or none.

    Args:
        place: its folder or URI.
        schema: of the rows; columns that the table lacks are added to it.
        checkpoint: of the query.
        properties: of the table, where it is made now.

    Raises:
        SettingsError: the place holds something else, or a table with other columns.
    """

    def __init__(
        self,
        place: str,
        schema: t.StructType,
        checkpoint: str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.place = hadoop_place(place)
        self._checkpoint = checkpoint
        # What a table holds may always be null: columns that come later are, in the rows before.
        fields = [t.StructField(each.name, each.dataType) for each in schema.fields]
        for each in fields:
            _check_type(each.name, each.dataType)
        wanted = t.StructType(fields)
        with _named_errors(place):
            _check_place(place)
            self.lake = deltalake.DeltaTable.create(
                same_place(place),
                deltalake.Schema.from_json(wanted.json()),
                mode="ignore",
                configuration=properties,
                storage_options=_storage(),
            )
            _check_plain(place, self.lake)
            _check_unruled(place, self.lake)
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
        rows.write.mode("overwrite").parquet(f"{self.place}/{self._folder(number)}")

    def commit(self, number: int) -> None:
        """Show the staged rows to all readers, unless an earlier run has."""
        if self.has(number):
            return
        files, root = open_place(self.place)
        folder = self._folder(number)
        added: list[AddAction | RemoveAction] = []
        for each in files.get_file_info(fs.FileSelector(f"{root}/{folder}")):
            if not each.base_name.endswith(".parquet"):
                continue
            rows = pq.read_metadata(each.path, filesystem=files).num_rows
            if not rows:
                continue
            added.append(
                AddAction(
                    path=f"{folder}/{each.base_name}",
                    size=each.size,
                    partition_values={},
                    modification_time=(each.mtime_ns or 0) // 1_000_000,
                    data_change=True,
                    stats=json.dumps({"numRecords": rows}),
                )
            )
        self.lake.create_write_transaction(
            added, "append", self.lake.schema(), commit_properties=self.transaction(number)
        )

    def transaction(self, number: int) -> deltalake.CommitProperties:
        """The mark in the table's log by which `has` knows the micro-batch."""
        mark = deltalake.Transaction(self._query, number)
        return deltalake.CommitProperties(app_transactions=[mark])

    def _folder(self, number: int) -> str:
        return f"{self._query}/{number}"


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
        SettingsError: it has partitions, or a feature by which its files mean something else.
    """
    foreign = {*(table.protocol().reader_features or ())} - _FEATURES
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        foreign.add("columnMapping")
    _check_none(place, [*table.metadata().partition_columns, *sorted(foreign)])


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
