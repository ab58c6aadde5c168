"""A Spark application that copies a topic to two others, one for each promise that needs Spark's word, and is killed where it is told.

    python -m tests.support.spark_sink_app WORK.json

The work: `nameserver`, `source`, `folder` (checkpoints and ledgers), and `steps`: in which batch the transactional query loses a worker
in the middle of a task, and in which it ends everything by SIGKILL, the JVM first. It ends when all is copied that is there.
"""

# ruff: noqa: N802, N803  Spark gives these names.

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from cometmq.spark import session
from cometmq.spark.format import RocketMQSource
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.driver import driver
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages
from cometmq.spark.sink.ledger import Ledgers
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored
from cometmq.spark.sink.writer import RocketMQStreamWriter

LEDGER, TASK = "between ledger and END_TRANSACTION", "in a task"
DELIVERIES = ("idempotent", "transactional")
BATCH_ROWS = 300
_STEPS, _DRIVER = "SINK_STEPS", "SINK_DRIVER"


def is_no_java(process: psutil.Process) -> bool:
    """Also of one that has ended meanwhile: Spark asks short-lived ones for this and that."""
    try:
        return process.name() != "java"
    except psutil.NoSuchProcess:
        return True


def kill_everything() -> None:
    """The JVM, the driver and what they started."""
    whole = psutil.Process(int(os.environ[_DRIVER]))
    others = whole.children(recursive=True)
    for each in sorted(others, key=is_no_java):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.pid != os.getpid():
                each.kill()
    whole.kill()
    os.kill(os.getpid(), signal.SIGKILL)


class KillingLedgers(Ledgers):
    def begin(self, key: BatchKey, group: str, half_messages: Sequence[HalfMessages]) -> None:
        super().begin(key, group, half_messages)
        kill_everything()


class KilledWriter(RocketMQStreamWriter):
    """A writer that ends its worker, or everything."""

    def is_at(self, step: str, batch: int) -> bool:
        steps = json.loads(os.environ[_STEPS])
        return self._settings.is_transactional and steps.get(step) == batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStored:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        if self.is_at(TASK, batch) and context.attemptNumber() == 0:
            iterator = self.killed(iterator)
        return super().write(iterator)

    def killed(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in iterator:
            yield rows
            time.sleep(0.2)  # So that something of it is stored.
            os.kill(os.getpid(), signal.SIGKILL)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.is_at(LEDGER, batchId):
            committer = driver(self._settings)._committer
            committer.ledgers = KillingLedgers(Path(self._settings.ledger_folder or ""))
        super().commit(messages, batchId)


class KilledSource(RocketMQSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:
        settings = SinkSettings.parse(self.options, is_stream=True)
        return KilledWriter(settings, SinkColumns.of(schema, settings))


def main() -> None:
    work = json.loads(Path(sys.argv[1]).read_text())
    os.environ[_STEPS] = json.dumps(work["steps"])
    os.environ[_DRIVER] = str(os.getpid())
    folder = Path(work["folder"])
    conf = {"spark.sql.shuffle.partitions": "2"}
    spark = session("killed", master="local[2,4]", conf=conf)
    spark.dataSource.register(KilledSource)
    rows = (
        spark.readStream.format("rocketmq")
        .option("nameServer", work["nameserver"])
        .option("subscribe", work["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_ROWS)
        .load()
        .select("body")
    )
    queries = []
    for delivery in DELIVERIES:
        writer = rows.writeStream.format("rocketmq-killed").option(
            "nameServer", work["nameserver"]
        )
        if delivery == "transactional":
            writer = writer.option("ledgerDir", str(folder / "ledgers"))
        writer = writer.option("delivery", delivery).option("topic", f"copy-{delivery}")
        writer = writer.option("checkpointLocation", str(folder / delivery))
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
