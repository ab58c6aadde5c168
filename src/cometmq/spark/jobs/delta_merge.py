"""Delta table of the newest row by key: merging a micro-batch rewrites the files that contain its keys.

    …                  the table: one row for each key
    _gone/             Delta table of deleted keys, so that an older change that arrives late is ignored

Deletions are recorded before the table changes. If a run is killed in between, the repeated
micro-batch skips the merge that is already committed.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from cometmq.model.errors import SettingsError
from cometmq.spark.delta import DeltaTable, quoted, read_delta
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.versions import GONE, GONE_FOLDER, newest_by_key

# Every merge leaves obsolete files behind. Readers that still use them have a day to finish.
_PROPERTIES = {"delta.deletedFileRetentionDuration": "interval 1 days"}
_TIDY_EVERY = 100  # micro-batches
_NO_MERGE = set("[]^|\\")  # delta-rs (1.6.6) uses the path as a host name.


class DeltaMerge:
    """Delta table of the newest row of each key: the one that is last if rows are sorted by the columns `order`.

    Raises:
        SettingsError: The place cannot be merged into, or holds something else or a table that does not fit.
    """

    def __init__(
        self,
        run: Run,
        place: str,
        schema: StructType,
        keys: Sequence[str],
        order: Sequence[str],
    ) -> None:
        self._run = run
        self._keys = list(keys)
        self._order = list(order)
        if wrong := _NO_MERGE & set(place):
            raise SettingsError(
                f"{place}: delta-rs cannot merge into a folder with {' '.join(sorted(wrong))} in its path; "
                "name another folder, or write Parquet"
            )
        kept = [*self._keys, *self._order]
        gone = StructType([each for each in schema.fields if each.name in kept])
        self._rows = DeltaTable(place, schema, run.checkpoint, _PROPERTIES)
        self._gone = DeltaTable(f"{place}/{GONE_FOLDER}", gone, run.checkpoint, _PROPERTIES)

    @property
    def current(self) -> str:
        """Place of the Delta table: a folder or URI."""
        return self._rows.place

    def merge(self, changes: DataFrame, number: int) -> dict[str, int]:
        """Merge a micro-batch's changes (true in `_is_gone`: deletions) into the table, unless that is already done.

        Returns {"keys": n}; the caller adds n to the run's count "keys", which is then the table's number of rows.
        Every 100th micro-batch also compacts files and deletes obsolete ones after the time that the table sets: a day if this
        job made it.
        """
        # One change can delete a key and set the same key; then setting it wins.
        order = f.struct(*self._order, ~f.col(GONE))
        newest = self._without_late(newest_by_key(changes, self._keys, order))
        self._merge(newest.toArrow(), number)
        if number % _TIDY_EVERY == _TIDY_EVERY - 1:
            self._tidy_up()
        manifest = self._run.manifest
        before = manifest.before if number == manifest.batch else manifest.counts
        return {"keys": self._rows.lake.count() - before.get("keys", 0)}

    def finish(self, spark: SparkSession) -> None:
        """Do nothing: each micro-batch is already merged."""

    def _without_late(self, changes: DataFrame) -> DataFrame:
        """Return the changes without those older than the deletion of their key."""
        if not self._gone.lake.count():
            return changes
        gone = read_delta(changes.sparkSession, self._gone.place)
        same = [changes[name] == gone[name] for name in self._keys]
        newer = f.struct(*(gone[name] for name in self._order)) > f.struct(
            *(changes[name] for name in self._order)
        )
        return changes.join(gone, [*same, newer], "left_anti")

    def _merge(self, changes: pa.Table, number: int) -> None:
        same = " AND ".join(f"s.{name} = t.{name}" for name in map(quoted, self._keys))
        # A row that is read again, by a run with another schema, may have an additional column.
        newer, as_new = self._newer(), self._newer(or_same=True)
        is_gone = f"s.{quoted(GONE)}"
        deletions = changes.select([*self._keys, *self._order, GONE])
        for table, rows, inserted, updated, deleted in (
            (self._gone, deletions, is_gone, is_gone, f"NOT {is_gone}"),
            (self._rows, changes, f"NOT {is_gone}", f"NOT {is_gone}", is_gone),
        ):
            if table.has(number):
                continue
            merger = table.lake.merge(
                rows,
                same,
                source_alias="s",
                target_alias="t",
                streamed_exec=False,  # Few changes: files with none of their keys are skipped.
                commit_properties=table.transaction(number),
            )
            (
                merger.when_matched_delete(f"{newer} AND {deleted}")
                .when_matched_update_all(f"{as_new} AND {updated}", except_cols=[GONE])
                .when_not_matched_insert_all(inserted, except_cols=[GONE])
                .execute()
            )

    def _newer(self, *, or_same: bool = False) -> str:
        """Return SQL that is true if the change `s` is newer than the table's row `t`, with `or_same` also if equal."""
        equal: list[str] = []
        ways = []
        for name in map(quoted, self._order):
            ways.append(" AND ".join([*equal, f"s.{name} > t.{name}"]))
            equal.append(f"s.{name} = t.{name}")
        if or_same:
            ways.append(" AND ".join(equal))
        return f"({' OR '.join(f'({each})' for each in ways)})"

    def _tidy_up(self) -> None:
        """Compact small files; delete files obsolete for longer than the table allows (a day if this job made it)."""
        for table in (self._rows, self._gone):
            table.lake.optimize.compact()
            table.lake.vacuum(dry_run=False)
