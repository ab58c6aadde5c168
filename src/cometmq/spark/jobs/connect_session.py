"""Detection of Spark Connect sessions, and the error of jobs that cannot run in one.

With Spark Connect the session is in this process and the driver in the server. There are no RDDs and no status tracker,
and functions of micro-batches run in a process of the server: the job does not see their changes to a manifest.
"""

from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.options import JobOptions


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, whose class is not the usual `SparkSession`."""
    return not isinstance(spark, SparkSession)


def check_has_driver(spark: SparkSession, options: JobOptions, job: str) -> None:
    """Raise SettingsError if the session is one of Spark Connect, unless the job is a dry run."""
    if is_connect(spark) and not options.dry_run:
        raise SettingsError(
            f"{job} cannot run over Spark Connect, because the job could not observe the micro-batches that the "
            f"server writes; run it with a driver of its own: `cometmq pipeline {job}` with --master local[*] or "
            "spark://host:7077, or in Python with cometmq.spark.session()"
        )
