"""The job "rebuild-index": queue files and index files made anew from the log.

They are made beside the old ones and put in their place at the end; the broker must be stopped.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from cometmq.client import SystemClock
from cometmq.offline.place import local_place
from cometmq.offline.plan import by_name, log_size
from cometmq.offline.rebuild_store import StoreRebuild
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.tasks import run_tasks, task_plan
from cometmq.spark.options import words


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(JobOptions):
    """Options of the job that rebuilds queues and index.

    Attributes:
        store: its directory, on this machine.
        topic: only the queues of these topics, with commas between; then no index is made.
        check: compare with the files that are there, and change nothing.
        out: another directory for the new files; the store stays as it is.
    """

    store: str = option("The store's directory, on this machine.")
    topic: str = option("Only queues of these topics, with commas between; no index then.", "")
    check: bool = option("Compare queues with those that are there; change nothing.", False)
    out: str = option("Another directory for the new files; the store stays as it is.", "")


def run(spark: SparkSession, options: RebuildOptions) -> Report:
    """Make a store's queue files and index anew from its log; the broker must be stopped.

    Bytes of the log that are no record are findings.

    Raises:
        StoreLocked: a broker has the directory.
        StoreDamaged: two records of one life of a queue have the same queue offset, or there is no log, or nothing of it can be read.
    """
    made = StoreRebuild.of(
        local_place(options.store),
        topics=words(options.topic),
        out=local_place(options.out) if options.out else "",
        is_check=options.check,
    )
    tasks = made.tasks()
    if options.dry_run:
        return task_plan(tasks)
    place = "" if options.check else made.target.root if options.out else made.root
    with running("rebuild-index", options, place=place) as this:
        # A killed run is gone on with; a finished one is done again: files may have been damaged.
        if this.is_finished or not this.manifest.ranges:
            this.begin_again()
            made.begin()
        rows = run_tasks(spark, this, by_name(tasks), made.work, size_of=log_size)
        done = made.finish(rows, clock=SystemClock())
        report = this.finish(Report(done.counts))
        report.findings = [str(finding) for finding in done.findings]
    return report


JOB = Job("rebuild-index", RebuildOptions, run)
