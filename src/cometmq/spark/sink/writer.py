"""Writers of the Spark format "rocketmq", which Spark calls in executors and on the driver.

Their guarantee depends on the option `delivery` (docs/spark/delivery.md). When a task's commit message exists, brokers
have acknowledged all rows of the task, in a transactional write as half messages. With the option `auditDir`, the driver
writes an audit file from these messages, if any, when Spark commits or aborts the write (docs/format/spark-audit.md).
"""

# ruff: noqa: N803  Spark gives these names.

import json
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from cometmq.model.errors import CometError
from cometmq.model.text import plural
from cometmq.offline.place import open_place
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.driver import driver
from cometmq.spark.sink.identity import TaskRun
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# Local properties from which a streaming task learns its query and batch.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

VERSION = 1
STORED, ABORTED = "stored", "aborted"


def audit_of(tasks: Sequence[TaskStored], state: str) -> dict[str, Any]:
    """Return the content of an audit file, as a dict for JSON, for the finished tasks (at least one) of a write.

    Args:
        tasks: Finished tasks.
        state: `STORED`, or `ABORTED` if the write failed: brokers have the listed rows nevertheless, but half messages
            are usually rolled back.
    """
    run = tasks[0].run
    return {
        "v": VERSION,
        "write": run.query,
        "batch": run.batch,
        "state": state,
        "rows": sum(task.rows for task in tasks),
        "tasks": [
            _of_task(task) for task in sorted(tasks, key=lambda task: task.run.partition)
        ],
    }


def _of_task(task: TaskStored) -> dict[str, Any]:
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "first": stored.first,
            "last": stored.last,
            "rows": stored.rows,
        }
        for queue, stored in sorted(task.queues.items())
    ]
    half_messages = (
        task.rows - task.delayed - sum(stored.rows for stored in task.queues.values())
    )
    return {
        "partition": task.run.partition,
        "queues": queues,
        "delayed": task.delayed,
        "halves": half_messages,
    }


def write_audit(folder: str, tasks: Sequence[TaskStored], state: str) -> None:
    """Write an audit file into `folder` (option `auditDir`) unless `tasks` is empty; may raise OSError or SettingsError."""
    if not tasks:
        return
    files, root = open_place(folder)
    files.create_dir(root, recursive=True)
    path = f"{root}/{tasks[0].run.query}-{tasks[0].run.batch}.json"
    with files.open_output_stream(f"{path}.new") as stream:
        stream.write(json.dumps(audit_of(tasks, state), indent=1).encode())
    files.move(f"{path}.new", path)


Messages = Sequence[WriterCommitMessage | None]


def _stored(messages: Messages) -> list[TaskStored]:
    return [each for each in messages if isinstance(each, TaskStored)]


def _commit(messages: Messages, what: str, settings: SinkSettings) -> None:
    done = _stored(messages)
    if settings.is_transactional:
        driver(settings).commit(done)
    _note(done, STORED, settings)
    rows = sum(each.rows for each in done)
    log.info(
        "%s is complete: %d %s stored %d %s",
        what, len(done), plural(len(done), "task"), rows, plural(rows, "message"),
    )  # fmt: skip


def _note(done: Sequence[TaskStored], state: str, settings: SinkSettings) -> None:
    if settings.audit_folder is not None:
        write_audit(settings.audit_folder, done, state)


def _abort(messages: Messages, what: str, settings: SinkSettings) -> None:
    done = _stored(messages)
    if settings.is_transactional:
        driver(settings).abort(done)
    else:
        rows = sum(each.rows for each in done)
        log.warning(
            "%s failed; %d %s that its tasks have stored remain in the topics",
            what,
            rows,
            plural(rows, "message"),
        )
    _note(done, ABORTED, settings)


class RocketMQWriter(DataSourceArrowWriter):
    """Writer that sends the rows of a batch query."""

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns
        # Chosen once, on the driver, so that repeated tasks belong to the same write.
        self._write = settings.write_id or uuid4().hex

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskStored:
        """Send the rows of a task, and report the stored messages to the driver; runs in an executor."""
        context = TaskContext.get()
        run = TaskRun(self._write, 0, context.partitionId() if context else 0)
        return write_rows(iterator, self._settings, self._columns, run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the half messages of a transactional write, and write an audit file if `auditDir` is set and tasks have finished."""
        _commit(messages, "write", self._settings)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ask brokers to roll back half messages that no ledger lists; other rows stay. May write an audit file."""
        _abort(messages, "write", self._settings)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writer that sends the micro-batches of a streaming query."""

    def __init__(self, settings: SinkSettings, columns: SinkColumns) -> None:
        self._settings = settings
        self._columns = columns

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskStored:
        """Send the rows of a task, and report the stored messages to the driver; runs in an executor."""
        return write_rows(iterator, self._settings, self._columns, _run_of_task())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the half messages of a transactional write, and write an audit file if `auditDir` is set and tasks have finished."""
        _commit(messages, f"micro-batch {batchId}", self._settings)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Ask brokers to roll back half messages that no ledger lists; other rows stay, and a repeat sends them again.

        Writes the audit file if the option `auditDir` is set and a task has finished.
        """
        _abort(messages, f"micro-batch {batchId}", self._settings)


def _run_of_task() -> TaskRun:
    """Return the identity of the running task; raise CometError if Spark does not pass it, as before version 4.2."""
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context else None
    batch = context.getLocalProperty(_BATCH) if context else None
    if context is None or query is None or batch is None:
        raise CometError(
            f"Spark does not pass the number of the micro-batch to its tasks ({_QUERY}, {_BATCH}); use Spark 4.2 "
            "or newer"
        )
    return TaskRun(query, int(batch), context.partitionId())
