"""The jobs "archive" and "restore": a store's log or topics as Parquet files, and a store out of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import NamedTuple

from pyspark.sql import SparkSession

from cometmq.client import SystemClock
from cometmq.model.durations import duration_ms
from cometmq.model.errors import SettingsError
from cometmq.offline import archive as kernel
from cometmq.offline import restore as back
from cometmq.offline.findings import Findings
from cometmq.offline.folder import StoreFolder
from cometmq.offline.place import local_place, same_place
from cometmq.offline.plan import LogRange, Task, by_name, log_size
from cometmq.offline.splits import Split
from cometmq.offline.store_sizes import chosen_sizes, kept_sizes, sizes_of
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.jobs.run import Run, running
from cometmq.spark.jobs.tasks import (
    Row,
    count_round,
    run_tasks,
    task_plan,
)
from cometmq.spark.jobs.topic_archive import TopicArchive, archive_round
from cometmq.spark.options import time_ms, words

Splits = list[Task]


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(JobOptions, ClusterOptions):
    """Options of the job `archive`.

    Attributes:
        store: the store's directory; a broker may have it open.
        to: the archive's folder or URI.
        topic: topics of a cluster; with a store only these. No watermark is moved then.
        raw: keep each record's own bytes, so that `restore` can make the store again.
        until: only what was stored before this time.
        follow: do it again and again.
        every: how long between two rounds.
    """

    store: str = option("The store's directory; a broker may have it open.", "")
    to: str = option("The archive's folder or URI.")
    topic: str = option("Topics of a cluster; with --store: only these. No watermark.", "")
    raw: bool = option("Keep each record's own bytes: what `restore` needs.", False)
    until: str = option("Only what was stored before: 2026-05-01T12:00, or ms.", "")
    follow: bool = option("Go on with what comes; Ctrl-C ends it.", False, is_what=False)
    every: str = option("With --follow: a round so often.", "1m", is_what=False)


@dataclass(frozen=True, kw_only=True)
class RestoreOptions(JobOptions):
    """Options of the job `restore`.

    Attributes:
        archive: the archive's folder or URI, made with --raw.
        to: the directory that is to be; it must not be there, or be empty.
        start: physical offset; the log file that holds it is the first.
        end: physical offset; the log file that holds the byte before it is the last.
        queue_file_size: bytes of a queue file (mappedFileSizeConsumeQueue).
        index_slots: of an index file (maxHashSlotNum).
        index_entries: of an index file (maxIndexNum).
    """

    archive: str = option("The archive's folder or URI, made with --raw.")
    to: str = option("The store's directory: a new or an empty one.")
    start: int = option("Begin with the log file of this physical offset; -1: the oldest.", -1)
    end: int = option("End with the log file before this physical offset; -1: the newest.", -1)
    queue_file_size: int = option("mappedFileSizeConsumeQueue, bytes; 0: as it was.", 0)
    index_slots: int = option("maxHashSlotNum of the index files; 0: as it was.", 0)
    index_entries: int = option("maxIndexNum of the index files; 0: as it was.", 0)


def archive(spark: SparkSession, options: ArchiveOptions) -> Report:
    """Write a store's log or topics as Parquet files, by topic and day; what is archived is left out.

    Each place gets all that the log has; a broker with `archiveGuard=true` deletes only what a place still holds, and an archive of
    topics holds nothing for it. A killed run goes on where it was. Bytes of the log that are no record, or not what their
    record says, are findings, and what the log has deleted before it was archived.

    Raises:
        SettingsError: neither store nor topics, or the archive is one of another kind.
        StoreDamaged: there is no log, or nothing of it can be read.
    """
    try:
        pause_s = duration_ms(options.every) / 1000
    except ValueError as error:
        raise SettingsError(f"--every: {error}") from None
    once = _rounds(options)
    if options.dry_run:
        return once.plan()
    findings: list[str] = []
    with running("archive", options, place=options.to, is_alone=True) as this:
        try:
            findings += once.run(spark, this)
            while options.follow:
                sleep(pause_s)
                # What stands behind the log's end is found in each round.
                findings += [each for each in once.run(spark, this) if each not in findings]
        except KeyboardInterrupt:
            if not options.follow:
                raise
    return this.report(findings=findings)


class _Rounds(NamedTuple):
    """The steps by which an archive is made, a round at a time.

    Attributes:
        plan: says what the next would do.
        run: does it; gives what was lost before it was archived, or is damaged.
    """

    plan: Callable[[], Report]
    run: Callable[[SparkSession, Run], list[str]]


def _rounds(options: ArchiveOptions) -> _Rounds:
    """The rounds of what is asked for.

    Raises:
        SettingsError: neither store nor topics, or raw records of topics.
    """
    if options.store:
        folder = StoreFolder(same_place(options.store))
        return _Rounds(
            lambda: task_plan(
                [
                    (split,)
                    for split in kernel.plan_archive(folder, _wanted(options), _rules(options))
                ]
            ),
            lambda spark, run: _archive_new(spark, run, options, folder),
        )
    if not options.topic:
        raise SettingsError("say what is archived: --store or --topic")
    if options.raw:
        raise SettingsError(
            "--raw keeps the records of a log, from which a store is restored: it needs --store"
        )
    until_ms = time_ms(options.until, "--until") if options.until else None
    topics = TopicArchive(options.nameserver, options.topic, same_place(options.to), until_ms)
    return _Rounds(topics.planned, lambda spark, run: archive_round(spark, run, topics))


def _archive_new(
    spark: SparkSession, run: Run, options: ArchiveOptions, folder: StoreFolder
) -> list[str]:
    """Archive what came since; a round that was killed is finished with the range that it had."""
    rules = _rules(options)
    splits = _splits(folder, run, options, rules)
    if not splits:
        kernel.finish_archive(folder, splits, rules)
        return [str(each) for each in kernel.findings_of(folder, rules)]

    def work(task: Task) -> list[Row]:
        found = Findings()
        files = kernel.archive_task(folder, task, rules, on_finding=found.take)
        written = ([file.rows, file.size, file.path] for file in files)
        return [*written, *([str(each)] for each in found.told())]

    parts = by_name([(split,) for split in splits])
    rows = run_tasks(
        spark,
        run,
        parts,
        work,
        size_of=log_size,
        rows_of=lambda of: sum(row[0] for row in of if len(row) > 1),
    )
    kernel.finish_archive(folder, splits, rules)
    files = [row for row in rows if len(row) > 1]
    count_round(run, files, end={"end": splits[-1].hi})
    lacking = map(str, kernel.findings_of(folder, rules))
    return [*(row[0] for row in rows if len(row) == 1), *lacking]


def _splits(
    folder: StoreFolder, run: Run, options: ArchiveOptions, rules: kernel.ArchiveRules
) -> list[Split]:
    """The splits of this round: those of the one that was killed, if they are still to be archived."""
    manifest = run.manifest
    splits = kernel.plan_archive(folder, _wanted(options), rules)
    kept = kernel.resumed(folder, manifest.ahead.get("splits", ()), splits)
    if kept:
        return kept
    manifest.ahead = {}
    if splits:
        run.begin_again()
        manifest.ahead = {"splits": [[split.lo, split.hi] for split in splits]}
        run.save()
        kernel.begin_archive(splits, rules)
    return splits


def _rules(options: ArchiveOptions) -> kernel.ArchiveRules:
    names = tuple(words(options.topic))
    return kernel.ArchiveRules(same_place(options.to), is_raw=options.raw, topics=names)


def _wanted(options: ArchiveOptions) -> LogRange:
    return LogRange(end_ms=time_ms(options.until, "--until") if options.until else None)


def restore(spark: SparkSession, options: RestoreOptions) -> Report:
    """Make a store's directory again out of an archive with raw records, bit by bit.

    It grows under another name and is renamed when it is whole. Files have the sizes that they had; those
    of queues and index can be chosen. Records that the archive lacks are findings.

    Raises:
        SettingsError: no archive with raw records, or the directory is not empty.
    """
    place = same_place(options.archive)
    to = local_place(options.to)
    with running(
        "restore", options, place="" if options.dry_run else str(Path(to).parent)
    ) as this:
        if this.is_finished and Path(to).is_dir():
            return this.earlier()
        settings = chosen_sizes(kept_sizes(StoreFolder(place)), **_chosen(options))
        start = None if options.start < 0 else options.start
        end = None if options.end < 0 else options.end
        parts = {
            str(part.start): part for part in back.plan_restore(place, to, start=start, end=end)
        }
        if options.dry_run:
            return _planned(list(parts.values()))
        if this.is_finished or not this.manifest.ranges or not Path(back.growing(to)).is_dir():
            this.begin_again()
            back.begin_restore(list(parts.values()))

        def work(part: back.LogPart) -> list[Row]:
            done = back.restore_task(part)
            return [[done.start, done.records, [list(each) for each in done.missing]]]

        rows = run_tasks(spark, this, parts, work, size_of=lambda part: part.size)
        entries = back.finish_restore(
            list(parts.values()), to, clock=SystemClock(), settings=settings
        )
        counts = {
            "rows": sum(row[1] for row in rows),
            "log files": len(rows),
            "queue entries": entries,
        }
        report = this.finish(Report(counts))
        report.findings = [
            str(finding) for row in rows for finding in back.RestoredFile(*row).findings()
        ]
        lines = ", ".join(f"{name}={size}" for name, size in sizes_of(settings).items())
        report.notes = [f"a broker opens it with {lines}"]
        return report


def _planned(parts: Sequence[back.LogPart]) -> Report:
    """The report of a dry run: the log files that would be made."""
    rows = [(part.start, part.size, len(part.parquet)) for part in parts]
    counts = {"log files": len(rows), "bytes": sum(row[1] for row in rows)}
    return Report(counts, ("log file", "bytes", "archive files"), list(rows))


def _chosen(options: RestoreOptions) -> dict[str, int]:
    """The sizes that are asked for; 0: as they were."""
    names = ("queue_file_size", "index_slots", "index_entries")
    return {name: getattr(options, name) for name in names}


JOBS = (Job("archive", ArchiveOptions, archive), Job("restore", RestoreOptions, restore))
