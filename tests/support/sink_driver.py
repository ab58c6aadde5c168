"""A driver of the Spark sink without Spark: it runs micro-batches as Spark does, and kills itself where it is told.

    python -m tests.support.sink_driver WORK.json

The work: `folder` (checkpoint and ledgers), `nameserver`, `batches` (how many there are in all), and `step`, where
this life ends: by SIGKILL, within the first batch that it begins anew. What a life before it left in the middle is run
again first: same query, same batch, same rows. Each batch goes to three topics, one for each promise.
"""

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from cometmq import TransactionState
from cometmq.admin import HalfMessage
from cometmq.connect import EncodedProducer
from cometmq.model.errors import CometError
from cometmq.spark.sink.batch_committer import BatchCommitter
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.driver import driver
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages
from cometmq.spark.sink.identity import TaskRun
from cometmq.spark.sink.ledger import Ledgers
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored, write_rows

DELIVERIES = ("at-least-once", "idempotent", "transactional")
TASKS, ROWS = 2, 200
STEPS = (
    "before the write",
    *(f"in the middle of a task, {delivery}" for delivery in DELIVERIES),
    "after the write",
    "between ledger and END_TRANSACTION",
    "in the middle of END_TRANSACTION",
    "between END_TRANSACTION and done",
    "after a commit that failed and its abort",
    "after the commit, before the checkpoint",
    "after the checkpoint",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def bodies(batch: int, task: int) -> list[str]:
    return [f"{batch}-{task}-{row}" for row in range(ROWS)]


def topic_of(delivery: str) -> str:
    return f"killed-{delivery}"


class KillingLedgers(Ledgers):
    """Ledgers that end the process behind or before a write."""

    step = ""

    def begin(self, key: BatchKey, group: str, half_messages: Sequence[HalfMessages]) -> None:
        super().begin(key, group, half_messages)
        if self.step == "between ledger and END_TRANSACTION":
            die()

    def finish(self, key: BatchKey) -> None:
        if self.step == "between END_TRANSACTION and done":
            die()
        super().finish(key)


class KillingResolver:
    """Tells brokers half of it."""

    def __init__(self, resolver: EncodedProducer, step: str) -> None:
        self.resolver = resolver
        self.step = step
        self.committed = resolver.committed

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> Sequence[CometError | None]:
        first = half_messages[: len(half_messages) // 2]
        if state is TransactionState.COMMIT and self.step.startswith("in the middle of END"):
            self.resolver.end(first, state, late=late)
            die()
        if state is TransactionState.COMMIT and self.step.startswith("after a commit that"):
            self.resolver.end(first, state, late=late)
            raise CometError("the commit fails half way")
        return self.resolver.end(half_messages, state, late=late)


class Life:
    def __init__(self, work: dict[str, str]) -> None:
        self.folder = Path(work["folder"])
        self.step = ""
        self.settings = {
            delivery: SinkSettings.parse(
                {
                    "nameServer": work["nameserver"],
                    "topic": topic_of(delivery),
                    "delivery": delivery,
                    "group": f"killed-{delivery}",
                    "batch.maxMessages": "50",
                    **({"ledgerDir": str(self.folder)} if delivery == "transactional" else {}),
                },
                is_stream=True,
            )
            for delivery in DELIVERIES
        }

    # --- Spark's checkpoint: a batch that began, and one that was committed

    def next_batch(self) -> int:
        path = self.folder / "committed"
        return int(path.read_text()) + 1 if path.exists() else 0

    def has_begun(self, batch: int) -> bool:
        return (self.folder / f"begun-{batch}").exists()

    # --- one batch

    def run(self, batch: int) -> None:
        (self.folder / f"begun-{batch}").touch()
        self.die_at("before the write")
        messages = {
            delivery: [self.write(delivery, batch, task) for task in range(TASKS)]
            for delivery in DELIVERIES
        }
        self.die_at("after the write")
        self.commit(messages["transactional"])
        self.die_at("after the commit, before the checkpoint")
        (self.folder / "committed").write_text(str(batch))
        self.die_at("after the checkpoint")

    def die_at(self, step: str) -> None:
        if self.step == step:
            die()

    def write(self, delivery: str, batch: int, task: int) -> TaskStored:
        settings = self.settings[delivery]
        columns = SinkColumns.of(StructType([StructField("body", StringType())]), settings)
        run = TaskRun("query", batch, task)
        stored = write_rows(self.rows(delivery, batch, task), settings, columns, run)
        copied: TaskStored = pickle.loads(pickle.dumps(stored))
        return copied

    def rows(self, delivery: str, batch: int, task: int) -> Iterator[pa.RecordBatch]:
        texts = bodies(batch, task)
        yield pa.record_batch({"body": texts[: ROWS // 2]})
        if task == 1 and self.step == f"in the middle of a task, {delivery}":
            time.sleep(0.2)  # So that something of it is stored.
            die()
        yield pa.record_batch({"body": texts[ROWS // 2 :]})

    def commit(self, tasks: list[TaskStored]) -> None:
        of_query = driver(self.settings["transactional"])
        whole: BatchCommitter = of_query._committer
        ledgers = KillingLedgers(self.folder)
        ledgers.step = self.step
        of_query._committer = replace(
            whole,
            ledgers=ledgers,
            resolver=cast(EncodedProducer, KillingResolver(whole.resolver, self.step)),
        )
        try:
            of_query.commit(tasks)
        except CometError:
            of_query.abort(tasks)
            self.die_at("after a commit that failed and its abort")
            raise
        finally:
            of_query._committer = whole


def main() -> None:
    work = json.loads(Path(sys.argv[1]).read_text())
    life = Life(work)
    for batch in range(life.next_batch(), int(work["batches"])):
        life.step = "" if life.has_begun(batch) else work["step"]
        life.run(batch)


if __name__ == "__main__":
    main()
