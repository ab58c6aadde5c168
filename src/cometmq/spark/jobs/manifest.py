"""The manifest of a run: `_jobs/<id>.json` beside its output, on any file system.

It is written under another name and renamed, so a reader sees the old one or the new one. A
manifest with the status "running" whose process is gone is one of a killed run.

    {"id": "table-1f0c…", "job": "table", "status": "done", "options": {…}, "ranges": […],
     "counts": {"rows": 1000}, "batch": 3, "before": {"rows": 750}, "files": […], …}
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyarrow import fs

from cometmq.model.errors import CometError, SettingsError
from cometmq.offline.place import hadoop_place, open_place

FOLDER = "_jobs"
_ID_DIGITS = 12
_NOT_WRITABLE = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)


class RunGoesOn(CometError):
    """Raised where another run writes to the same place."""


@dataclass
class Manifest:
    """The state of a run, as its file keeps it.

    Attributes:
        id: the job and a hash of what it was told to do.
        job: its name.
        name: the part of its files' names that tells them from those of other runs, also from those of a run with the
            same id whose manifest was deleted; empty: the hash in the id.
        options: what it was told to do.
        status: where it is.
        ranges: what it reads, as its source describes it; fixed when it begins.
        counts: what it has done so far.
        batch: the micro-batch that was counted last; -1 before the first.
        before: the counts before that one, so that it is counted once though it runs twice.
        ahead: of a run that sends: the micro-batch that was begun last, and where the target's
            queues ended before it.
        files: what it has written, where a job names its files.
        result: the answer, where it is a table: `{"columns": […], "rows": […]}`.
        versions: of CometMQ, Spark and Python.
        started_ms: when the first run began, ms since 1970.
        ended_ms: when the last run ended; None while it runs.
        error: why it failed.
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
        """Add what a micro-batch did; one that runs again replaces what it did before."""
        if batch != self.batch:
            self.batch, self.before = batch, dict(self.counts)
        names = {**self.before, **counts}
        self.counts = {name: self.before.get(name, 0) + counts.get(name, 0) for name in names}


def manifest_id(job: str, what: dict[str, Any]) -> str:
    """The id of a run, the same for the same deed: the job's name and a hash of its options."""
    text = json.dumps([job, what], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    return f"{job.replace(' ', '-')}-{digest}"


class JobFolder:
    """The folder `_jobs` beside an output.

    Args:
        place: where the output is: a path, or a URI that pyarrow's file systems know.

    Raises:
        SettingsError: nobody knows such a place.
    """

    def __init__(self, place: str) -> None:
        self.place = hadoop_place(place)
        self._files, self._root = open_place(self.place)
        self._folder = f"{self._root.rstrip('/')}/{FOLDER}"

    def checkpoint(self, run_id: str) -> str:
        """The path of Spark's checkpoint of a run."""
        return f"{self.place.rstrip('/')}/{FOLDER}/{run_id}.checkpoint"

    def audit(self, run_id: str, batch: int) -> str:
        """The folder of the audits of a micro-batch (docs/format/spark-audit.md)."""
        return f"{self.place.rstrip('/')}/{FOLDER}/{run_id}.audit/{batch}"

    def load(self, run_id: str) -> Manifest | None:
        """The manifest of a run; None where there is none.

        Raises:
            SettingsError: the file is damaged, or of another version.
        """
        path = self._path(run_id)
        if self._files.get_file_info(path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            text = stream.read()
        try:
            return Manifest(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise SettingsError(
                f"{self.place}/{FOLDER}/{run_id}.json is no manifest of this version of CometMQ ({error}); finish the "
                f"run with the version that wrote it, or remove {self.place}/{FOLDER} to begin anew"
            ) from error

    def all(self, job: str) -> list[Manifest]:
        """The manifests of all runs of a job.

        Raises:
            SettingsError: one is damaged, or of another version.
        """
        chosen = fs.FileSelector(self._folder, allow_not_found=True)
        names = [each.base_name for each in self._files.get_file_info(chosen)]
        ids = [each.removesuffix(".json") for each in names if each.endswith(".json")]
        wanted = [
            each for each in sorted(ids) if each.rpartition("-")[0] == job.replace(" ", "-")
        ]
        return [found for each in wanted if (found := self.load(each)) is not None]

    def save(self, manifest: Manifest) -> None:
        """Write a manifest, whole or not at all.

        Raises:
            SettingsError: there is no such folder to write to.
            OSError: the disk failed.
        """
        path = self._path(manifest.id)
        text = json.dumps(asdict(manifest), indent=1, default=str)
        try:
            self._files.create_dir(self._folder, recursive=True)
            with self._files.open_output_stream(f"{path}.new") as stream:
                stream.write(text.encode())
            self._files.move(f"{path}.new", path)
        except _NOT_WRITABLE as error:
            raise self._not_writable(error) from error

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keep other runs out while the block runs; the system ends that when the process dies.

        An object store has no such locks: there nothing is kept out.

        Args:
            name: of what is held: a run's id, or a name for the whole place.

        Raises:
            RunGoesOn: another run holds it.
            SettingsError: there is no such folder to write to.
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
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunGoesOn(
                    f"another run writes to {self.place} ({path.name} is locked): wait until it has ended, or end it"
                ) from None
            yield

    def _not_writable(self, error: OSError) -> SettingsError:
        return SettingsError(
            f"{self.place} cannot be written to: {error}; name a folder that this user may write to"
        )

    def _path(self, run_id: str) -> str:
        return f"{self._folder}/{run_id}.json"
