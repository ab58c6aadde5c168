"""Tables over windows of time, out of a stream: a window is written when it is over.

    windows/batch=RUN-N/   the windows that were over after micro-batch N
    _open/version=RUN-N/   the rows of those that were not: what the next micro-batch begins with

A window is over when a row comes that is `late_ms` younger than its end. What comes for it even later is
not left out, as a watermark of Spark's would: it makes another row of that window, in a later folder.
All of it follows from the version before and the micro-batch, so one that runs again writes the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyarrow import fs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from cometmq.model.durations import duration_ms
from cometmq.model.errors import SettingsError
from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.streaming import FlowOptions

WINDOW = "window"
FOLDER = "windows"
_OPEN = "_open"

Chosen = Callable[[DataFrame, int], DataFrame]
"""Rows, and the time (ms) before which the windows begin that are over, into rows."""


@dataclass(frozen=True, kw_only=True)
class WindowOptions(FlowOptions):
    """Options of jobs that sum up windows of time.

    Attributes:
        window: how long one is; empty: none.
        late: with `follow`: how long a window waits for what comes late.
    """

    window: str = option("Windows of time: 30s, 5m, 1h; they follow each other.", "")
    late: str = option("With --follow: a window waits so long for what is late.", "30s")

    @property
    def window_ms(self) -> int:
        """The length of a window, ms; 0: there are none.

        Raises:
            SettingsError: it is no duration.
        """
        return duration(self.window, "--window", smallest=1) if self.window else 0

    @property
    def late_ms(self) -> int:
        """The time that a window waits for late messages, ms.

        Raises:
            SettingsError: it is no duration.
        """
        return duration(self.late, "--late", smallest=0)


def check_follow(options: WindowOptions, to: str) -> None:
    """Check that windows out of a stream have a length and a place for their table.

    Raises:
        SettingsError: there is no window, or no place for their table.
    """
    if options.follow and not (options.window_ms and to):
        raise SettingsError("--follow writes windows: say --window 5m and --to FOLDER")


def window_of(time_ms: Column, window_ms: int) -> Column:
    """The beginning of the window of a time, ms."""
    return (time_ms - f.pmod(time_ms, f.lit(window_ms))).alias(WINDOW)


class OpenWindows:
    """The windows of a run: a table of those that are over, and the rows of those that are not.

    Args:
        run: whose micro-batches they are made of.
        place: the folder or URI of the table.
        options: how long windows are and wait.
        time: by which windows are over: of a row, ms.
        table: out of all rows those of the table.
        left: out of all rows those that the next micro-batch needs.
        fold: makes rows fewer without a change to what becomes of them.
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
        """The folder of the table."""
        return f"{self._place}/{FOLDER}"

    def write(self, rows: DataFrame, number: int) -> dict[str, int]:
        """Write the windows that are over now.

        Args:
            rows: of the micro-batch.
            number: of the micro-batch; one that comes again writes its folders again.

        Returns:
            What that adds to the run's counts: "windows", rows of the table.
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
        """Windows that begin before this time are over."""
        newest = rows.agg(f.max(self._time)).collect()[0][0]
        return 0 if newest is None else floor_ms(newest - self._late_ms, self._window_ms)

    def _kept(self, like: DataFrame, name: str) -> DataFrame:
        reader = like.sparkSession.read.schema(like.schema)
        return reader.parquet(read_path(f"{self._place}/{_OPEN}/{name}"))

    def _keep(self, versions: list[str]) -> None:
        """The version before the last stays, for the micro-batch that comes again."""
        files, root = open_place(self._place)
        self._run.manifest.files = versions[-2:]
        for name in versions[:-2]:
            folder = f"{root}/{_OPEN}/{name}"
            if files.get_file_info(folder).type == fs.FileType.Directory:
                files.delete_dir(folder)


def floor_ms(time_ms: int, window_ms: int) -> int:
    """The beginning of the window of a time, ms."""
    return time_ms // window_ms * window_ms


def _save(rows: DataFrame, place: str) -> None:
    rows.coalesce(1).write.mode("overwrite").parquet(place)


def duration(text: str, name: str, *, smallest: int) -> int:
    """A duration of an option, ms.

    Raises:
        SettingsError: it is none, or too short.
    """
    try:
        found = duration_ms(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
    if found < smallest:
        raise SettingsError(f"{name} {text}: at least {smallest} ms")
    return found
