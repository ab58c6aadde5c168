"""Run of a Spark job: its manifest, its progress, and whether an earlier run has already finished it."""

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyspark

from cometmq import __version__
from cometmq.connect import SystemClock
from cometmq.model.clock import Clock
from cometmq.spark.jobs.checkpoint import checkpointed
from cometmq.spark.jobs.error_text import message_of
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.manifest import JobFolder, Manifest, manifest_id
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.progress import RunProgress

# Counts that describe the current state of a table or archive; the other counts are sums over all runs.
_STATES = frozenset({"keys", "kept", "end"})


class Run:
    """A job's run in progress; with a folder, its state is kept in a manifest, so that a killed run can be resumed.

    Attributes:
        manifest: State of the run, written by `save`.
        progress: Progress display.
        is_finished: Whether an earlier run has completed it, and this one neither repeats nor adds anything.
    """

    def __init__(
        self, manifest: Manifest, folder: JobFolder | None, progress: RunProgress
    ) -> None:
        self.manifest = manifest
        self.progress = progress
        self.is_finished = manifest.status == "done"
        self._kept_in = folder
        self._before = dict(manifest.counts)

    @property
    def _folder(self) -> JobFolder:
        assert self._kept_in is not None, "a run without a place has no files"
        return self._kept_in

    @property
    def checkpoint(self) -> str:
        """Path or URI of the checkpoint in which Spark keeps this run's progress; AssertionError without a place."""
        return self._folder.checkpoint(self.manifest.id)

    def audit_of(self, batch: int) -> str:
        """Return the folder for the sink's audit file of a micro-batch, a path or URI; AssertionError without a place."""
        return self._folder.audit(self.manifest.id, batch)

    @property
    def short_id(self) -> str:
        """Part of the names of the run's files that distinguishes them from those of other runs; a resumed run keeps it."""
        return self.manifest.name or self.manifest.id.rpartition("-")[2]

    def folder_of(self, name: str) -> str:
        """Return the path or URI of the folder `name`, beside `_jobs` in the run's place; AssertionError without a place."""
        return f"{self._folder.place}/{name}"

    def save(self) -> None:
        """Write the manifest, which has the run's state, to `_jobs` in the run's place; do nothing without a place."""
        if self._kept_in is not None:
            self._kept_in.save(self.manifest)

    def begin_again(self) -> None:
        """Discard the record of parts that earlier runs finished, so that this run processes all parts; the counts remain."""
        self.is_finished = False
        self.manifest.status, self.manifest.ranges = "running", []
        self.save()

    def count_batch(self, batch: int, counts: dict[str, int]) -> None:
        """Add a finished micro-batch's counts (of a repeated one, instead of its earlier ones), save, and show the progress."""
        self.is_finished = False
        self.manifest.status = "running"
        self.manifest.count_batch(batch, counts)
        self.save()
        done = self._added()
        self.progress.at(done.get("rows", 0), done.get("bytes", 0))

    def report(self, *, findings: Sequence[str] = (), notes: Sequence[str] = ()) -> Report:
        """Return the report of a job that continues over several runs: the totals, and the counts of this run."""
        counts = self.manifest.counts
        return Report(counts, this_run=self._added(), findings=[*findings], notes=[*notes])

    def _added(self) -> dict[str, int]:
        """Return the counts that this run has added, without those that describe the current state of a table or archive."""
        return {
            name: count - self._before.get(name, 0)
            for name, count in self.manifest.counts.items()
            if name not in _STATES
        }

    def finish(self, report: Report) -> Report:
        """Set the manifest's counts and table from a report, for `earlier` in the next run; return the same report.

        Findings and notes are not stored.
        """
        manifest = self.manifest
        manifest.counts = report.counts
        manifest.result = {"columns": list(report.columns), "rows": report.rows}
        return report

    def earlier(self) -> Report:
        """Return a report with counts and table of the run that completed the job, without its findings."""
        manifest = self.manifest
        return Report(
            counts=manifest.counts,
            columns=manifest.result.get("columns", ()),
            rows=[tuple(row) for row in manifest.result.get("rows", ())],
            notes=[f"run {manifest.id} is already complete; nothing was changed"],
        )


@contextmanager
def running(
    job: str,
    options: JobOptions,
    *,
    place: str,
    is_alone: bool = False,
    clock: Clock | None = None,
) -> Iterator[Run]:
    """Open a job's run, or continue an earlier one with the same options; write its outcome to the manifest at the end.

    The earlier one may be killed, failed or done; if done, `is_finished` is true, and no manifest is written while it is.

    Args:
        job: Name of the job.
        options: Options of the job.
        place: Folder or URI that contains `_jobs`; empty to keep no manifest.
        is_alone: Whether all other runs at the place are excluded; if not, only those that set it and those with the
            same options.
        clock: Source of the time.

    Raises:
        SettingsError: The place or its manifest cannot be used, or a required option is empty.
        RunGoesOn: Such a run is writing there; not detected outside local folders.
    """
    options.check_given()
    clock = clock or SystemClock()
    folder = JobFolder(place) if place else None
    run_id = manifest_id(job, options.what())
    with (
        folder.held("place", is_shared=not is_alone) if folder else nullcontext(),
        folder.held(run_id) if folder else nullcontext(),
    ):
        yield from _running(run_id, job, options, folder, clock)


def _running(
    run_id: str, job: str, options: JobOptions, folder: JobFolder | None, clock: Clock
) -> Iterator[Run]:
    manifest = (folder.load(run_id) if folder else None) or _new(
        run_id, job, options, clock.now_ms()
    )
    run = Run(manifest, folder, RunProgress(options.progress, job))
    if not run.is_finished:
        manifest.status, manifest.error, manifest.ended_ms = "running", "", None
        run.save()
    try:
        yield run
    except BaseException as error:
        run.is_finished = False
        manifest.status, manifest.error = "failed", message_of(error)
        raise
    else:
        manifest.status = "done"
    finally:
        # A run that found nothing to do changes nothing.
        if not run.is_finished:
            manifest.ended_ms = clock.now_ms()
            run.save()
        run.progress.show(is_last=True)


def _new(run_id: str, job: str, options: JobOptions, now_ms: int) -> Manifest:
    name = f"{run_id.rpartition('-')[2]}-{now_ms:x}"
    return Manifest(
        run_id, job, options.what(), versions=_versions(), started_ms=now_ms, name=name
    )


def is_done(job: str, options: JobOptions, place: str) -> bool:
    """Return whether a run with the same options has completed the job."""
    found = JobFolder(place).load(manifest_id(job, options.what()))
    return found is not None and found.status == "done"


def read_before(job: str, options: JobOptions, place: str) -> dict[str, Any]:
    """Return the offsets up to which a run with the same options has read topics: `{topic: {broker: {queue: offset}}}`.

    Empty without such a run, before its first finished micro-batch, and if it reads a store or an archive.
    """
    run_id = manifest_id(job, options.what())
    return checkpointed(JobFolder(place).checkpoint(run_id))


def _versions() -> dict[str, str]:
    return {
        "cometmq": __version__,
        "spark": pyspark.__version__,
        "python": platform.python_version(),
    }
