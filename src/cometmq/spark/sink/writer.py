"""The sink: rows to messages, acknowledged before Spark hears that a task is done.

The promise is at-least-once. A row is stored when its task's commit message exists; a task or a
batch that Spark runs again sends its rows again, under new message ids.

Next: cometmq.spark.sink.sender
"""

# ruff: noqa: N803  Spark gives these names.

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Place, cut, slices
from cometmq.spark.sink.client_cluster import sink_cluster
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.encode import encode_rows
from cometmq.spark.sink.sender import Sender, Stored
from cometmq.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass
class TaskStored(WriterCommitMessage):
    """What one task has stored, queue by queue."""

    queues: dict[MessageQueue, Stored]

    @property
    def rows(self) -> int:
        """Messages of the task."""
        return sum(each.rows for each in self.queues.values())


def write_rows(
    batches: Iterator["pa.RecordBatch"], settings: SinkSettings, columns: SinkColumns
) -> TaskStored:
    """Send the rows of a task and wait until all are stored.

    Raises:
        CometError: a row is no message, or a batch was not stored after all tries.
    """
    cluster = sink_cluster(settings)
    sender = Sender(cluster, settings)
    for batch in batches:
        for piece in slices(batch):
            items = encode_rows(piece, columns, cluster.new_message_id)
            targets = columns.targets(piece)
            places = (
                Place(columns.topic or "")
                if targets is None
                else [sender.place_of(each) for each in targets]
            )
            for request in cut(items, places, settings):
                sender.send(request)
    sender.finish()
    return TaskStored(sender.stored)


def _report(messages: Sequence[WriterCommitMessage | None], what: str) -> None:
    done = [each for each in messages if isinstance(each, TaskStored)]
    log.info(
        "%s: %d tasks stored %d messages", what, len(done), sum(each.rows for each in done)
    )


def _report_abort(messages: Sequence[WriterCommitMessage | None], what: str) -> None:
    rows = sum(each.rows for each in messages if isinstance(each, TaskStored))
    log.warning(
        "%s failed; %d messages that its tasks have stored stay in the topics", what, rows
    )


class RocketMQWriter(DataSourceArrowWriter):
    """Sends a batch.

    Args:
        settings: the options.
        columns: which column is what.
    """

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskStored:
        """Send the rows of a task, in an executor."""
        return write_rows(iterator, self._settings, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done and everything is stored."""
        _report(messages, "write")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed; what the others stored stays."""
        _report_abort(messages, "write")


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Sends micro-batches.

    Args:
        settings: the options.
        columns: which column is what.
    """

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskStored:
        """Send the rows of a task, in an executor."""
        return write_rows(iterator, self._settings, self._columns)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of the micro-batch are done and everything is stored."""
        _report(messages, f"micro-batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A task failed; Spark runs the micro-batch again, so its rows come again."""
        _report_abort(messages, f"micro-batch {batchId}")
