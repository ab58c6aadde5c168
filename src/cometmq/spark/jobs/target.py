"""The place of a table that a job makes, and the form that the table has there."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.streaming import FlowOptions
from cometmq.spark.schema import check_gains

TableFormat = Literal["parquet", "delta"]
FOLDER_COLUMN = "batch"  # Readers of Parquet take a folder `batch=RUN-N` for a column.


@dataclass(frozen=True, kw_only=True)
class TargetOptions(FlowOptions):
    """Options of jobs that make a table.

    Attributes:
        to: the table's folder or URI.
        table_format: what the table is.
    """

    to: str = option("The table's folder or URI.")
    table_format: TableFormat = option(
        "Files of Parquet, or a Delta table (needs 'cometmq[delta]').", "parquet"
    )


class TableFiles(Protocol):
    """A table that rows are appended to, micro-batch by micro-batch."""

    def stage(self, rows: DataFrame, number: int) -> None:
        """Write the rows of a micro-batch; one that comes again replaces what it wrote."""

    def commit(self, number: int) -> None:
        """Make a micro-batch part of the table, once."""


class ParquetFolders:
    """A table of Parquet files in a folder for each micro-batch: part of the table once they are written.

    Args:
        spark: reads what is there.
        run: whose micro-batches they are.
        place: the table's folder or URI.
        schema: of the rows.

    Raises:
        SettingsError: the place holds a Delta table, or one with other columns.
    """

    def __init__(self, spark: SparkSession, run: Run, place: str, schema: StructType) -> None:
        check_parquet(place)
        self._run = run
        self._place = hadoop_place(place)
        try:
            reader = spark.read.option("mergeSchema", "true")
            present = reader.parquet(read_path(self._place)).schema
        except AnalysisException:
            return  # Nothing is there yet.
        check_gains(
            StructType([each for each in present if each.name != FOLDER_COLUMN]), schema
        )

    def stage(self, rows: DataFrame, number: int) -> None:
        """Write the folder of a micro-batch, or write it anew."""
        rows.write.mode("overwrite").parquet(
            f"{self._place}/{FOLDER_COLUMN}={self._run.short_id}-{number}"
        )

    def commit(self, number: int) -> None:
        """Do nothing: files in a folder are part of the table at once."""


def table_files(
    spark: SparkSession, run: Run, options: TargetOptions, schema: StructType
) -> TableFiles:
    """The table that a job appends to.

    Raises:
        SettingsError: the place holds something else, or there is nothing to write Delta tables with.
    """
    if options.table_format == "parquet":
        return ParquetFolders(spark, run, options.to, schema)
    from cometmq.spark.delta import DeltaTable  # An extra brings what it needs.

    return DeltaTable(options.to, schema, run.checkpoint)


def check_parquet(place: str) -> None:
    """Refuse a folder in which files of Parquet are not read by their names.

    Raises:
        SettingsError: it holds a Delta table, whose readers would not see them.
    """
    files, root = open_place(place)
    if files.get_file_info(f"{root}/_delta_log").type == fs.FileType.Directory:
        raise SettingsError(
            f"{place} holds a Delta table: --table-format delta, or take another folder"
        )
