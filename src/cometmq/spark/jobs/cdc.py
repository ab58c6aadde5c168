"""The job "cdc": change messages become a table of how things are now.

A message is a change as Debezium writes it, `{"op": "u", "before": …, "after": …, "ts_ms": …}`, with or
without its envelope `{"payload": …}`. The newest change of a key wins, in whatever order they come.
"""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructType

from cometmq.model.errors import SettingsError
from cometmq.offline.columns.schema import nearest
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.decoding import BodyOptions, decoded, schema_of
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.streaming import counted, drain
from cometmq.spark.jobs.table import BAD_COLUMNS, BAD_FOLDER
from cometmq.spark.jobs.target import TargetOptions
from cometmq.spark.jobs.versions import GONE, NewestByKey

_DELETED = ("d", "delete", "DELETE")
_TIME = "_ts"
_PLACE = "_offset"


@dataclass(frozen=True, kw_only=True)
class CdcOptions(FromOptions, TargetOptions):
    """Options of the job `cdc`.

    Attributes:
        schema: the columns of a row: "id BIGINT, name STRING", or a file with that.
        key: the columns that tell rows apart.
        ts: the field with the time of a change.
    """

    schema: str = option("Columns of a row, 'id BIGINT, name STRING', or a file.")
    key: str = option("The columns that tell rows apart, with commas between.")
    ts: str = option("The field of a change that holds its time, a number.", "ts_ms")


class _Newest(Protocol):
    """A table of the newest by key, in either form."""

    @property
    def current(self) -> str | None:
        """The folder to read."""

    def merge(self, changes: DataFrame, number: int) -> dict[str, int]:
        """Take the changes of a micro-batch, those that come again too; gives what they add to the counts."""

    def finish(self, spark: SparkSession) -> None:
        """Put into the table what waits."""


def run(spark: SparkSession, options: CdcOptions) -> Report:
    """Make a table of how things are out of change messages (Debezium's JSON).

    Changes that do not fit lie in `_bad` with the reason.

    Raises:
        SettingsError: a key that is no column.
    """
    check_has_driver(spark, options, "cdc")
    if options.dry_run:
        return plan(options, read_before("cdc", options, options.to))
    row = schema_of(options.schema)
    keys = [name.strip() for name in options.key.split(",")]
    for name in keys:
        if name not in row.fieldNames():
            raise SettingsError(f"--key: there is no column {name!r}{nearest(name, row.names)}")
    with running("cdc", options, place=options.to) as this:
        changes = ChangeDecoder(options, row)
        table = _table(this, options, row, keys)

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(changes.of(batch))
            fitting, fit = counted(whole.where("reason IS NULL"))
            added = table.merge(fitting.select(*row.names, _TIME, _PLACE, GONE), number)
            bad = seen.get["rows"] - fit.get["rows"]
            if bad:
                rejects = changes.of(batch).where("reason IS NOT NULL").select(*BAD_COLUMNS)
                name = f"{BAD_FOLDER}/batch={this.short_id}-{number}"
                rejects.write.mode("overwrite").parquet(this.folder_of(name))
            return {**seen.get, **added, "bad": bad}

        drain(read_stream(spark, options, rows_max=options.rows_max), this, options, write)
        table.finish(spark)
    bad = this.manifest.counts.get("bad", 0)
    findings = [f"{bad} changes did not fit: {this.folder_of(BAD_FOLDER)}"] if bad else []
    return Report(
        this.manifest.counts, findings=findings, notes=[f"the table: {table.current}"]
    )


def _table(run: Run, options: CdcOptions, row: StructType, keys: list[str]) -> _Newest:
    if options.table_format == "parquet":
        return NewestByKey(run, options.to, keys, f.struct(_TIME, _PLACE))
    from cometmq.spark.jobs.delta_merge import DeltaMerge  # An extra brings what it needs.

    schema = StructType([*row.fields]).add(_TIME, LongType()).add(_PLACE, LongType())
    return DeltaMerge(run, options.to, schema, keys, (_TIME, _PLACE))


class ChangeDecoder:
    """Decodes change messages.

    Args:
        options: of the job.
        row: the columns of a row.
    """

    def __init__(self, options: CdcOptions, row: StructType) -> None:
        fields = ", ".join(
            f"`{each.name}` {each.dataType.simpleString()}" for each in row.fields
        )
        change = (
            f"op STRING, before STRUCT<{fields}>, after STRUCT<{fields}>, `{options.ts}` BIGINT"
        )
        self._row = row
        self._time = options.ts
        self._keys = [name.strip() for name in options.key.split(",")]
        # Without its envelope it is what the envelope holds.
        body = f.coalesce(
            f.get_json_object(f.col("body").cast("string"), "$.payload"),
            f.col("body").cast("string"),
        )
        self._change = decoded(BodyOptions(schema=change), body)

    def of(self, batch: DataFrame) -> DataFrame:
        """Rows of the table, with the message's columns and the reason where they do not fit."""
        change = self._change.value
        is_gone = change["op"].isin(*_DELETED) | change["after"].isNull()
        row = f.when(is_gone, change["before"]).otherwise(change["after"])
        marked = batch.select("*", self._change.reason.alias("malformed"), row.alias("row"))
        no_key = f.greatest(
            *(f.col("row")[name].isNull() for name in [*self._keys, self._keys[0]])
        )
        reason = f.coalesce(
            "malformed",
            f.when(f.col("row").isNull() | no_key, f.lit("a change without its key")),
        )
        return marked.select(
            *BAD_COLUMNS[:-1],
            "storeSize",
            *(f.col("row")[name].alias(name) for name in self._row.names),
            f.coalesce(change[self._time], f.unix_millis("storeTimestamp")).alias(_TIME),
            f.col("queueOffset").alias(_PLACE),
            f.coalesce(is_gone, f.lit(False)).alias(GONE),  # noqa: FBT003
            reason.alias("reason"),
        )


JOB = Job("cdc", CdcOptions, run)
