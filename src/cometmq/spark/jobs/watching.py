"""Observation of Spark for the progress display: tasks of a batch, micro-batches of a stream."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
)

from cometmq.spark.jobs.connect_session import is_connect
from cometmq.spark.jobs.progress import RunProgress

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import ProgressHandler

_LOOK_EVERY_S = 0.5
# What `setJobGroup` sets, for the jobs of a thread.
_GROUP_PROPERTIES = "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"


@contextmanager
def watched_tasks(spark: SparkSession, name: str, progress: RunProgress) -> Iterator[None]:
    """Show the progress of the Spark jobs that this thread starts while the block runs, described as `name` in Spark's pages.

    With Spark Connect, of the whole session's.
    """
    watched = (
        _told_by_server(spark, progress)
        if is_connect(spark)
        else _looked_up(spark, name, progress)
    )
    with watched:
        yield


@contextmanager
def _told_by_server(spark: SparkSession, progress: RunProgress) -> Iterator[None]:
    """Show the progress of tasks, as the Spark Connect server reports it, while the context is open."""

    def told(stages: Iterable[Any] | None, **_: object) -> None:
        known = list(stages or ())
        progress.at_share(
            sum(stage.num_completed_tasks for stage in known),
            sum(stage.num_tasks for stage in known),
        )

    handler = cast("ProgressHandler", told)  # Any function with these arguments is accepted.
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


@contextmanager
def _looked_up(spark: SparkSession, name: str, progress: RunProgress) -> Iterator[None]:
    """Put this thread's Spark jobs into a group of their own, and poll and show their progress while the context is open."""
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in _GROUP_PROPERTIES}
    # A group lists its jobs also after they have ended, so each run needs one of its own.
    group = f"{name}-{uuid4()}"
    context.setJobGroup(group, name)
    tracker, ended = context.statusTracker(), Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
            ids = {stage for job in jobs if job for stage in job.stageIds}
            stages = [stage for each in ids if (stage := tracker.getStageInfo(each))]
            done = sum(stage.numCompletedTasks for stage in stages)
            progress.at_share(done, sum(stage.numTasks for stage in stages))

    watcher = Thread(target=look, name="job-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None removes it.


class StreamWatch(StreamingQueryListener):
    """Listener that updates a run's progress with the number of messages of topics that the query `name` has not read."""

    def __init__(self, name: str, progress: RunProgress) -> None:
        self._name = name
        self._progress = progress

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: there is no progress yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Show the progress again, because rates change even without new messages."""
        self._progress.show()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the job itself notices the end."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Show the number of unread messages after a micro-batch of the query `name`, if it reads topics."""
        if event.progress.name == self._name:
            found = [behind_of(each) for each in event.progress.sources]
            known = [behind for behind in found if behind is not None]
            self._progress.counts.behind = sum(known) if known else None
            self._progress.show()


def behind_of(source: SourceProgress) -> int | None:
    """Return the number of unread messages of a source of topics: latest offsets minus the batch's ends; None if unknown."""
    latest, end = _offsets(source.latestOffset), _offsets(source.endOffset)
    if not latest:
        return None
    return sum(max(0, offset - end.get(queue, offset)) for queue, offset in latest.items())


def _offsets(text: str | None) -> dict[tuple[str, str, str], int]:
    """Parse offsets of the format "rocketmq" by topic, broker and queue; empty for another format."""
    try:
        topics = json.loads(text or "{}").get("q", {})
    except (ValueError, AttributeError):
        return {}
    return {
        (topic, broker, queue): offset
        for topic, brokers in topics.items()
        for broker, queues in brokers.items()
        for queue, offset in queues.items()
    }
