"""Sessions of Spark Connect: which they are, and what a job says that cannot run in one.

The session is in this process, the driver in the server's. Spark has there neither tasks without a table (RDDs)
nor a tracker of jobs, and it runs a function of micro-batches in a process of the server: what that notes in a
manifest, the job never sees.
"""

from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.options import JobOptions


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: its class is another one with the same methods."""
    return not isinstance(spark, SparkSession)


def check_has_driver(spark: SparkSession, options: JobOptions, job: str) -> None:
    """Check that micro-batches of a job would be written by this process; a dry run has none.

    Raises:
        SettingsError: the session is one of Spark Connect.
    """
    if is_connect(spark) and not options.dry_run:
        raise SettingsError(
            f"{job} does not run over Spark Connect, whose server would write its micro-batches out of the "
            f"job's sight; run it beside a driver: `cometmq pipeline {job}` with --master local[*] or "
            "spark://host:7077, or in Python with cometmq.spark.session()"
        )
