"""A table of the newest by key, kept in versions: a micro-batch costs what it changes, a version the whole table.

    version=RUN-N/     the rows, one (or the last few) for each key
    _gone/version=RUN-N/   keys that were deleted, so that an older change that comes late stays out
    _changes/RUN-N/    changes since the newest version, a folder for each micro-batch
    _spark_metadata/   the files of the newest version, by which `spark.read` of the folder goes

The next version is made out of the last and the changes since when these are a share of it, when it is
old, and when the run ends; of a small table by each micro-batch. The last two versions are kept: a reader of
the one before the last can finish.
"""

from collections.abc import Callable, Sequence
from time import monotonic

from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from cometmq.offline.place import hadoop_place, open_place
from cometmq.spark.jobs.file_list import list_only
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.target import check_parquet

GONE = "is_gone"
GONE_FOLDER = "_gone"
CHANGES_FOLDER = "_changes"
_VERSION = "version="
# A version is written anew for a tenth of it: what a change costs is at most ten times its own bytes, and
# a reader of a version and the changes since reads a tenth more.
_SHARE = 10
_SMALL_BYTES = 8_000_000  # Written within the second that a micro-batch takes anyhow.
_FRESH_S = 600  # How old a version may be when a micro-batch comes.
_FOLDERS_MAX = 200  # Folders of changes: each is listed by the next version.
_RANK, _DELETIONS = "_rank", "_deletions"


class NewestByKey:
    """A Parquet table of the newest rows of each key, in versions.

    Args:
        run: whose micro-batches it is made of.
        place: its folder or URI.
        keys: the columns whose values are the key.
        order: of rows with one key those with the greatest win.
        last: how many rows of one key stay; a deletion deletes those before it.
        split_by: columns whose values name folders of a version instead of standing in its files.
        clock: tells seconds.

    Raises:
        SettingsError: the place holds a Delta table.
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
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._last = last
        self._split_by = list(split_by)
        self._run = run
        check_parquet(place)
        self._place = hadoop_place(place)
        self._keys = list(keys)
        self._order = order
        self._clock = clock
        self._made_at = clock()

    @property
    def current(self) -> str | None:
        """The folder of the newest version; None before the first."""
        return next((each for each in reversed(self._kept) if _is_version(each)), None)

    @property
    def _kept(self) -> list[str]:
        """Versions, and behind each the changes since, in the order of their micro-batches."""
        return self._run.manifest.files

    def merge(self, changes: DataFrame, number: int) -> dict[str, int]:
        """Keep the changes of a micro-batch, and make the next version where it is time for one.

        Args:
            changes: rows, with a column `is_gone` that is true for a deleted key.
            number: of the micro-batch; one that comes again makes its files again.

        Returns:
            What a version adds to the run's counts: "keys", and where several rows of a key can stay
            "kept", the rows.
        """
        name = f"{self._run.short_id}-{number}"
        own = (f"{_VERSION}{name}", f"{CHANGES_FOLDER}/{name}")
        self._run.manifest.files = [each for each in self._kept if each not in own]
        if not self._is_due():
            self._reduced(changes).write.mode("overwrite").parquet(f"{self._place}/{own[1]}")
            self._run.manifest.files = [*self._kept, own[1]]
            return {}
        manifest = self._run.manifest
        before = manifest.before if number == manifest.batch else manifest.counts
        now = self._make_version(changes, self._waiting, own[0])
        return {name: count - before.get(name, 0) for name, count in now.items()}

    def finish(self, spark: SparkSession) -> None:
        """Make a version of the changes that wait for one."""
        if waiting := self._waiting:
            last = spark.read.parquet(f"{self._place}/{waiting[-1]}")
            name = waiting[-1].replace(f"{CHANGES_FOLDER}/", _VERSION)
            self._run.manifest.counts |= self._make_version(last, waiting[:-1], name)
            self._run.save()

    @property
    def _waiting(self) -> list[str]:
        """The folders of changes since the newest version."""
        kept = self._kept
        made = [place for place, each in enumerate(kept) if _is_version(each)]
        return kept[made[-1] + 1 :] if made else []

    def _is_due(self) -> bool:
        """Whether the next micro-batch makes a version."""
        current, waiting = self.current, self._waiting
        if current is None or len(waiting) >= _FOLDERS_MAX:
            return True
        if self._clock() - self._made_at >= _FRESH_S:
            return True
        since = sum(map(self._size, waiting))
        return self._size(current) <= _SMALL_BYTES + _SHARE * since

    def _is_there(self, name: str) -> bool:
        files, root = open_place(self._place)
        return bool(files.get_file_info(f"{root}/{name}").type == fs.FileType.Directory)

    def _size(self, name: str) -> int:
        files, root = open_place(self._place)
        wanted = fs.FileSelector(f"{root}/{name}", recursive=True, allow_not_found=True)
        return sum(each.size or 0 for each in files.get_file_info(wanted))

    def _make_version(
        self, changes: DataFrame, waiting: Sequence[str], name: str
    ) -> dict[str, int]:
        """Write a version of the last one, the changes that wait, and these; gives what it holds."""
        rows = changes
        if (current := self.current) is not None:
            rows = self._version(changes.sparkSession, current, changes).unionByName(changes)
        if waiting:
            paths = [f"{self._place}/{each}" for each in waiting]
            since = changes.sparkSession.read.schema(changes.schema).parquet(*paths)
            rows = rows.unionByName(since)
        newest = self._reduced(rows).persist()
        if self._is_there(name):
            # A micro-batch that comes again writes its version anew: nobody may be sent there meanwhile.
            list_only(self._place, self.current)
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
            counts = self._counts(newest.where(~f.col(GONE)))
        finally:
            newest.unpersist()
        list_only(self._place, name)
        self._keep([*self._kept, name])
        self._made_at = self._clock()
        return counts

    def _reduced(self, rows: DataFrame) -> DataFrame:
        """The rows that stay: of each key the newest, or the last few."""
        if self._last == 1:
            return newest_by_key(rows, self._keys, self._order)
        return self._newest_few(rows)

    def _counts(self, alive: DataFrame) -> dict[str, int]:
        if self._last == 1:
            return {"keys": alive.count()}
        by_key = alive.groupBy(*self._keys).count()
        keys, kept = by_key.agg(
            f.count(f.lit(1)), f.coalesce(f.sum("count"), f.lit(0))
        ).collect()[0]
        return {"keys": keys, "kept": kept}

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

    def _keep(self, kept: list[str]) -> None:
        """Keep the last two versions, and the changes between: the last micro-batch may come again."""
        made = [place for place, each in enumerate(kept) if _is_version(each)]
        first = made[-2] if len(made) > 1 else 0
        files, root = open_place(self._place)
        self._run.manifest.files = kept[first:]
        for name in kept[:first]:
            for folder in (f"{root}/{name}", f"{root}/{GONE_FOLDER}/{name}"):
                if files.get_file_info(folder).type == fs.FileType.Directory:
                    files.delete_dir(folder)


def newest_by_key(rows: DataFrame, keys: Sequence[str], order: Column) -> DataFrame:
    """Of the rows with one key that with the greatest order."""
    columns = [f.col(each) for each in rows.columns if each not in keys]
    newest = f.max_by(f.struct(*columns), order).alias("newest")
    grouped = rows.groupBy(*keys).agg(newest)
    return grouped.select(*keys, "newest.*").select(*rows.columns)


def _is_version(name: str) -> bool:
    return name.startswith(_VERSION)
