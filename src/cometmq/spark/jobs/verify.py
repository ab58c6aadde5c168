"""The job "verify": is what a store's log and queues say true? Part by part, on all cores.

Next: cometmq.spark.store.verify
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import absolute
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.tasks import Row, by_name, log_size, run_tasks, task_plan
from cometmq.spark.store.folder import StoreFolder
from cometmq.spark.store.plan import Task, plan_tasks
from cometmq.spark.store.rebuild import found_settings
from cometmq.spark.store.verify import Found, Total, VerifyRules, verify_task
from cometmq.store.lock import ABORT_FILE


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(JobOptions):
    """Which store.

    Attributes:
        store: its directory.
    """

    store: str = option("The store's directory.")


def run(spark: SparkSession, options: VerifyOptions) -> Report:
    """Check every record of a store and the queue entries that point at it; changes nothing.

    What no start of a broker would put right is a finding.

    Raises:
        StoreDamaged: there is no log.
    """
    folder = StoreFolder(absolute(options.store))
    tasks = plan_tasks(folder)
    if options.dry_run:
        return task_plan(tasks)
    settings = found_settings(folder.root)
    rules = VerifyRules(
        tuple(settings.delay_levels_ms), is_closed=not folder.exists(ABORT_FILE)
    )

    def work(task: Task) -> list[Row]:
        return [list(found) for found in verify_task(folder, task, rules)]

    with running("verify", options, place="") as this:
        total = Total.of(
            Found(*row)
            for row in run_tasks(spark, this, by_name(tasks), work, size_of=log_size)
        )
    return Report(
        counts={
            "rows": total.messages,
            "bytes": total.size,
            "queue entries": total.queue_entries,
            "errors": len(total.errors),
        },
        notes=[f"{found.place}: {found.finding}" for found in total.notes],
        findings=[f"{found.place}: {found.finding}" for found in total.errors],
    )


JOB = Job("verify", VerifyOptions, run)
