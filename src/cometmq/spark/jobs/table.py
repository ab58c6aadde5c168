"""Job "table": decodes bodies to typed columns of Parquet files or a Delta table, and keeps bodies that do not fit.

For Parquet each micro-batch has its own folder `batch=RUN-N`, which a repeated micro-batch overwrites; for Delta it
is a transaction. Bodies that do not fit are written to `_bad` in the table's folder, with their origin and the reason.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, plural
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.decoding import BodyOptions, DecodedBody, decoded, typed
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import JobFolder, manifest_id
from cometmq.spark.jobs.options import cluster_addresses, option
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.streaming import counted, drain
from cometmq.spark.jobs.target import FOLDER_COLUMN, TableFiles, TargetOptions, table_files
from cometmq.spark.options import time_ms, words
from cometmq.spark.schema import check_names, column_name

BAD_FOLDER = "_bad"
BAD_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "storeTimestamp", "body", "reason",
)  # fmt: skip
_READ = "_read"
_FOLDERS = ("store", "archive")


@dataclass(frozen=True, kw_only=True)
class TableOptions(BodyOptions, FromOptions, TargetOptions):
    """Options of the job `table`, which decodes message bodies to a table of Parquet files or Delta."""

    keep: str = option(
        "Columns of the message to add to the table; their names get the prefix '_'.",
        "topic,queueId,queueOffset,msgId,storeTimestamp",
        is_what=False,
    )


def run(spark: SparkSession, options: TableOptions) -> Report:
    """Decode bodies (JSON, CSV, Avro, Protobuf) into a table: Parquet files or Delta.

    Bodies that do not fit are written to `_bad` with the reason; their number is a finding.

    Raises:
        SettingsError: An option is invalid, the schema does not fit the table, or another run may have added the messages.
    """
    check_has_driver(spark, options, "table")
    kept = list(dict.fromkeys(column_name(name) for name in words(options.keep)))
    body = decoded(options)
    check_names(body.schema, _names_of_ours(options, kept))
    if options.dry_run:
        return plan(options, read_before("table", options, options.to))
    _check_none_twice(options)
    with running("table", options, place=options.to) as this:
        stream = read_stream(spark, options, rows_max=options.rows_max)
        rows = fitting(stream, body, kept)
        files = table_files(spark, this, options, rows.schema)
        table = TableWriter(this, body, kept, files)
        drain(stream, this, options, table.write)
    return this.report(findings=rejected_findings(this, "body", "bodies"))


def _check_none_twice(options: TableOptions) -> None:
    """Raise SettingsError if a run with other options may have added the same messages to the table."""
    own = manifest_id("table", options.what())
    for other in JobFolder(options.to).all("table"):
        if other.id != own and other.counts.get("rows") and _may_share(options, other.options):
            differ = " ".join(
                f"--{name.replace('_', '-')} {as_given(other.options.get(name))}"
                for name, value in options.what().items()
                if other.options.get(name) != value
            )
            raise SettingsError(
                f"{options.to} has rows of a run with {differ}: messages that both runs read would be in it twice; "
                "repeat the options of that run, name other topics, or times that do not overlap, or use another "
                "folder"
            )


def _may_share(options: TableOptions, other: dict[str, Any]) -> bool:
    """Return whether two runs may read the same message, by origins, topics, tags and times; not by SQL conditions.

    Clusters count as the same if their lists of nameservers share an address.
    """
    if any(other.get(name, "") != options.what()[name] for name in _FOLDERS):
        return False
    if not any(getattr(options, name) for name in _FOLDERS):
        clusters = (options.nameserver, other.get("nameserver", ""))
        if cluster_addresses(clusters[0]).isdisjoint(cluster_addresses(clusters[1])):
            return False
    for name, of_all, mark in (("topic", "", ","), ("tag", "*", "||")):
        texts = (getattr(options, name), other.get(name, of_all))
        one, two = ({each.strip() for each in text.split(mark)} for text in texts)
        if of_all not in one | two and not one & two:
            return False
    begins = [
        time_ms(text, "--since") for text in (options.since, other.get("since", "")) if text
    ]
    ends = [
        time_ms(text, "--until") for text in (options.until, other.get("until", "")) if text
    ]
    return not (begins and ends and max(begins) >= min(ends))


def _names_of_ours(options: TableOptions, kept: list[str]) -> dict[str, str]:
    taken = {f"_{name}": "reserved for a column named by --keep" for name in kept}
    if options.table_format == "parquet":
        taken[FOLDER_COLUMN] = "reserved for the table's folders (unless --table-format delta)"
    return taken


def fitting(messages: DataFrame, body: DecodedBody, kept: list[str]) -> DataFrame:
    """Return the table's rows: for each message with a decodable body, kept columns (prefix "_") and the body's."""
    read = messages.withColumn(_READ, body.read).where(f"{_READ}.reason IS NULL")
    own = [f.col(name).alias(f"_{name}") for name in kept]
    return read.select(*own, *typed(f.col(_READ)["value"], body.schema))


def rejected(messages: DataFrame, body: DecodedBody) -> DataFrame:
    """Return the messages whose bodies cannot be decoded, with `BAD_COLUMNS`, which include the reason."""
    read = messages.withColumn(_READ, body.read)
    reason = f.col(_READ)["reason"].alias("reason")
    return read.select(*BAD_COLUMNS[:-1], reason).where("reason IS NOT NULL")


class TableWriter:
    """Writer of micro-batches: decoded bodies to a table, the others to the folder of rejected bodies."""

    def __init__(self, run: Run, body: DecodedBody, kept: list[str], files: TableFiles) -> None:
        self._run = run
        self._body = body
        self._kept = kept
        self._files = files

    def write(self, batch: DataFrame, number: int) -> dict[str, int]:
        """Add a micro-batch to the table; return the counts "rows" and "bytes" (all messages) and "bad" (rejected ones).

        Bodies that cannot be decoded with the schema are rejected: if there are any, the batch is read a second time to
        write them to the folder of rejected bodies.
        """
        whole, seen = counted(batch)
        rows, fit = counted(fitting(whole, self._body, self._kept))
        self._files.stage(rows, number)
        counts = seen.get()
        bad = counts["rows"] - fit.get()["rows"]
        if bad:
            write_rejected(self._run, rejected(batch, self._body), number)
        # Commit last, so that a micro-batch in the table is complete.
        self._files.commit(number)
        return {**counts, "bad": bad}


def write_rejected(run: Run, rejects: DataFrame, number: int) -> None:
    """Write the rejected messages of a micro-batch, with `BAD_COLUMNS`, to the folder of rejected bodies."""
    name = f"{BAD_FOLDER}/batch={run.short_id}-{number}"
    rejects.write.mode("overwrite").parquet(run.folder_of(name))


def rejected_findings(run: Run, one: str, many: str = "") -> list[str]:
    """Return a list with a sentence on the bodies that a job run could not read; empty if there are none.

    The sentence has their number and folder, and calls them `one` (if it is 1) or `many` (default: `one` with an s).
    """
    bad = run.manifest.counts.get("bad", 0)
    place = run.folder_of(BAD_FOLDER)
    return [f"{bad} {plural(bad, one, many)} could not be read; see {place}"] if bad else []


JOB = Job("table", TableOptions, run)
