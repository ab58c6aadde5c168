"""Catalogue of all jobs by name. A new job is a module with a `JOB` or `JOBS`, and an entry here.

Modules are imported on use, so that starting one job does not load all of them.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from cometmq.spark.jobs.job import Job

# Module by the first word of a job's name, in the order of the command's help.
_MODULES = {
    "stats": "stats",
    "sql": "sql",
    "dlq": "dlq",
    "replay": "replay",
    "table": "table",
    "cdc": "cdc",
    "compact": "compact",
    "trace": "trace",
    "mirror": "mirror",
    "archive": "archive",
    "restore": "archive",
    "verify": "verify",
    "rebuild-index": "rebuild",
    "import-kafka": "kafka",
    "export-kafka": "kafka",
}


def all_jobs() -> list[Job[Any]]:
    """Return all jobs of `cometmq pipeline`, in the order of its help."""
    return [job for word in _MODULES for job in _of(word)]


def jobs_of(word: str) -> list[Job[Any]]:
    """Return the jobs whose names have `word` as first word, such as "dlq"; all jobs if none has."""
    return list(_of(word)) if word in _MODULES else all_jobs()


def _of(word: str) -> Iterator[Job[Any]]:
    module = import_module(f"{__package__}.{_MODULES[word]}")
    jobs = getattr(module, "JOBS", None) or (module.JOB,)
    return (job for job in jobs if job.name.partition(" ")[0] == word)
