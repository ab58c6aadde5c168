"""A table of the newest by key, kept in versions: each micro-batch makes the next out of the last.

    version=RUN-N/     the rows, one (or the last few) for each key
    _gone/version=RUN-N/   keys that were deleted, so that an older change that comes late stays out

The last two versions are kept: a reader of the one before the last can finish.

Next: cometmq.spark.jobs.run
"""

from collections.abc import Sequence

from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from cometmq.offline.place import hadoop_place, open_place
from cometmq.spark.jobs.run import Run

GONE = "is_gone"
GONE_FOLDER = "_gone"
_RANK, _DELETIONS = "_rank", "_deletions"


class NewestByKey:
    """The table.

    Args:
        run: whose micro-batches it is made of.
        place: its folder or URI.
        keys: the columns whose values are the key.
        order: of rows with one key those with the greatest win.
        last: how many rows of one key stay; a deletion deletes those before it.
        split_by: columns whose values name folders of a version instead of standing in its files.
    """

    def __init__(
        self,
        run: Run,
        place: str,
        keys: Sequence[str],
        order: Column,
        *,
        last: int = 1,
        split_by: Sequence[str] = (),
    ) -> None:
        self._last = last
        self._split_by = list(split_by)
        self._run = run
        self._place = hadoop_place(place)
        self._keys = list(keys)
        self._order = order

    @property
    def current(self) -> str | None:
        """The folder of the newest version; None before the first."""
        files = self._run.manifest.files
        return files[-1] if files else None

    def merge(self, changes: DataFrame, number: int) -> dict[str, int]:
        """Make the next version.

        Args:
            changes: rows, with a column `is_gone` that is true for a deleted key.
            number: of the micro-batch; one that comes again makes its version again.

        Returns:
            What that adds to the run's counts: "keys", and where several rows of a key can stay
            "kept", the rows.
        """
        name = f"version={self._run.short_id}-{number}"
        versions = [each for each in self._run.manifest.files if each != name]
        rows = changes
        if versions:
            rows = self._version(changes.sparkSession, versions[-1], changes).unionByName(
                changes
            )
        newest = (self._newest(rows) if self._last == 1 else self._newest_few(rows)).persist()
        try:
            for folder, is_gone in (
                (self._place, False),
                (f"{self._place}/{GONE_FOLDER}", True),
            ):
                chosen = newest.where(f.col(GONE) == f.lit(is_gone)).drop(GONE)
                writer = chosen.write.mode("overwrite")
                if self._split_by:
                    writer = writer.partitionBy(*self._split_by)
                writer.parquet(f"{folder}/{name}")
            now = self._counts(newest.where(~f.col(GONE)))
        finally:
            newest.unpersist()
        self._keep([*versions, name])
        manifest = self._run.manifest
        before = manifest.before if number == manifest.batch else manifest.counts
        return {name: count - before.get(name, 0) for name, count in now.items()}

    def _counts(self, alive: DataFrame) -> dict[str, int]:
        if self._last == 1:
            return {"keys": alive.count()}
        by_key = alive.groupBy(*self._keys).count()
        keys, kept = by_key.agg(
            f.count(f.lit(1)), f.coalesce(f.sum("count"), f.lit(0))
        ).collect()[0]
        return {"keys": keys, "kept": kept}

    def _newest(self, rows: DataFrame) -> DataFrame:
        columns = [f.col(each) for each in rows.columns if each not in self._keys]
        newest = f.max_by(f.struct(*columns), self._order).alias("newest")
        grouped = rows.groupBy(*self._keys).agg(newest)
        return grouped.select(*self._keys, "newest.*").select(*rows.columns)

    def _newest_few(self, rows: DataFrame) -> DataFrame:
        """Of each key the last rows behind its last deletion, and that, while it matters."""
        newer = Window.partitionBy(*self._keys).orderBy(self._order.desc())
        before = newer.rowsBetween(Window.unboundedPreceding, -1)
        deletions = f.coalesce(f.sum(f.col(GONE).cast("int")).over(before), f.lit(0))
        ranked = rows.withColumns({_RANK: f.row_number().over(newer), _DELETIONS: deletions})
        return ranked.where((f.col(_RANK) <= self._last) & (f.col(_DELETIONS) == 0)).select(
            *rows.columns
        )

    def _version(self, spark: SparkSession, name: str, like: DataFrame) -> DataFrame:
        schema = like.drop(GONE).schema
        # The order of the columns is that of the schema, wherever a folder names them.
        alive, gone = (
            spark.read.schema(schema).parquet(f"{folder}/{name}").select(*schema.names)
            for folder in (self._place, f"{self._place}/{GONE_FOLDER}")
        )
        return alive.withColumn(GONE, f.lit(False)).unionByName(  # noqa: FBT003
            gone.withColumn(GONE, f.lit(True))  # noqa: FBT003
        )

    def _keep(self, versions: list[str]) -> None:
        """Only the last two stay."""
        files, root = open_place(self._place)
        self._run.manifest.files = versions[-2:]
        for name in versions[:-2]:
            for folder in (f"{root}/{name}", f"{root}/{GONE_FOLDER}/{name}"):
                if files.get_file_info(folder).type == fs.FileType.Directory:
                    files.delete_dir(folder)
