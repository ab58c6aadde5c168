"""The table that a Spark job writes: Parquet files or a Delta table, in a folder given as a path or URI."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.streaming import FlowOptions
from cometmq.spark.schema import check_gains

if TYPE_CHECKING:
    from cometmq.spark.delta import DeltaTable

TableFormat = Literal["parquet", "delta"]
FOLDER_COLUMN = "batch"  # Parquet readers treat a folder `batch=RUN-N` as a column.


@dataclass(frozen=True, kw_only=True)
class TargetOptions(FlowOptions):
    """Options of jobs that write a table: its place, and whether it is Parquet files or Delta."""

    to: str = option("Folder or URI of the table.")
    table_format: TableFormat = option(
        "Parquet files, or a Delta table (needs 'cometmq[delta]').", "parquet"
    )


class ParquetFolders:
    """Table of Parquet files with a folder per micro-batch, which is part of the table once written.

    Raises:
        SettingsError: The place holds a Delta table, or a table with a column that `schema` lacks or has with another
            type. `schema` may have further columns, which the table gains.
    """

    def __init__(self, spark: SparkSession, run: Run, place: str, schema: StructType) -> None:
        check_parquet(place)
        self._run = run
        self._place = hadoop_place(place)
        try:
            reader = spark.read.option("mergeSchema", "true")
            present = reader.parquet(read_path(self._place)).schema
        except AnalysisException:
            return  # There is no table yet.
        check_gains(
            StructType([each for each in present if each.name != FOLDER_COLUMN]), schema
        )

    def stage(self, rows: DataFrame, number: int) -> None:
        """Write or overwrite the folder of Parquet files of a micro-batch."""
        rows.write.mode("overwrite").parquet(
            f"{self._place}/{FOLDER_COLUMN}={self._run.short_id}-{number}"
        )

    def commit(self, number: int) -> None:
        """Do nothing: files in a folder are part of the table at once."""


# A table to which a job appends micro-batches: `stage` writes the rows of one, `commit` makes it part of the table.
TableFiles: TypeAlias = "ParquetFolders | DeltaTable"


def table_files(
    spark: SparkSession, run: Run, options: TargetOptions, schema: StructType
) -> TableFiles:
    """Return the table to which a job appends; raise SettingsError if it is unusable or the Delta package is missing."""
    if options.table_format == "parquet":
        return ParquetFolders(spark, run, options.to, schema)
    from cometmq.spark.delta import DeltaTable  # Needs packages of an extra.

    return DeltaTable(options.to, schema, run.checkpoint)


def check_parquet(place: str) -> None:
    """Raise SettingsError if a folder is a Delta table, whose readers would not see added Parquet files."""
    files, root = open_place(place)
    if files.get_file_info(f"{root}/_delta_log").type == fs.FileType.Directory:
        raise SettingsError(
            f"{place} is a Delta table: add --table-format delta, or use another folder"
        )
