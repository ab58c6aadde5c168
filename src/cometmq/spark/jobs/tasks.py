"""Jobs as Spark tasks over parts of a store or of topics; the manifest records finished parts for a resumed run.

The manifest, if any, is written after each wave of tasks: after a kill, only parts of one wave are repeated. The
tasks read and write files themselves and return a few rows: messages do not pass through the JVM.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.offline.plan import Task, by_name, log_size
from cometmq.spark.jobs.connect_session import is_connect
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.run import Run

if TYPE_CHECKING:
    from cometmq.spark.source.planning import PlannedRange

_WAVE = 4  # Tasks per core between two writes of the manifest.
_RANGE_COLUMNS = ("topic", "broker", "queue", "from", "to", "rows")

Part = TypeVar("Part")
Row = list[Any]


def run_tasks(
    spark: SparkSession,
    run: Run,
    parts: Mapping[str, Part],
    work: Callable[[Part], list[Row]],
    *,
    size_of: Callable[[Part], int],
    rows_of: Callable[[list[Row]], int] = lambda _: 0,
    rows_total: int | None = None,
) -> list[Row]:
    """Process the parts of a job's input in Spark tasks, except the parts that the manifest records as finished.

    Args:
        spark: Spark session.
        run: Run of the job.
        parts: All parts, by names that are the same in every run.
        work: Processes a part on an executor; returns rows that JSON can represent.
        size_of: Returns the size of a part, mostly in bytes, for the progress.
        rows_of: Returns the number of messages in the rows of a part, for the progress.
        rows_total: Messages of all parts, if known.

    Returns:
        The rows of all parts, including those finished earlier, in the order of the parts.
    """
    done: dict[str, list[Row]] = {each["task"]: each["rows"] for each in run.manifest.ranges}
    left = [name for name in parts if name not in done]
    run.progress.expect(rows_total, sum(map(size_of, parts.values())))
    wave = _cores(spark) * _WAVE
    for start in range(0, len(left), wave):
        some = [(name, parts[name]) for name in left[start : start + wave]]
        for name, rows in _each_in_a_task(spark, some, work):
            done[name] = rows
            run.manifest.ranges.append({"task": name, "rows": rows})
        run.save()
        size = sum(size_of(part) for name, part in parts.items() if name in done)
        run.progress.at(sum(rows_of(done[name]) for name in parts if name in done), size)
    return [row for name in parts for row in done[name]]


def _each_in_a_task(
    spark: SparkSession, parts: list[tuple[str, Part]], work: Callable[[Part], list[Row]]
) -> list[tuple[str, list[Row]]]:
    """Process each part in its own task, and return a list of each part's name and rows."""
    if not is_connect(spark):
        tasks = spark.sparkContext.parallelize(parts, len(parts))
        return tasks.map(lambda part: (part[0], work(part[1]))).collect()

    def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            some = [parts[at] for at in batch["id"].to_pylist()]
            done = [json.dumps([name, work(part)]) for name, part in some]
            yield pa.record_batch({"done": pa.array(done, pa.string())})

    # Spark Connect has no RDDs: use a table with one row per part and one partition per row.
    table = spark.range(0, len(parts), 1, len(parts)).mapInArrow(rows_of, "done string")
    return [(name, rows) for name, rows in (json.loads(row.done) for row in table.collect())]


def _cores(spark: SparkSession) -> int:
    """Return Spark's default parallelism, usually its number of cores."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # By default a table has that many partitions.
    return spark.range(1 << 20).select(f.spark_partition_id()).distinct().count()


def count_round(run: Run, files: Sequence[Row], *, end: dict[str, int]) -> None:
    """Add the files of a finished pass of an archive job to the manifest's totals, clear its plan and parts, and save.

    Args:
        run: Run of the job.
        files: Number of rows, bytes and path of each file.
        end: Further entries of the totals, e.g. the offset at which the next pass begins.
    """
    manifest, counts = run.manifest, run.manifest.counts
    manifest.counts = {
        "rows": counts.get("rows", 0) + sum(file[0] for file in files),
        "bytes": counts.get("bytes", 0) + sum(file[1] for file in files),
        "files": counts.get("files", 0) + len(files),
        **end,
    }
    manifest.ahead, manifest.ranges = {}, []
    run.save()


def task_plan(tasks: Sequence[Task]) -> Report:
    """Return the report of a dry run: each task's name and first file, and the bytes of log that it would read."""
    rows: list[tuple[Any, ...]] = [
        (name, task[0].file.path, log_size(task)) for name, task in by_name(tasks).items()
    ]
    counts = {"tasks": len(rows), "bytes": sum(map(log_size, tasks))}
    return Report(counts, ("range", "file", "bytes"), rows)


def range_plan(ranges: Iterable["PlannedRange"]) -> Report:
    """Return the report of a dry run: for each range of a queue its first offset, its end and the number of offsets."""
    rows = [(*astuple(each.queue), each.start, each.end, each.rows) for each in ranges]
    return Report({"rows": sum(row[-1] for row in rows)}, _RANGE_COLUMNS, rows)
