"""Job "verify": checks the files of a store, or compares two copies, on all cores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from cometmq.connect import SystemClock
from cometmq.model.errors import SettingsError
from cometmq.offline import copy_compare
from cometmq.offline.choices import SPLIT_BYTES
from cometmq.offline.copy_compare import AGAIN, CopyReading, Part, settled_until
from cometmq.offline.digests import Block, MessageDifference
from cometmq.offline.found import FoundStore, find_store
from cometmq.offline.part_check import PartVerdict, check_part, parts_of
from cometmq.offline.place import same_place
from cometmq.offline.verify import StoreCheck, StoreVerdict
from cometmq.spark.jobs.copies import copy_of
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.jobs.run import Run, running
from cometmq.spark.jobs.tasks import Row, run_tasks
from cometmq.spark.options import time_ms


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(JobOptions, ClusterOptions):
    """Options of the job `verify`, which checks the files of a store or compares two copies of messages."""

    store: str = option("The store directory.", "")
    topic: str = option("Topics of a cluster; with --store and --against, only these.", "")
    against: str = option("A store directory, an archive, or topics to compare with.", "")
    broker: str = option("Compare only the queues of this broker.", "")
    until: str = option(
        "Compare only messages stored before this time. Default for topics: one second ago.", ""
    )
    to: str = option("Folder for the manifest.", "")


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
        """Set in the manifest which blocks of queue offsets are read a second time, because the copies differ there.

        If a killed run recorded another list, all of its results of the second reading are discarded.
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


def run(spark: SparkSession, options: VerifyOptions) -> Report:
    """Check a store's records, queues and index; --against compares two copies instead.

    Writes only to the folder `to`, if given. Findings are damages, even such as a broker's start repairs, but
    not what an unclean stop usually leaves; in a comparison, differences and damaged parts.

    Raises:
        SettingsError: No store or copies are given, an option is invalid, or a copy is neither a store nor an archive.
        CometError: There is no log (StoreDamaged), or a broker with topics to compare is missing or does not answer.
    """
    if options.against:
        return _compare(spark, options)
    if not options.store:
        raise SettingsError("name what to verify: --store, or --topic with --against")
    return _check(spark, options)


def _compare(spark: SparkSession, options: VerifyOptions) -> Report:
    one, other = options.store or options.topic, options.against
    if not one:
        raise SettingsError("name what to compare: --store or --topic")
    topics = options.topic
    if not (topics or "/" in other or Path(other).is_dir()):
        topics = other  # Compare only these topics of the store.
    copies = [
        copy_of(each, topics=topics, nameserver=options.nameserver, broker=options.broker)
        for each in (one, other)
    ]
    until_ms = (
        time_ms(options.until, "--until")
        if options.until
        else settled_until(copies, SystemClock())
    )
    reading = CopyReading.of(copies[0], copies[1], until_ms)
    if options.dry_run:
        parts = reading.parts()
        rows = [(name, reading.size_of(part)) for name, part in parts.items()]
        return Report({"parts": len(rows)}, ("part", "bytes or messages"), list(rows))
    with running("verify", options, place=options.to) as this:
        if this.is_finished:
            this.begin_again()  # Files may have been damaged since then.
        return _kept(this, compare(spark, this, reading))


def _check(spark: SparkSession, options: VerifyOptions) -> Report:
    store = find_store(same_place(options.store), None)
    try:
        parts = {f"{part.start}-{part.stop}": part for part in parts_of(store, SPLIT_BYTES)}
        if options.dry_run:
            return _planned(parts)
        return _checked(spark, options, store, parts)
    finally:
        store.close()


def _checked(
    spark: SparkSession, options: VerifyOptions, store: FoundStore, parts: Mapping[str, range]
) -> Report:
    """Check each part of a store in a Spark task, and return the report of all."""
    check, root, settings = StoreCheck(store), store.root, store.settings
    has_queues = check.has_queues

    def work(part: range) -> list[Row]:
        found = find_store(root, settings)
        try:
            return [list(check_part(found, part, has_queues=has_queues))]
        finally:
            found.close()

    with running("verify", options, place=options.to) as this:
        if this.is_finished:
            this.begin_again()
        rows = run_tasks(spark, this, parts, work, size_of=len, rows_of=_records_of)
        return _kept(this, _report(check.finish(PartVerdict.of(row) for row in rows)))


def _planned(parts: Mapping[str, range]) -> Report:
    """Return the report of a dry run: the parts and their bytes."""
    rows = [(name, len(part)) for name, part in parts.items()]
    counts = {"tasks": len(rows), "bytes": sum(len(part) for part in parts.values())}
    return Report(counts, ("range", "bytes"), list(rows))


def _kept(this: Run, report: Report) -> Report:
    """Set the manifest's results and findings from a report, and return the report."""
    this.finish(report)
    this.manifest.result["findings"] = report.findings
    return report


def _records_of(rows: list[Row]) -> int:
    return sum(PartVerdict.of(row).records for row in rows)


def _report(verdict: StoreVerdict) -> Report:
    findings = [str(each) for each in verdict.findings if each.is_error]
    notes = [str(each) for each in verdict.findings if not each.is_error]
    if more := verdict.errors - len(findings):
        findings.append(f"{more:,} more errors")
    if more := verdict.notes - len(notes):
        notes.append(f"{more:,} more notes")
    counts = {
        "rows": verdict.records,
        "bytes": verdict.log_end - verdict.log_start,
        "queue entries": verdict.queue_entries,
        "index entries": verdict.index_entries,
        "errors": verdict.errors,
    }
    return Report(counts=counts, notes=notes, findings=findings)


JOB = Job("verify", VerifyOptions, run)
