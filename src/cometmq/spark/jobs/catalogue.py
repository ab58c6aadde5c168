"""All jobs by their names. A new one is a module with a `JOB`, and a line here."""

from typing import Any

from cometmq.spark.jobs import (
    archive,
    cdc,
    compact,
    dlq,
    kafka,
    lag,
    mirror,
    rebuild,
    replay,
    sql,
    stats,
    table,
    trace,
    verify,
)
from cometmq.spark.jobs.job import Job

JOBS: tuple[Job[Any], ...] = (
    stats.JOB,
    sql.JOB,
    *dlq.JOBS,
    replay.JOB,
    table.JOB,
    cdc.JOB,
    compact.JOB,
    trace.JOB,
    lag.JOB,
    mirror.JOB,
    *archive.JOBS,
    verify.JOB,
    rebuild.JOB,
    *kafka.JOBS,
)


def job_of(name: str) -> Job[Any]:
    """The job with a name.

    Raises:
        KeyError: there is none.
    """
    return {job.name: job for job in JOBS}[name]
