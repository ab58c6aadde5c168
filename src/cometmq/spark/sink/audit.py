"""Audit files of acknowledged messages, at most one per write or micro-batch: option `auditDir`, docs/format/spark-audit.md.

The driver writes the file when Spark commits or aborts the write, if any task has finished. It uses the tasks' commit
messages, which exist only after all rows of the task are acknowledged.
"""

import json
from collections.abc import Sequence
from typing import Any

from cometmq.offline.place import open_place
from cometmq.spark.sink.task import TaskStored

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
