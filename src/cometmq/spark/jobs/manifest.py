"""Manifest of a Spark job's run: `_jobs/<id>.json` in the folder of its output or state, a path or a URI.

The file is replaced by a rename. A manifest with the status "running" whose process no longer exists belongs
to a killed run.

    {"id": "table-1f0c…", "job": "table", "status": "done", "options": {…}, "ranges": […],
     "counts": {"rows": 1000}, "batch": 3, "before": {"rows": 750}, "files": […], …}
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pyarrow import fs

from cometmq.model.errors import CometError, SettingsError
from cometmq.offline.place import hadoop_place, open_place

FOLDER = "_jobs"
_ID_DIGITS = 12
_TIME = "$time"
_NOT_WRITABLE = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)


class RunGoesOn(CometError):
    """Raised if another run of a job is writing to the same place."""


@dataclass
class Manifest:
    """State of a job's run, as stored in `_jobs/<id>.json`.

    Attributes:
        id: Name of the job and a hash of the options that determine what it does.
        job: Name of the job.
        name: Part of the names of its files that distinguishes them from those of other runs, even of an earlier run
            with the same id whose manifest was deleted; empty for the hash in the id.
        options: Options that determine what the run does.
        status: "running", "done" or "failed".
        ranges: Finished parts with their results, or facts that the job fixes at its start.
        counts: Totals so far.
        batch: Last micro-batch that was counted; -1 before the first.
        before: Counts before that micro-batch, so that it is counted once even if it is repeated.
        ahead: Plan noted before it is carried out: the parts to process or, of a job that sends, the number of the last
            micro-batch and the ends of the target's queues before it.
        files: Names of folders, also of other runs, that later micro-batches or readers need; empty for most jobs.
        result: Table of the report, `{"columns": […], "rows": […]}`; for `verify` also its "findings".
        versions: Versions of CometMQ, Spark and Python.
        started_ms: Start of the first run, ms since 1970.
        ended_ms: End of the last run, ms since 1970; None while it runs, unless a finished run is continued or repeated.
        error: Cause of a failure.
    """

    id: str
    job: str
    options: dict[str, Any]
    status: Literal["running", "done", "failed"] = "running"
    ranges: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    batch: int = -1
    before: dict[str, int] = field(default_factory=dict)
    ahead: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    started_ms: int = 0
    ended_ms: int | None = None
    error: str = ""
    name: str = ""

    def count_batch(self, batch: int, counts: dict[str, int]) -> None:
        """Add the counts of a micro-batch to the totals; if it repeats the last one, replace the counts of that."""
        if batch != self.batch:
            self.batch, self.before = batch, dict(self.counts)
        names = {**self.before, **counts}
        self.counts = {name: self.before.get(name, 0) + counts.get(name, 0) for name in names}


def manifest_id(job: str, what: dict[str, Any]) -> str:
    """Return the id of a run from the job's name and a hash of its options; the same options give the same id."""
    text = json.dumps([job, what], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    return f"{job.replace(' ', '-')}-{digest}"


def _to_json(value: Any) -> Any:
    """Return a time in a job's result as a JSON object, and any other value without a JSON form as text."""
    return {_TIME: value.isoformat()} if isinstance(value, datetime) else str(value)


def _from_json(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[_TIME]) if _TIME in value else value


class JobFolder:
    """Folder `_jobs` in the place of jobs' output, with their manifests, checkpoints, audit files and locks.

    Args:
        place: Place of the output: a path, or a URI that pyarrow's file systems support.

    Raises:
        SettingsError: The place is not supported.
    """

    def __init__(self, place: str) -> None:
        self.place = hadoop_place(place)
        self._files, self._root = open_place(self.place)
        self._folder = f"{self._root.rstrip('/')}/{FOLDER}"

    def checkpoint(self, run_id: str) -> str:
        """Return the path or URI of Spark's checkpoint of a run, which need not exist."""
        return f"{self.place.rstrip('/')}/{FOLDER}/{run_id}.checkpoint"

    def audit(self, run_id: str, batch: int) -> str:
        """Return the path or URI of the folder for audit files of a micro-batch (docs/format/spark-audit.md)."""
        return f"{self.place.rstrip('/')}/{FOLDER}/{run_id}.audit/{batch}"

    def load(self, run_id: str) -> Manifest | None:
        """Return the manifest of a run, None if there is none; raise SettingsError if it is damaged or has unknown fields."""
        path = self._path(run_id)
        if self._files.get_file_info(path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            text = stream.read()
        try:
            return Manifest(**json.loads(text, object_hook=_from_json))
        except (ValueError, TypeError) as error:
            raise SettingsError(
                f"{self.place}/{FOLDER}/{run_id}.json is not a manifest of this version of CometMQ ({error}); finish "
                f"the run with the version that wrote it, or remove {self.place}/{FOLDER} to start over"
            ) from error

    def all(self, job: str) -> list[Manifest]:
        """Return the manifests of all runs of a job, sorted by id; raise SettingsError if one cannot be parsed."""
        chosen = fs.FileSelector(self._folder, allow_not_found=True)
        names = [each.base_name for each in self._files.get_file_info(chosen)]
        ids = [each.removesuffix(".json") for each in names if each.endswith(".json")]
        wanted = [
            each for each in sorted(ids) if each.rpartition("-")[0] == job.replace(" ", "-")
        ]
        return [found for each in wanted if (found := self.load(each)) is not None]

    def save(self, manifest: Manifest) -> None:
        """Write a manifest under another name, then rename it.

        Raises SettingsError if the folder or a permission is missing or a file is in its way, or another OSError.
        """
        path = self._path(manifest.id)
        text = json.dumps(asdict(manifest), indent=1, default=_to_json)
        try:
            self._files.create_dir(self._folder, recursive=True)
            with self._files.open_output_stream(f"{path}.new") as stream:
                stream.write(text.encode())
            self._files.move(f"{path}.new", path)
        except _NOT_WRITABLE as error:
            raise self._not_writable(error) from error

    @contextmanager
    def held(self, name: str, *, is_shared: bool = False) -> Iterator[None]:
        """Hold the lock `name` (a run's id, or one for the whole place) while the block runs; never wait for it.

        Runs that set `is_shared` can hold it at the same time. The lock ends when the process dies. Only local folders have
        such locks: elsewhere other runs are not excluded.

        Raises:
            RunGoesOn: Another run holds the lock, unless both share it.
            SettingsError: The folder cannot be written to.
        """
        if not isinstance(self._files, fs.LocalFileSystem):
            yield
            return
        path = Path(self._folder, f"{name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except _NOT_WRITABLE as error:
            raise self._not_writable(error) from error
        with file:
            try:
                kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunGoesOn(
                    f"another run writes to {self.place} ({path.name} is locked): wait until it has finished, or "
                    "stop it"
                ) from None
            yield

    def _not_writable(self, error: OSError) -> SettingsError:
        return SettingsError(
            f"{self.place} cannot be written to: {error}; name a folder in which this user may write"
        )

    def _path(self, run_id: str) -> str:
        return f"{self._folder}/{run_id}.json"
