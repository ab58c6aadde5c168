"""Runs of Spark jobs, read from the manifests beside their output (`_jobs/ID.json`, docs/pipeline.md).

A manifest is written under another name and renamed, so a read gets a consistent state. Anybody who runs jobs may have
written it: its content is validated and bounded.
"""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cometmq.model.text import as_given, decode_reason

FOLDER = "_jobs"
FOLDERS_MAX = 1_000
RUNS_MAX = 500
SIZE_MAX = 4 << 20
STATUSES = ("running", "done", "failed")
_NAME_MAX = 200
_COUNTS_MAX = 50


class JobRun(NamedTuple):
    """A run of a pipeline job, as its manifest describes it.

    Attributes:
        place: Folder of its output.
        id: Id of the run.
        job: Name of the job; empty if the manifest cannot be read.
        status: "running", "done" or "failed"; empty if the manifest cannot be read (reason in `error`).
        counts: Up to 50 counters so far by name, such as rows and bytes.
        batch: Last counted micro-batch; -1 if none.
        files: Number of files written, if the job lists its files.
        started_ms: Start of its first run, ms since 1970; 0 if unknown.
        ended_ms: End of its last run, ms since 1970; None while it runs, or if unknown.
        written_ms: Last write of the manifest, ms since 1970.
        error: Why it failed, or why the manifest cannot be read; empty for neither.
    """

    place: str
    id: str
    job: str = ""
    status: str = ""
    counts: Mapping[str, int] = {}
    batch: int = -1
    files: int = 0
    started_ms: int = 0
    ended_ms: int | None = None
    written_ms: int = 0
    error: str = ""

    @property
    def rows_per_second(self) -> float | None:
        """Average rows per second from `started_ms` to its end or last write; None if it counted no rows or took no time."""
        ms = (self.ended_ms or self.written_ms) - self.started_ms
        rows = self.counts.get("rows", 0)
        return rows * 1000 / ms if rows and ms > 0 else None


def job_runs(places: Sequence[Path]) -> list[JobRun]:
    """Return at most 500 runs with manifests in `_jobs` of these folders or one level below, last written first.

    At most 1,000 folders are read. An invalid manifest becomes a run with an `error`. Blocks: use a thread.
    """
    found: list[tuple[float, str, Path]] = []
    for folder in islice(_folders(places), FOLDERS_MAX):
        try:
            paths = [each for each in folder.glob("*.json") if each.is_file()]
            found += [(each.stat().st_mtime, str(each), each) for each in paths]
        except OSError:
            continue  # Deleted meanwhile or not readable; other folders may be.
    return [_read(path, int(at * 1000)) for at, _, path in heapq.nlargest(RUNS_MAX, found)]


def _folders(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        yield place / FOLDER
        try:
            yield from sorted(each for each in place.glob(f"*/{FOLDER}"))
        except OSError:
            continue


def _read(path: Path, written_ms: int) -> JobRun:
    unread = JobRun(str(path.parent.parent), path.stem, written_ms=written_ms)
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_MAX + 1)
        if len(content) > SIZE_MAX:
            return unread._replace(error=f"the manifest has more than {SIZE_MAX} bytes")
        return _run_of(unread, json.loads(content))
    except OSError as error:
        return unread._replace(error=f"the manifest cannot be read: {error.strerror}")
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        return unread._replace(
            error=f"this is not the manifest of a job: {decode_reason(error)}"
        )


def _run_of(unread: JobRun, told: Any) -> JobRun:
    """Return a copy of the job run `unread` with the values of its manifest, which is parsed JSON (`told`).

    Raises:
        KeyError, TypeError, ValueError, AttributeError, ArithmeticError: It is not the manifest of a job.
    """
    status = told["status"]
    if status not in STATUSES:
        raise ValueError(f"its status is {as_given(status, 40)}")
    counts = {str(name)[:_NAME_MAX]: int(count) for name, count in told["counts"].items()}
    return unread._replace(
        job=str(told["job"])[:_NAME_MAX],
        status=status,
        counts=dict(islice(counts.items(), _COUNTS_MAX)),
        batch=int(told.get("batch", -1)),
        files=len(told.get("files", ())),
        started_ms=int(told.get("started_ms", 0)),
        ended_ms=None if told.get("ended_ms") is None else int(told["ended_ms"]),
        error=str(told.get("error", "")),
    )
