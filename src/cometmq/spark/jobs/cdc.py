"""Job "cdc": turns change messages into a table of the current rows.

A message is a change in Debezium's format (`changes`). The newest change of a key wins, in any order of arrival.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructType

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, in_quotes
from cometmq.offline.columns.names import nearest
from cometmq.spark.jobs.body_forms import value_and_reason
from cometmq.spark.jobs.changes import CHANGES, IS_GONE, ROW, TIME, ChangeBodies
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.decoding import schema_of, typed
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import JobFolder
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.streaming import counted, drain
from cometmq.spark.jobs.table import BAD_COLUMNS, rejected_findings, write_rejected
from cometmq.spark.jobs.target import TargetOptions
from cometmq.spark.jobs.text_values import without_rules
from cometmq.spark.jobs.versions import GONE, TAKEN, NewestByKey
from cometmq.spark.options import words
from cometmq.spark.schema import check_names

if TYPE_CHECKING:
    from cometmq.spark.jobs.delta_merge import DeltaMerge

_TIME = "_ts"
_PLACE = "_offset"
_READ = "_read"
_OURS = {
    _TIME: "reserved for the time of a row's last change",
    _PLACE: "reserved for the position of a row's last change",
    **TAKEN,
}


@dataclass(frozen=True, kw_only=True)
class CdcOptions(FromOptions, TargetOptions):
    """Options of the job `cdc`, which turns change messages (Debezium) into a table of the current rows."""

    schema: str = option("Columns of a row, such as 'id BIGINT, name STRING', or a file.")
    key: str = option("The primary key columns, separated by commas.")
    ts: str = option(
        "The field with the time of a change, a number; 'source.ts_ms' for a nested field; '' for the store time.",
        "ts_ms",
    )


def run(spark: SparkSession, options: CdcOptions) -> Report:
    """Turn change messages (Debezium's JSON) into a table of the current rows.

    The change of a key with the latest time, then the highest queue offset, wins. Messages that cannot be decoded are
    written to `_bad` with the reason; their number is a finding.

    Raises:
        SettingsError: An option is wrong, or does not fit the folder's table; or the session is of Spark Connect.
    """
    check_has_driver(spark, options, "cdc")
    row = schema_of(options.schema)
    check_names(row, _OURS)
    keys = list(dict.fromkeys(name.strip() for name in options.key.split(",")))
    for name in keys:
        if name not in row.fieldNames():
            raise SettingsError(
                f"--key: the schema has no column {in_quotes(name)}{nearest(name, row.names)}"
            )
    changes = ChangeDecoder(options, row, keys)
    if options.dry_run:
        return plan(options, read_before("cdc", options, options.to))
    _check_made_alike(options)
    with running("cdc", options, place=options.to, is_alone=True) as this:
        table = _table(spark, this, options, row, keys)

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            whole, seen = counted(changes.read(batch))
            fitting, fit = counted(whole.where("reason IS NULL"))
            added = table.merge(changes.rows(fitting), number)
            counts = seen.get()
            bad = counts["rows"] - fit.get()["rows"]
            if bad:
                rejects = changes.read(batch).where("reason IS NOT NULL").select(*BAD_COLUMNS)
                write_rejected(this, rejects, number)
            return {**counts, **added, "bad": bad}

        drain(read_stream(spark, options, rows_max=options.rows_max), this, options, write)
        table.finish(spark)
    findings = rejected_findings(this, "change")
    return this.report(findings=findings, notes=[f"the table: {table.current}"])


def _check_made_alike(options: CdcOptions) -> None:
    """Raise SettingsError if an earlier run wrote rows to the place with another key or time field."""
    for other in JobFolder(options.to).all("cdc"):
        has_rows = other.counts.get("rows", 0) > other.counts.get("bad", 0)
        for name in ("key", "ts"):
            before, now = other.options.get(name, ""), getattr(options, name)
            if has_rows and {*words(before)} != {*words(now)}:
                raise SettingsError(
                    f"{options.to} was created with --{name} {as_given(before)}, not {as_given(now)}: use another "
                    "folder"
                )


def _table(
    spark: SparkSession, run: Run, options: CdcOptions, row: StructType, keys: list[str]
) -> "NewestByKey | DeltaMerge":
    schema = StructType([*without_rules(row)]).add(_TIME, LongType()).add(_PLACE, LongType())
    if options.table_format == "parquet":
        table = NewestByKey(run, options.to, keys, f.struct(_TIME, _PLACE))
        table.check(spark, schema)
        return table
    from cometmq.spark.jobs.delta_merge import DeltaMerge  # Needs packages of an extra.

    return DeltaMerge(run, options.to, schema, keys, (_TIME, _PLACE))


class ChangeDecoder:
    """Decoder of change messages; creating one raises SettingsError for a column type that JSON values cannot have."""

    def __init__(self, options: CdcOptions, row: StructType, keys: Sequence[str]) -> None:
        self._row = row
        self._form = ChangeBodies(row, tuple(keys), options.ts)

    def read(self, batch: DataFrame) -> DataFrame:
        """Return a row for each message, with its decoded changes or the reason why it cannot be decoded."""
        read = batch.withColumn(_READ, value_and_reason(self._form, f.col("body")))
        found = f.col(_READ)
        return read.select(
            *BAD_COLUMNS[:-1],
            "storeSize",
            found["value"][CHANGES].alias(CHANGES),
            found["reason"].alias("reason"),
        )

    def rows(self, fitting: DataFrame) -> DataFrame:
        """Return a row for each change in decoded messages: columns of the row, time, queue offset, and whether it deletes."""
        change = f.col(_READ)
        each = fitting.select("storeTimestamp", "queueOffset", f.explode(CHANGES).alias(_READ))
        return each.select(
            *typed(change[ROW], self._row),
            f.coalesce(change[TIME], f.unix_millis("storeTimestamp")).alias(_TIME),
            f.col("queueOffset").alias(_PLACE),
            change[IS_GONE].alias(GONE),
        )


JOB = Job("cdc", CdcOptions, run)
