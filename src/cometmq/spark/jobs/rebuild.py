"""Job "rebuild-index": recreates a store's consume queue and index files from its commit log, or checks queue files."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from cometmq.connect import SystemClock
from cometmq.offline.place import local_place
from cometmq.offline.plan import by_name, log_size
from cometmq.offline.rebuild_store import StoreRebuild
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.tasks import run_tasks, task_plan
from cometmq.spark.options import words


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(JobOptions):
    """Options of the job `rebuild-index`, which recreates queue and index files from the log."""

    store: str = option("The store directory, on this machine.")
    topic: str = option(
        "Only the queues of these topics, separated by commas; the index is not rebuilt then.",
        "",
    )
    check: bool = option("Compare with the existing queue files; change nothing.", False)
    out: str = option("Write the files to this directory and leave the store unchanged.", "")


def run(spark: SparkSession, options: RebuildOptions) -> Report:
    """Recreate a store's queue files and index from its log; the broker must be stopped.

    With `topic` the index is left out; with `out` the files of the store stay unchanged; `check` only compares queue
    files. Findings are bytes of the log that are not a record and, with `check`, queue files that are missing or differ.

    Raises:
        SettingsError: An option is invalid, `check` and `out` are combined, or `out` is a store.
        StoreLocked: A program has the directory open when new files are to be installed there.
        StoreDamaged: There is no log, it has only damage although its last stop was clean, or its records contradict each other.
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
        # A killed run is resumed; a finished one is repeated, because files may have been damaged since.
        if this.is_finished or not this.manifest.ranges:
            this.begin_again()
            made.begin()
        rows = run_tasks(spark, this, by_name(tasks), made.work, size_of=log_size)
        done = made.finish(rows, clock=SystemClock())
        report = this.finish(Report(done.counts))
        report.findings = [str(finding) for finding in done.findings]
    return report


JOB = Job("rebuild-index", RebuildOptions, run)
