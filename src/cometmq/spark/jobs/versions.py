"""A table of the newest by key, kept in versions: each micro-batch makes the next out of the last.

    version=RUN-N/     the rows, one for each key
    _gone/version=RUN-N/   keys that were deleted, so that an older change that comes late stays out

The last two versions are kept: a reader of the one before the last can finish.

Next: cometmq.spark.jobs.run
"""

from collections.abc import Sequence

from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs.manifest import absolute, file_system
from cometmq.spark.jobs.run import Run

GONE = "is_gone"
GONE_FOLDER = "_gone"


class NewestByKey:
    """The table.

    Args:
        run: whose micro-batches it is made of.
        place: its folder or URI.
        keys: the columns whose values are the key.
        order: of rows with one key the one with the greatest wins.
    """

    def __init__(self, run: Run, place: str, keys: Sequence[str], order: Column) -> None:
        self._run = run
        self._place = absolute(place)
        self._keys = list(keys)
        self._order = order

    @property
    def current(self) -> str | None:
        """The folder of the newest version; None before the first."""
        files = self._run.manifest.files
        return files[-1] if files else None

    def merge(self, changes: DataFrame, number: int) -> int:
        """Make the next version.

        Args:
            changes: rows, with a column `is_gone` that is true for a deleted key.
            number: of the micro-batch; one that comes again makes its version again.

        Returns:
            How many rows the table has now.
        """
        name = f"version={self._run.short_id}-{number}"
        versions = [each for each in self._run.manifest.files if each != name]
        rows = changes
        if versions:
            rows = self._version(changes.sparkSession, versions[-1], changes).unionByName(
                changes
            )
        columns = [f.col(each) for each in changes.columns if each not in self._keys]
        newest = rows.groupBy(*self._keys).agg(
            f.max_by(f.struct(*columns), self._order).alias("newest")
        )
        newest = newest.select(*self._keys, "newest.*").select(*changes.columns).persist()
        try:
            for folder, is_gone in (
                (self._place, False),
                (f"{self._place}/{GONE_FOLDER}", True),
            ):
                chosen = newest.where(f.col(GONE) == f.lit(is_gone)).drop(GONE)
                chosen.write.mode("overwrite").parquet(f"{folder}/{name}")
            alive = newest.where(~f.col(GONE)).count()
        finally:
            newest.unpersist()
        self._keep([*versions, name])
        return alive

    def _version(self, spark: SparkSession, name: str, like: DataFrame) -> DataFrame:
        schema = like.drop(GONE).schema
        alive = spark.read.schema(schema).parquet(f"{self._place}/{name}")
        gone = spark.read.schema(schema).parquet(f"{self._place}/{GONE_FOLDER}/{name}")
        return alive.withColumn(GONE, f.lit(False)).unionByName(  # noqa: FBT003
            gone.withColumn(GONE, f.lit(True))  # noqa: FBT003
        )

    def _keep(self, versions: list[str]) -> None:
        """Only the last two stay."""
        files, root = file_system(self._place)
        self._run.manifest.files = versions[-2:]
        for name in versions[:-2]:
            for folder in (f"{root}/{name}", f"{root}/{GONE_FOLDER}/{name}"):
                if files.get_file_info(folder).type == fs.FileType.Directory:
                    files.delete_dir(folder)
