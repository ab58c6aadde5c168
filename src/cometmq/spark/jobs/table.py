"""The job "table": bodies become typed columns of Parquet files; those that do not fit are kept.

Each micro-batch has a folder of its own, `batch=RUN-N`, so one that runs again writes over itself.
Bodies that do not fit lie beside the table, in `_bad`, with where they came from and the reason.

Next: cometmq.spark.jobs.decoding
"""

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place
from cometmq.spark.jobs.decoding import BodyOptions, Decoded, decoded
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.streaming import FlowOptions, counted, drain
from cometmq.spark.schema import column_name

BAD_FOLDER = "_bad"
BAD_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "storeTimestamp", "body", "reason",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TableOptions(BodyOptions, FromOptions, FlowOptions):
    """Options of the job `table`.

    Attributes:
        to: the table's folder or URI.
        keep: columns of the message that go into the table; their names get a "_" in front.
    """

    to: str = option("The table's folder or URI.")
    keep: str = option(
        "The message's own columns in the table, with '_' in front of their names.",
        "topic,queueId,queueOffset,msgId,storeTimestamp",
        is_what=False,
    )


def run(spark: SparkSession, options: TableOptions) -> Report:
    """Decode bodies (JSON, CSV, Avro, Protobuf) into a table of Parquet files.

    Raises:
        SettingsError: a schema that is none or does not fit the table that is there.
    """
    if options.dry_run:
        return plan(options, read_before("table", options, options.to))
    kept = [column_name(name) for name in options.keep.split(",") if name.strip()]
    body = decoded(options, f.col("body"))
    with running("table", options, place=options.to) as this:
        stream = read_stream(spark, options, rows_max=options.rows_max)
        table = Table(this, body, kept, hadoop_place(options.to))
        _check_evolution(spark, options.to, table.of(stream).schema)
        drain(stream, this, options, table.write)
    return _report(this)


class Table:
    """Writes micro-batches.

    Args:
        run: whose batches they are.
        body: how bodies are decoded.
        kept: columns of the message that stay.
        place: the table's folder.
    """

    def __init__(self, run: Run, body: Decoded, kept: list[str], place: str) -> None:
        self._run = run
        self._body = body
        self._kept = kept
        self._place = place

    def of(self, messages: DataFrame) -> DataFrame:
        """The table's rows: those whose bodies fit."""
        marked = messages.withColumn("reason", self._body.reason)
        return marked.where("reason IS NULL").select(*self._columns())

    def write(self, batch: DataFrame, number: int) -> dict[str, int]:
        """Write a micro-batch; where some bodies do not fit it is read once more for them."""
        name = f"batch={self._run.short_id}-{number}"
        whole, seen = counted(batch)
        fitting, fit = counted(self.of(whole))
        fitting.write.mode("overwrite").parquet(f"{self._place}/{name}")
        bad = seen.get["rows"] - fit.get["rows"]
        if bad:
            marked = batch.withColumn("reason", self._body.reason).where("reason IS NOT NULL")
            rejects = marked.select(*BAD_COLUMNS)
            rejects.write.mode("overwrite").parquet(f"{self._place}/{BAD_FOLDER}/{name}")
        return {**seen.get, "bad": bad}

    def _columns(self) -> list[Column]:
        kept = [f.col(name).alias(f"_{name}") for name in self._kept]
        return [*kept, *(self._body.value[name].alias(name) for name in self._body.names)]


def _check_evolution(spark: SparkSession, place: str, schema: StructType) -> None:
    """A table only gains columns: readers of the old files and of the new must agree.

    Raises:
        SettingsError: a column that is there has another type now, or none.
    """
    try:
        present = spark.read.option("mergeSchema", "true").parquet(hadoop_place(place)).schema
    except AnalysisException:
        return  # Nothing is there yet.
    wanted = {each.name: each.dataType for each in schema.fields}
    for each in present.fields:
        if each.name == "batch":
            continue
        if wanted.get(each.name) != each.dataType:
            now = wanted.get(each.name)
            raise SettingsError(
                f"the table has {each.name} {each.dataType.simpleString()}, the schema has "
                f"{'no such column' if now is None else now.simpleString()}; columns can only be "
                "added: take another folder"
            )


def _report(this: Run) -> Report:
    bad = this.manifest.counts.get("bad", 0)
    findings = [f"{bad} bodies did not fit: {this.folder_of(BAD_FOLDER)}"] if bad else []
    return Report(counts=this.manifest.counts, findings=findings)


JOB = Job("table", TableOptions, run)
