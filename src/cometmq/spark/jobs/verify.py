"""The job "verify": is what a store's files say true, and are two copies the same? On all cores.

Next: cometmq.spark.store.verify
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.net.clock import SystemClock
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import Task, plan_tasks
from cometmq.offline.rebuild import found_settings
from cometmq.spark.jobs.comparing import Reading, compare
from cometmq.spark.jobs.copies import copy_of
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import absolute
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.jobs.run import Run, running
from cometmq.spark.jobs.tasks import Row, by_name, log_size, run_tasks, task_plan
from cometmq.spark.jobs.words import time_ms
from cometmq.spark.store.verify import Found, Total, VerifyRules, verify_index_file, verify_task
from cometmq.spark.store.verify_index import IndexPart, index_parts
from cometmq.store.lock import ABORT_FILE

SETTLED_MS = (
    1000  # What is younger may not be everywhere yet, where something is still written.
)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(JobOptions, ClusterOptions):
    """What is looked at.

    Attributes:
        store: a store's directory.
        topic: without a store, these topics of a cluster; with one, only these.
        against: with what it is compared: a store, an archive, topics.
        broker: of topics only the queues of this one.
        until: of what is compared only what was stored before this time.
        to: where the manifest is kept.
    """

    store: str = option("The store's directory.", "")
    topic: str = option("Topics of a cluster; with --store: only these, if compared.", "")
    against: str = option("Compare with this: a store, an archive, or topics.", "")
    broker: str = option("Of topics only the queues of this broker.", "")
    until: str = option("Compare only what was stored before; live: a second ago.", "")
    to: str = option("Folder in which the manifest is kept.", "")


_Part = Task | IndexPart  # A range of the log, or an index file.


def run(spark: SparkSession, options: VerifyOptions) -> Report:
    """Check a store's records, queues and index; --against compares two copies instead.

    Changes nothing. What no start of a broker would put right, and each message that one copy lacks
    or has otherwise, is a finding.

    Raises:
        SettingsError: it is not said what to look at, or it is neither a store nor an archive.
        StoreDamaged: there is no log.
    """
    if options.against:
        return _compare(spark, options)
    if not options.store:
        raise SettingsError("say what to look at: --store, or --topic with --against")
    return _check(spark, options)


def _compare(spark: SparkSession, options: VerifyOptions) -> Report:
    """Both copies, side by side."""
    one, other = options.store or options.topic, options.against
    if not one:
        raise SettingsError("say what is compared: --store or --topic")
    topics = options.topic
    if not (topics or "/" in other or Path(other).is_dir()):
        topics = other  # Of a store, compared with topics, only these.
    copies = [
        copy_of(each, topics=topics, nameserver=options.nameserver, broker=options.broker)
        for each in (one, other)
    ]
    until_ms = time_ms(options.until, "--until") if options.until else None
    if until_ms is None and any(copy.is_live() for copy in copies):
        until_ms = SystemClock().now_ms() - SETTLED_MS
    reading = Reading.of(copies[0], copies[1], until_ms)
    if options.dry_run:
        parts = reading.parts()
        rows = [(name, reading.size_of(part)) for name, part in parts.items()]
        return Report({"parts": len(rows)}, ("part", "bytes or messages"), list(rows))
    with running("verify", options, place=options.to) as this:
        if this.is_finished:
            this.begin_again()  # Files may have been damaged since.
        return _kept(this, compare(spark, this, reading))


def _check(spark: SparkSession, options: VerifyOptions) -> Report:
    """A store alone."""
    folder = StoreFolder(absolute(options.store))
    tasks = plan_tasks(folder)
    if options.dry_run:
        return task_plan(tasks)
    settings, index = found_settings(folder.root), index_parts(folder)
    is_closed = not folder.exists(ABORT_FILE)
    rules = VerifyRules(tuple(settings.delay_levels_ms), is_closed, tuple(index))
    parts: dict[str, _Part] = {**by_name(tasks)}
    parts.update((each.path, each) for each in index)

    def work(part: _Part) -> list[Row]:
        if isinstance(part, IndexPart):
            return [list(found) for found in verify_index_file(part, rules)]
        return [list(found) for found in verify_task(folder, part, rules)]

    with running("verify", options, place=options.to) as this:
        if this.is_finished:
            this.begin_again()
        rows = run_tasks(spark, this, parts, work, size_of=_size_of, rows_of=_messages_of)
        return _kept(this, _verdict(Total.of(Found(*row) for row in rows)))


def _kept(this: Run, report: Report) -> Report:
    """The report, and in the manifest what it says."""
    this.finish(report)
    this.manifest.result["findings"] = report.findings
    return report


def _size_of(part: _Part) -> int:
    return part.size if isinstance(part, IndexPart) else log_size(part)


def _messages_of(rows: list[Row]) -> int:
    return Total.of(Found(*row) for row in rows).messages


def _verdict(total: Total) -> Report:
    return Report(
        counts={
            "rows": total.messages,
            "bytes": total.size,
            "queue entries": total.queue_entries,
            "index entries": total.index_entries,
            "errors": len(total.errors),
        },
        notes=[f"{found.place}: {found.finding}" for found in total.notes],
        findings=[f"{found.place}: {found.finding}" for found in total.errors],
    )


JOB = Job("verify", VerifyOptions, run)
