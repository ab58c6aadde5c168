"""The least job of Spark with a Python source, without anything of ours: what a job's start cannot be shorter than."""

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class TwoRowsReader(DataSourceReader):
    """Reads them."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One batch."""
        del partition
        yield pa.record_batch({"text": ["a", "b"]})


class TwoRows(DataSource):
    """Two rows of one column."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "two-rows"

    def schema(self) -> str:
        """One text."""
        return "text string"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads them."""
        del schema
        return TwoRowsReader()


def main() -> None:
    """Count them."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("bare").master("local[2]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(TwoRows)
    spark.read.format("two-rows").load().createOrReplaceTempView("messages")
    print(spark.sql("SELECT count(*) AS rows FROM messages").collect())
    spark.stop()


if __name__ == "__main__":
    main()
