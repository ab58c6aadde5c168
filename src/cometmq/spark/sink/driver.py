"""Driver's side of a transactional write: the client that commits, shared by writes with equal settings."""

from collections.abc import Sequence
from pathlib import Path

from cometmq.connect import SystemClock
from cometmq.spark.pool import shared
from cometmq.spark.sink.batch_committer import BatchCommitter
from cometmq.spark.sink.checks import TransactionChecks
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages
from cometmq.spark.sink.ledger import Ledgers
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored


class TransactionDriver:
    """Client on the Spark driver that commits and aborts transactional batches, and answers transaction checks."""

    is_busy = False  # May be closed at any time: brokers repeat checks later.

    def __init__(self, settings: SinkSettings) -> None:
        folder = settings.ledger_folder or ""
        self._checks = TransactionChecks(
            ";".join(settings.name_servers),
            group=settings.group,
            ledger_dir=folder,
            namespace=settings.namespace,
            credentials=settings.credentials,
            tls=settings.tls,
        )
        self._checks.__enter__()
        self._committer = BatchCommitter(
            Ledgers(Path(folder)), self._checks.producer, settings, SystemClock().now_ms
        )

    def commit(self, tasks: Sequence[TaskStored]) -> None:
        """Commit each batch of the tasks once: their half messages, or those that the ledger lists from an earlier run.

        Raises CometError if a commit is too late or not confirmed, CometError or OSError if the ledger cannot be used.
        """
        for key, half_messages, born_ms in _batches(tasks):
            self._committer.commit(key, half_messages, born_ms=born_ms)

    def abort(self, tasks: Sequence[TaskStored]) -> None:
        """Ask brokers to roll back the half messages of tasks, except the ones that their ledger lists for commit."""
        for key, half_messages, _ in _batches(tasks):
            self._committer.abort(key, half_messages)

    def close(self) -> None:
        """Leave the producer group, answer no more transaction checks, and close the connections."""
        self._checks.__exit__(None, None, None)


def driver(settings: SinkSettings) -> TransactionDriver:
    """Return the client that commits and aborts transactional writes; equal settings in a process share one client."""
    key = ("driver", settings.name_servers, settings.namespace, settings.group,
           settings.ledger_folder, settings.delivery_timeout_ms, settings.immunity_ms, settings.credentials, settings.tls)  # fmt: skip
    return shared(key, lambda: TransactionDriver(settings))


def _batches(tasks: Sequence[TaskStored]) -> list[tuple[BatchKey, list[HalfMessages], int]]:
    """Group the half messages of tasks by batch; return key, half messages and start of the first task (ms since 1970)."""
    by_key: dict[BatchKey, list[TaskStored]] = {}
    for task in tasks:
        by_key.setdefault(BatchKey(task.run.query, task.run.batch), []).append(task)
    return [
        (key, [each for task in of_key for each in task.half_messages],
         min(task.born_ms for task in of_key))
        for key, of_key in by_key.items()
    ]  # fmt: skip
