"""The job "rebuild-index": queue files and index files made anew from the log.

They are made beside the old ones and put in their place at the end; the broker must be stopped.

Next: cometmq.offline.rebuild
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.net.clock import SystemClock
from cometmq.offline import rebuild as queues
from cometmq.offline import rebuild_keys as index
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import Task, plan_tasks
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import absolute
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.run import Run, running
from cometmq.spark.jobs.tasks import Row, by_name, log_size, run_tasks, task_plan
from cometmq.store.index_file import IndexShape

_CHECKED = "checked"  # The folder beside the old files in which --check makes new ones.


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(JobOptions):
    """Which store, and what of it.

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

    Raises:
        StoreLocked: a broker has the directory.
        StoreDamaged: two records have one place in a queue, or there is no log.
    """
    root = absolute(options.store)
    folder = StoreFolder(root)
    tasks = plan_tasks(folder)
    if options.dry_run:
        return task_plan(tasks)
    if options.check and options.out:
        raise SettingsError("--check changes nothing: leave out --out")
    topics = [topic.strip() for topic in options.topic.split(",") if topic.strip()]
    settings = queues.found_settings(root)
    out = absolute(options.out) if options.out else f"{root}/{queues.REBUILT}"
    if options.check:
        out = f"{root}/{_CHECKED}"
    target = queues.target_of(root, settings, out=out, topics=topics)
    has_index = not topics and not options.check
    place = "" if options.check else out if options.out else root
    with running("rebuild-index", options, place=place) as this:
        _begin(this, target, out)

        def work(task: Task) -> list[Row]:
            keys = index.keys_task(folder, task, out) if has_index else 0
            runs = queues.rebuild_task(folder, task, target)
            return [[keys], *(list(run.to_dict().values()) for run in runs)]

        rows = run_tasks(spark, this, by_name(tasks), work, size_of=log_size)
        written = [queues.Written(*row) for row in rows if len(row) > 1]
        counts = {"queue entries": queues.finish(target, written)}
        report = this.finish(Report(counts))
        if options.check:
            report.findings = list(_differences(root, out))
            shutil.rmtree(out)
            return report
        if has_index:
            shape = IndexShape(settings.index.slots, settings.index.entries)
            counts["keys"] = index.finish_keys(out, shape, clock=SystemClock())
        if not options.out:
            if has_index:
                index.install_keys(root, out)
            counts["queues"] = queues.install(root, target)
    return report


def _begin(this: Run, target: queues.Target, out: str) -> None:
    """A killed run is gone on with; a finished one is done again: files may have been damaged."""
    if this.manifest.ranges and not this.is_finished:
        return
    this.begin_again()
    queues.begin(target)
    index.begin_keys(out)


def _differences(root: str, out: str) -> Iterator[str]:
    """Files of the new queues that are not what is there."""
    for path in sorted(Path(out, "consumequeue").rglob("[0-9]" * 20)):
        name = path.relative_to(out)
        old = Path(root, name)
        if not old.exists():
            yield f"{name} is missing"
        elif old.read_bytes() != path.read_bytes():
            yield f"{name} is not what the log says"


JOB = Job("rebuild-index", RebuildOptions, run)
