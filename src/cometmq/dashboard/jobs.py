"""Runs of Spark's jobs, from the manifests that they keep beside their output (`_jobs/ID.json`, docs/pipeline.md).

A manifest is written whole under another name and renamed, so what is read is one state of a run. It is a file of whoever
runs jobs: all of it is doubted, and bounded.
"""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "_jobs"
FOLDERS_MAX = 1_000
RUNS_MAX = 500
SIZE_MAX = 4 << 20
STATUSES = ("running", "done", "failed")
_NAME_MAX = 200
_COUNTS_MAX = 50


class JobRun(NamedTuple):
    """A run of a pipeline job, as its manifest tells.

    Attributes:
        place: the folder of its output.
        id: of the run.
        job: its name.
        status: running, done, failed; empty: the manifest cannot be read, and `error` says why.
        counts: what it has done so far, rows and bytes among it.
        batch: the micro-batch that was counted last; -1: none.
        files: how many it wrote, where a job names its files.
        started_ms: when its first run began, ms since 1970.
        ended_ms: when its last run ended; None: it has not.
        written_ms: when the manifest was written last.
        error: why it failed.
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
        """On the average; None: it has counted none, or ended as it began."""
        ms = (self.ended_ms or self.written_ms) - self.started_ms
        rows = self.counts.get("rows", 0)
        return rows * 1000 / ms if rows and ms > 0 else None


def job_runs(places: Sequence[Path]) -> list[JobRun]:
    """The runs whose manifests lie in these folders or one below, the newest first. May wait: in a thread."""
    found: list[tuple[float, str, Path]] = []
    for folder in islice(_folders(places), FOLDERS_MAX):
        try:
            paths = [each for each in folder.glob("*.json") if each.is_file()]
            found += [(each.stat().st_mtime, str(each), each) for each in paths]
        except OSError:
            continue  # It went, or is not ours to read; others are.
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
        return unread._replace(error=f"this is no manifest of a job: {error}")


def _run_of(unread: JobRun, told: Any) -> JobRun:
    """The run of a manifest.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    status = told["status"]
    if status not in STATUSES:
        raise ValueError(f"its status is {status!r:.40}")
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
