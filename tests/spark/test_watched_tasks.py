"""What the progress of a job counts: the tasks of its own run, and no others of the session."""

import time

from pyspark.sql import SparkSession

from cometmq.spark.jobs.progress import RunProgress
from cometmq.spark.jobs.watching import watched_tasks


def tasks_of_a_run(spark: SparkSession, tasks: int) -> int | None:
    """How many tasks the progress of a run with one job of so many tasks has seen."""
    context, progress = spark.sparkContext, RunProgress("none", "sql")

    def slow(rows):
        time.sleep(1.5)  # The progress is looked up twice a second.
        return rows

    with watched_tasks(spark, "sql", progress):
        context.parallelize(range(tasks), tasks).mapPartitions(slow).count()
    return progress.counts.tasks_total


def test_a_second_run_in_the_session_counts_its_own_tasks(spark: SparkSession):
    context = spark.sparkContext
    context.setJobGroup("mine", "what the user does")
    try:
        assert [tasks_of_a_run(spark, 2), tasks_of_a_run(spark, 1)] == [2, 1]
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "what the user does"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
