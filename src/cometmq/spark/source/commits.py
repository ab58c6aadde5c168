"""Offsets of a query stored in a consumer group, the last batch's too.

Spark tells a Python source of a finished batch when it plans the next one, so never of the last.
What it reports of each batch has the offsets; a listener, or a call at the end, stores them.
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
from cometmq.spark.source.client_cluster import source_cluster
from cometmq.spark.source.offsets import Offsets, StreamOffset
from cometmq.spark.source.settings import SourceSettings


def commit_offsets(
    query: StreamingQuery, *, name_server: str, group: str, namespace: str = ""
) -> int:
    """Store where a query stands in a consumer group: call it when the query has ended.

    Args:
        query: it has run at least one batch, or nothing is stored.
        name_server: as the query's option `nameServer`.
        group: as its option `group`.
        namespace: as its option `rocketmq.namespace`.

    Returns:
        For how many queues an offset was stored.

    Raises:
        CometError: a broker did not store it.
    """
    progress = query.lastProgress
    if progress is None:
        return 0
    return _commit(progress.json, name_server, group, namespace)


class OffsetCommits(StreamingQueryListener):
    """Stores the offsets of each finished batch: `spark.streams.addListener(OffsetCommits(...))`.

    Args:
        name_server: as the query's option `nameServer`.
        group: as its option `group`.
        query_name: the query's name; it is the only one whose offsets are stored.
        namespace: as the query's option `rocketmq.namespace`.
    """

    def __init__(
        self, *, name_server: str, group: str, query_name: str, namespace: str = ""
    ) -> None:
        self._name_server = name_server
        self._group = group
        self._query_name = query_name
        self._namespace = namespace

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: no batch is finished yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Store the offsets of a finished batch."""
        if event.progress.name == self._query_name:
            _commit(event.progress.json, self._name_server, self._group, self._namespace)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: no batch is new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: each batch was reported when it was finished."""


def ends_of(progress: str) -> Offsets:
    """The ends of the queues of all sources of this format in a progress report."""
    ends: Offsets = {}
    for source in json.loads(progress)["sources"]:
        try:
            ends |= StreamOffset.from_json(_json_of(source["endOffset"])).ends
        except (SettingsError, ValueError, AttributeError, TypeError):
            continue  # The offset of another kind of source.
    return ends


def _json_of(offset: Any) -> Any:
    """Spark reports an offset as JSON or, where it is not sure that it is some, as text."""
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
