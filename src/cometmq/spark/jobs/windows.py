"""Tables over time windows of a stream; a window is written when it is closed.

    windows/batch=RUN-N/   the windows that were closed after micro-batch N
    _open/version=RUN-N/   rows that the next micro-batch needs, mainly of open windows

A window is closed when a row arrives that is `late_ms` newer than its end. Rows that arrive even later become
another row of that window in a later folder; Spark's own watermark would drop them.
The output depends only on the previous version and the micro-batch, so a repeated one writes the same rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyarrow import fs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from cometmq.model.durations import duration_ms
from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.streaming import FlowOptions

WINDOW = "window"
FOLDER = "windows"
_OPEN = "_open"

Chosen = Callable[[DataFrame, int], DataFrame]
"""Rows, and the time (ms) before which the windows begin that are over, into rows."""


@dataclass(frozen=True, kw_only=True)
class WindowOptions(FlowOptions):
    """Options of jobs with time windows: their length, and how long they wait for late messages."""

    window: str = option("Length of the time windows: 30s, 5m, 1h.", "")
    late: str = option("With --follow: how long a window waits for late messages.", "30s")

    @property
    def window_ms(self) -> int:
        """Length of a time window in ms, 0 without the option; raises SettingsError if it is no duration above 0."""
        return duration(self.window, "--window", smallest=1) if self.window else 0

    @property
    def late_ms(self) -> int:
        """Time in ms that a window waits for late messages; raises SettingsError if the option is not a duration."""
        return duration(self.late, "--late", smallest=0)


def check_follow(options: WindowOptions, to: str) -> None:
    """Raise SettingsError for the option `follow` without a window length or a place for the table."""
    if options.follow and not (options.window_ms and to):
        raise SettingsError("--follow writes windows: add --window, like 5m, and --to FOLDER")


def window_of(time_ms: Column, window_ms: int) -> Column:
    """Return a column "window" with the start of the window that contains a time; times and length are in ms."""
    return (time_ms - f.pmod(time_ms, f.lit(window_ms))).alias(WINDOW)


class OpenWindows:
    """Time windows of a run: a Parquet table of the closed ones, and rows for the open ones.

    Args:
        run: Run that processes the micro-batches.
        place: Folder or URI that has the table in its folder `windows`.
        options: Length and waiting time of windows.
        time: Time of a row in ms, by which windows are closed.
        table: Computes the rows of the table from all rows.
        left: Selects the rows that the next micro-batch needs.
        fold: Reduces the number of rows without changing the result.
    """

    def __init__(
        self,
        run: Run,
        place: str,
        options: WindowOptions,
        *,
        time: Column,
        table: Chosen,
        left: Chosen,
        fold: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    ) -> None:
        self._run = run
        self._place = hadoop_place(place)
        self._window_ms, self._late_ms = options.window_ms, options.late_ms
        self._time = time
        self._table, self._left, self._fold = table, left, fold

    @property
    def place(self) -> str:
        """Path or URI of the folder with the table of closed windows."""
        return f"{self._place}/{FOLDER}"

    def write(self, rows: DataFrame, number: int) -> dict[str, int]:
        """Write the rows of closed windows, and keep those that later micro-batches need, such as rows of open windows.

        Rows for a window that was written before become further rows. A repeated micro-batch overwrites its folders.

        Returns:
            Count to add to the run's counts: "windows", the rows written to the table.
        """
        name = f"version={self._run.short_id}-{number}"
        versions = [each for each in self._run.manifest.files if each != name]
        if versions:
            rows = self._kept(rows, versions[-1]).unionByName(rows)
        whole = self._fold(rows).persist()
        try:
            over_ms = self._over_ms(whole)
            batch = f"batch={self._run.short_id}-{number}"
            done = self._table(whole, over_ms).persist()
            count = done.count()
            if count:
                _save(done, f"{self.place}/{batch}")
            done.unpersist()
            _save(self._left(whole, over_ms), f"{self._place}/{_OPEN}/{name}")
        finally:
            whole.unpersist()
        self._keep([*versions, name])
        return {"windows": count}

    def _over_ms(self, rows: DataFrame) -> int:
        """Return the time in ms before which the closed windows begin; 0 without rows."""
        newest = rows.agg(f.max(self._time)).collect()[0][0]
        return 0 if newest is None else floor_ms(newest - self._late_ms, self._window_ms)

    def _kept(self, like: DataFrame, name: str) -> DataFrame:
        reader = like.sparkSession.read.schema(like.schema)
        return reader.parquet(read_path(f"{self._place}/{_OPEN}/{name}"))

    def _keep(self, versions: list[str]) -> None:
        """Delete all but the last two versions of the open windows' rows: a repeated batch needs the previous one."""
        files, root = open_place(self._place)
        self._run.manifest.files = versions[-2:]
        for name in versions[:-2]:
            folder = f"{root}/{_OPEN}/{name}"
            if files.get_file_info(folder).type == fs.FileType.Directory:
                files.delete_dir(folder)


def floor_ms(time_ms: int, window_ms: int) -> int:
    """Return the start in ms of the window that contains a time."""
    return time_ms // window_ms * window_ms


def _save(rows: DataFrame, place: str) -> None:
    rows.coalesce(1).write.mode("overwrite").parquet(place)


def duration(text: str, name: str, *, smallest: int) -> int:
    """Parse a duration into ms; raise SettingsError, with the option's name, if invalid or below `smallest` ms."""
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
    if found < smallest:
        raise SettingsError(f"{name} {text}: it must be at least {smallest} ms")
    return found
