"""Comparison of two copies of messages in Spark tasks: runs the parts of `offline.copy_compare`."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession

from cometmq.offline import copy_compare
from cometmq.offline.copy_compare import AGAIN, CopyReading, Part, Row
from cometmq.offline.digests import Block, MessageDifference
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.tasks import run_tasks

SHOWN_MAX = 1000


class TaskRunner:
    """Runner of the parts of a comparison as Spark tasks; finished parts are recorded in the run's manifest."""

    def __init__(self, spark: SparkSession, run: Run, reading: CopyReading) -> None:
        self._spark = spark
        self._run = run
        self._reading = reading

    def run(self, parts: Mapping[str, Part], work: Callable[[Part], list[Row]]) -> list[Row]:
        """Run the work on all parts that are not finished yet, and return the rows of all parts."""
        return run_tasks(self._spark, self._run, parts, work, size_of=self._reading.size_of)

    def look_again(self, blocks: Sequence[Block]) -> None:
        """Note the given blocks of queue offsets, which differ in the copies and are then read again, in the manifest.

        If a killed run recorded another list, all of its results of that second reading are discarded.
        """
        manifest, listed = self._run.manifest, [list(block) for block in blocks]
        if manifest.ahead.get("blocks") != listed:
            manifest.ranges = [
                each for each in manifest.ranges if not each["task"].startswith(AGAIN)
            ]
            manifest.ahead = {"blocks": listed}


def compare(spark: SparkSession, run: Run, reading: CopyReading) -> Report:
    """Compare two copies of messages in Spark tasks; list up to 1000 differing messages of the first 64 differing blocks."""
    found = copy_compare.compare(reading, TaskRunner(spark, run, reading))
    counts = {
        "messages of A": found.rows[0],
        "messages of B": found.rows[1],
        "differing blocks": found.blocks,
        "differences": len(found.differences),
    }
    shown = [tuple(each) for each in found.differences[:SHOWN_MAX]]
    report = Report(counts, MessageDifference._fields if shown else (), shown)
    report.notes, report.findings = found.notes, [*found.findings, *found.damages]
    return report
