"""Audit files of what brokers have acknowledged: one for each write, with `auditDir` (docs/format/spark-audit.md).

The driver writes it when Spark tells it that all tasks are done, or that one failed: from the commit
messages of the tasks, which exist only when every row of theirs is acknowledged.
"""

import json
from collections.abc import Sequence
from typing import Any

from cometmq.offline.place import open_place
from cometmq.spark.sink.task import TaskStored

VERSION = 1
STORED, ABORTED = "stored", "aborted"


def audit_of(tasks: Sequence[TaskStored], state: str) -> dict[str, Any]:
    """The content of an audit.

    Args:
        tasks: of one write, at least one.
        state: `STORED`, or `ABORTED` where a task failed: of these the rows are in the topics all the same,
            but for half messages.
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
    """Keep what a write has stored: whole or not at all. A write without rows leaves nothing.

    Args:
        folder: the option `auditDir`: a folder or a URI that pyarrow's file systems know.
        tasks: those that are done.
        state: `STORED` or `ABORTED`.

    Raises:
        OSError: it could not be written.
    """
    if not tasks:
        return
    files, root = open_place(folder)
    files.create_dir(root, recursive=True)
    path = f"{root}/{tasks[0].run.query}-{tasks[0].run.batch}.json"
    with files.open_output_stream(f"{path}.new") as stream:
        stream.write(json.dumps(audit_of(tasks, state), indent=1).encode())
    files.move(f"{path}.new", path)
