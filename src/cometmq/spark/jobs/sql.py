"""Job "sql": runs an SQL query over topics, stores or archives."""

import re
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch
from cometmq.spark.jobs.progress import RunProgress
from cometmq.spark.jobs.watching import watched_tasks
from cometmq.spark.options import words

_NO_NAME = re.compile(r"\W")


@dataclass(frozen=True, kw_only=True)
class SqlOptions(FromOptions, JobOptions):
    """Options of the job `sql`, which runs an SQL query, but no other statement, over topics, stores or archives."""

    query: str = option("SELECT … FROM messages, or FROM a topic's name.", is_argument=True)
    top: int = option("Maximum number of rows of the result.", 1000)


def run(spark: SparkSession, options: SqlOptions) -> Report:
    """Run an SQL query over views: `messages` has all chosen messages, and each topic of the option `topic` has its own.

    A view has its topic's name, with underscores for characters other than letters and digits. The report has at most
    `top` rows.

    Raises:
        SettingsError: No origin of messages, or a store and an archive, were given, two views would have one name, or
            the result has a time outside the years 1 to 9999.
    """
    views = _views(options.topic)
    if options.dry_run:
        return plan(options)
    for view, topic in views.items():
        read_batch(spark, replace(options, topic=topic)).createOrReplaceTempView(view)
    progress = RunProgress(options.progress, "sql")
    planned = plan(options).counts
    progress.expect(planned.get("rows"), planned.get("bytes", 0))
    with watched_tasks(spark, "sql", progress):
        # As a subquery only a query is valid: no DROP, no INSERT.
        question = options.query.strip().rstrip(";")
        answer = spark.sql(f"SELECT * FROM (\n{question}\n)")  # noqa: S608  It is the user's own.
        report = Report.of_table(answer.limit(options.top))
    progress.show(is_last=True)
    return report


def _views(topics: str) -> dict[str, str]:
    """Return the topics of each view, separated by commas, by its name; SettingsError if two views would share one."""
    views = {"messages": ",".join(dict.fromkeys(words(topics)))}
    for topic in words(topics):
        view = _NO_NAME.sub("_", topic)
        for name, other in views.items():
            # Spark's names have no case.
            if name.lower() == view.lower() and other != topic:
                raise SettingsError(
                    f"--topic: {in_quotes(other)} and {in_quotes(topic)} would both be the view {view}; query them "
                    "in two runs"
                )
        views[view] = topic
    return views


JOB = Job("sql", SqlOptions, run)
