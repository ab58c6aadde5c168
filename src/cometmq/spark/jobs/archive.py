"""Jobs "archive" and "restore": write a store's log or topics to Parquet files; recreate a store from archived raw records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import NamedTuple

from pyspark.sql import SparkSession

from cometmq.connect import SystemClock
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
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.jobs.run import Run, is_done, running
from cometmq.spark.jobs.tasks import Row, count_round, run_tasks, task_plan
from cometmq.spark.jobs.topic_archive import TopicArchive, archive_round
from cometmq.spark.options import time_ms, words

Splits = list[Task]


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(JobOptions, ClusterOptions):
    """Options of the job `archive`, which writes a store's log or topics to Parquet files."""

    store: str = option("The store directory; a broker may have it open.", "")
    to: str = option("Folder or URI of the archive.")
    topic: str = option(
        "Topics of a cluster, separated by commas; with --store, only these topics and no mark for retention.",
        "",
    )
    raw: bool = option("Also archive the bytes of each record, which `restore` needs.", False)
    until: str = option("Only messages stored before this time: 2026-05-01T12:00, or ms.", "")
    follow: bool = option("Continue with new messages until Ctrl-C.", False, is_what=False)
    every: str = option("With --follow: interval between two rounds.", "1m", is_what=False)


@dataclass(frozen=True, kw_only=True)
class RestoreOptions(JobOptions):
    """Options of the job `restore`, which recreates a store from an archive.

    `start` and `end` are physical offsets, `end` the one after the last byte; log files are restored as a whole.
    """

    archive: str = option("Folder or URI of an archive made with --raw.")
    to: str = option("The store directory to create; it must be new or empty.")
    start: int = option("Start with the log file of this physical offset; -1: the oldest.", -1)
    end: int = option(
        "Restore the log files that begin before this physical offset; -1: all.", -1
    )
    queue_file_size: int = option("mappedFileSizeConsumeQueue in bytes; 0: as archived.", 0)
    index_slots: int = option("maxHashSlotNum of the index files; 0: as archived.", 0)
    index_entries: int = option("maxIndexNum of the index files; 0: as archived.", 0)


def archive(spark: SparkSession, options: ArchiveOptions) -> Report:
    """Write a store's log or topics as Parquet files, by topic and day; messages that this archive has are left out.

    A broker with `archiveGuard=true` deletes only log files that an archive of its store, with all topics, has. A run
    with the same options resumes a killed one. Findings are: bytes of the log that are not a record, records that contradict
    themselves, and parts of the log, or messages of a cluster's topics, that were deleted before they were archived.

    Raises:
        SettingsError: Neither store nor topics are given, an option is invalid, or the archive is of another kind.
        CometError: There is no readable log, a file of the archive is damaged, a broker does not answer, or another run
            writes to the same place.
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
                # Damage after the log's end is found in each round, but reported once.
                findings += [each for each in once.run(spark, this) if each not in findings]
        except KeyboardInterrupt:
            if not options.follow:
                raise
    return this.report(findings=findings)


class _Rounds(NamedTuple):
    """Functions of an archive job: `plan` reports a dry run of a round, `run` runs one and returns its findings."""

    plan: Callable[[], Report]
    run: Callable[[SparkSession, Run], list[str]]


def _rounds(options: ArchiveOptions) -> _Rounds:
    """Return the functions to archive a store, or else topics. SettingsError for neither, or raw records of topics."""
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
        raise SettingsError("name what to archive: --store or --topic")
    if options.raw:
        raise SettingsError("--raw archives the records of a log and needs --store")
    until_ms = time_ms(options.until, "--until") if options.until else None
    topics = TopicArchive(options.nameserver, options.topic, same_place(options.to), until_ms)
    return _Rounds(topics.planned, lambda spark, run: archive_round(spark, run, topics))


def _archive_new(
    spark: SparkSession, run: Run, options: ArchiveOptions, folder: StoreFolder
) -> list[str]:
    """Archive the records that the archive lacks, or only the range of a killed round; return the findings as texts."""
    rules = _rules(options)
    config = kernel.read_config(folder)
    splits = _splits(folder, run, options, rules)
    if not splits:
        kernel.finish_archive(folder, splits, rules, config=config)
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
    kernel.finish_archive(folder, splits, rules, config=config)
    files = [row for row in rows if len(row) > 1]
    count_round(run, files, end={"end": splits[-1].hi})
    lacking = map(str, kernel.findings_of(folder, rules))
    return [*(row[0] for row in rows if len(row) == 1), *lacking]


def _splits(
    folder: StoreFolder, run: Run, options: ArchiveOptions, rules: kernel.ArchiveRules
) -> list[Split]:
    """Return the parts of the log for this round, recorded in the manifest: a killed round's, if not archived yet.

    Before new parts, deletes files of earlier runs that are incomplete or not in the archive's manifest.
    """
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
    """Recreate a store's directory from an archive with raw records: the log from these, queues and index from the log.

    The directory gets its name only when it is complete. Queue and index files have the archived sizes, or else
    RocketMQ's defaults, unless options change them. Records missing in the archive are findings. If a run with the same
    options has finished and the directory exists, the next one does nothing and returns the same counts, without
    findings.

    Raises:
        SettingsError: The archive has no raw records, lacks topics or the chosen range, or the directory is not empty.
        StoreDamaged: A file that describes the archive's content is damaged, or the archived records contradict each other.
    """
    place = same_place(options.archive)
    to = local_place(options.to)
    folder = str(Path(to).parent)
    is_plan = options.dry_run and not is_done("restore", options, folder)
    with running("restore", options, place="" if is_plan else folder) as this:
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
    """Return the report of a dry run: the log files to create."""
    rows = [(part.start, part.size, len(part.parquet)) for part in parts]
    counts = {"log files": len(rows), "bytes": sum(row[1] for row in rows)}
    return Report(counts, ("log file", "bytes", "archive files"), list(rows))


def _chosen(options: RestoreOptions) -> dict[str, int]:
    """Return the requested sizes of queue and index files by name; 0 for the archived size."""
    names = ("queue_file_size", "index_slots", "index_entries")
    return {name: getattr(options, name) for name in names}


JOBS = (Job("archive", ArchiveOptions, archive), Job("restore", RestoreOptions, restore))
