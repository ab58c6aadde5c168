"""Task of the sink: sends its rows, and succeeds only if all of them are acknowledged."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.datasource import WriterCommitMessage

from cometmq import SendResult, TransactionState
from cometmq.model import properties as keys_of
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Request, RowPlace, RowPlaces, cut, slices
from cometmq.spark.sink.cluster import SinkCluster, sink_cluster
from cometmq.spark.sink.columns import RowTarget, SinkColumns
from cometmq.spark.sink.encode import SPARK_RUN, encode_rows
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages, count_of
from cometmq.spark.sink.identity import ColumnIds, Ids, RunIds, SequencedIds, TaskRun
from cometmq.spark.sink.options import BY_PARTITION, IDEMPOTENT
from cometmq.spark.sink.sender import StoredRows, TaskSender
from cometmq.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class TaskStored(WriterCommitMessage):
    """Commit message of a task, which Spark passes to the driver: the messages that the task has stored.

    Attributes:
        run: Identity of the task.
        queues: Messages that are neither half messages nor delayed, by queue.
        delayed: Number of rows with a delay level or delivery time.
        half_messages: Half messages that wait for the commit of their batch.
        born_ms: Start of the task, ms since 1970.
    """

    run: TaskRun
    queues: dict[MessageQueue, StoredRows]
    delayed: int
    half_messages: list[HalfMessages]
    born_ms: int

    @property
    def rows(self) -> int:
        """Number of messages that the task has stored, including delayed and half messages."""
        at_once = sum(each.rows for each in self.queues.values())
        return at_once + self.delayed + count_of(self.half_messages)


def write_rows(
    batches: Iterator["pa.RecordBatch"],
    settings: SinkSettings,
    columns: SinkColumns,
    run: TaskRun,
) -> TaskStored:
    """Send a task's rows, wait until all are stored and report them; raise CometError for a bad row or failed request.

    After an error, brokers are asked to roll back the acknowledged half messages; other stored rows remain.
    """
    cluster = sink_cluster(settings)
    own_queue = run.partition if settings.queue_selector == BY_PARTITION else None
    acknowledged = _AcknowledgedHalfMessages()
    sender = TaskSender(
        cluster, settings, own_queue, acknowledged.add if settings.is_transactional else None
    )
    born_ms = time_ns() // 1_000_000
    try:
        with cluster.used():
            _send(batches, sender, columns, run)
    except BaseException:
        if settings.is_transactional:
            # If the task is killed instead, brokers' transaction checks lead to the rollback.
            sender.give_up()
            for half_messages in acknowledged.by_place.values():
                cluster.resolver.end(
                    half_messages.messages(), TransactionState.ROLLBACK, late=True
                )
        raise
    return TaskStored(
        run, sender.stored, sender.delayed, list(acknowledged.by_place.values()), born_ms
    )


def _send(
    batches: Iterator["pa.RecordBatch"], sender: TaskSender, columns: SinkColumns, run: TaskRun
) -> None:
    settings = sender.settings
    ids = _ids(settings, columns, run, sender.cluster)
    marks = _half_marks(settings, run) if settings.is_transactional else None
    for batch in batches:
        for piece in slices(batch):
            rows = encode_rows(
                piece, columns, ids, compress_min=settings.compress_min, marks=marks
            )
            for request in cut(rows, _places(piece, columns, sender), settings):
                sender.send(request)
    sender.finish()


class _AcknowledgedHalfMessages:
    """Half messages of a task that brokers have acknowledged, by broker and topic."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, str], HalfMessages] = {}

    def add(self, request: Request, result: SendResult) -> None:
        place = result.queue.broker_name, request.place.topic
        half_messages = self.by_place.setdefault(place, HalfMessages(*place))
        half_messages.add(result)


def _half_marks(settings: SinkSettings, run: TaskRun) -> dict[str, str]:
    """Return the properties that mark messages of a task as half messages of their transactional batch."""
    return {
        keys_of.TRAN_MSG: "true",
        keys_of.PRODUCER_GROUP: settings.group,
        keys_of.CHECK_IMMUNITY_SECONDS: str(-(-settings.immunity_ms // 1000)),
        SPARK_RUN: str(BatchKey(run.query, run.batch)),
    }


def _ids(
    settings: SinkSettings, columns: SinkColumns, run: TaskRun, cluster: SinkCluster
) -> Ids:
    if settings.is_transactional:
        return SequencedIds(cluster.ids.make, run)
    if settings.delivery != IDEMPOTENT:
        return cluster.ids
    return RunIds(run) if columns.id_column is None else ColumnIds(run, columns.id_column)


def _places(
    batch: "pa.RecordBatch", columns: SinkColumns, sender: TaskSender
) -> RowPlace | RowPlaces:
    """Return the topic and queue of all rows, or of each row; looked up once per distinct target."""
    targets = columns.targets(batch)
    if targets is None:
        return sender.place_of(RowTarget(columns.topic or ""))
    numbers: dict[RowPlace, int] = {}
    of_targets = [
        numbers.setdefault(sender.place_of(each), len(numbers)) for each in targets.distinct
    ]
    return RowPlaces(list(numbers), np.array(of_targets, np.int64)[targets.of_rows])
