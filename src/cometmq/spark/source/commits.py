"""Commit a query's offsets to a consumer group, including those of the last batch.

Spark notifies a Python source of a finished batch when it plans the next one, so never of the last batch.
Its progress reports contain the offsets of finished batches; a listener, or a call at the end, commits those.
"""

import json
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from cometmq.model.errors import SettingsError
from cometmq.spark.source.cluster import source_cluster
from cometmq.spark.source.offsets import Offsets, StreamOffset
from cometmq.spark.source.settings import SourceSettings


def commit_offsets(
    query: StreamingQuery, *, name_server: str, group: str, namespace: str = ""
) -> int:
    """Commit the offsets that a query has reached to a consumer group. Call it after the query has ended.

    Args:
        query: Streaming query; if it has not finished a batch of a RocketMQ source, nothing is committed.
        name_server: The query's option `nameServer`.
        group: The query's option `group`.
        namespace: The query's option `rocketmq.namespace`.

    Returns:
        Number of queues whose offset was committed.

    Raises:
        CometError: A broker did not store an offset or cannot be reached, or an argument is invalid.
    """
    progress = query.lastProgress
    if progress is None:
        return 0
    return _commit(progress.json, name_server, group, namespace)


class OffsetCommits(StreamingQueryListener):
    """Listener that commits the offsets of a query's finished batches: `spark.streams.addListener(OffsetCommits(...))`.

    Args:
        name_server: The query's option `nameServer`.
        group: The query's option `group`.
        query_name: Name of the query; the offsets of other queries are ignored.
        namespace: The query's option `rocketmq.namespace`.
    """

    def __init__(
        self, *, name_server: str, group: str, query_name: str, namespace: str = ""
    ) -> None:
        self._name_server = name_server
        self._group = group
        self._query_name = query_name
        self._namespace = namespace

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: this run of the query has not finished a batch yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Commit the end offsets in a progress report to the group, if the query has the listener's `query_name`."""
        if event.progress.name == self._query_name:
            _commit(event.progress.json, self._name_server, self._group, self._namespace)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there is no new batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: finished batches were reported before."""


def ends_of(progress: str) -> Offsets:
    """Return the end offsets by queue of all RocketMQ sources in a progress report (JSON text); empty without one."""
    ends: Offsets = {}
    for source in json.loads(progress)["sources"]:
        try:
            ends |= StreamOffset.from_json(_json_of(source["endOffset"])).ends
        except (SettingsError, ValueError, AttributeError, TypeError):
            continue  # The offset of a source of another format.
    return ends


def _json_of(offset: Any) -> Any:
    """Return an offset as a parsed JSON value; Spark reports some offsets as text."""
    return json.loads(offset) if isinstance(offset, str) else offset


def _commit(progress: str, name_server: str, group: str, namespace: str) -> int:
    ends = ends_of(progress)
    if ends:
        options = {
            "nameServer": name_server,
            "group": group,
            "rocketmq.namespace": namespace,
            "subscribePattern": ".*",
        }
        source_cluster(SourceSettings.parse(options, is_stream=True)).commit(ends)
    return len(ends)
