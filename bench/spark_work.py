"""Spark's sources: ours from our live broker and Spark's own from a live Kafka, in turn, in one session.

Both brokers hold the same rows: bodies of 1 KiB in 4 queues, three properties (or headers) each. "To noop" reads
every column of every row and throws it away. Each figure of Kafka is taken right before the one of ours that it
is set beside.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.backed import back_memory
from bench.kafka import kafka, spark_jars
from bench.systems import COMETMQ, KAFKA, running
from cometmq import PullConsumer
from cometmq.spark import session

TOPIC = "Rows"
QUEUES = 4
BODY_SIZE = 1024
# A micro-batch so small that what is measured is what each one costs, whatever is in it.
SMALL_BATCH_ROWS = 400
SMALL_BATCHES = 40
WARM_BATCHES = 10
# As many rows as these batches take: a query that is stopped while it works kills its task, and the log says so.
FEW_TOPIC = "Few"
FEW_ROWS = SMALL_BATCH_ROWS * (WARM_BATCHES + SMALL_BATCHES)
STREAM_SECONDS_MAX = 120

# What one pull may give; RocketMQ's defaults are 32 messages and 256 KiB.
PULL_LIMITS = {
    "maxTransferCountOnMessageInMemory": 1024,
    "maxTransferBytesOnMessageInMemory": 2 << 20,
}

Measured = dict[str, Any]


@dataclass(frozen=True)
class Sources:
    """Where the rows are.

    Attributes:
        spark: the one session.
        kafka: Kafka's address.
        nameserver: ours.
        rows: in each topic.
    """

    spark: SparkSession
    kafka: str
    nameserver: str
    rows: int

    def options(self, system: str, topic: str = TOPIC, **special: str) -> dict[str, str]:
        """How a source reads all rows."""
        if system == KAFKA:
            return {
                "kafka.bootstrap.servers": self.kafka,
                "subscribe": topic,
                "includeHeaders": "true",
                "startingOffsets": "earliest",
            }
        return {
            "nameServer": self.nameserver,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **special,
        }

    def read(self, system: str, **special: str) -> Measured:
        """All rows to noop."""
        reader = self.spark.read.format(FORMATS[system]).options(
            **self.options(system, **special)
        )
        began = time.perf_counter()
        reader.load().write.format("noop").mode("overwrite").save()
        return {"per_second": self.rows / (time.perf_counter() - began), "messages": self.rows}

    def small_batches(self, system: str) -> Measured:
        """How long a micro-batch of few rows takes, from trigger to commit."""
        stream = self.spark.readStream.format(FORMATS[system])
        stream = stream.options(**self.options(system, FEW_TOPIC)).option(
            "maxOffsetsPerTrigger", SMALL_BATCH_ROWS
        )
        with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
            writer = (
                stream.load().writeStream.format("noop").trigger(processingTime="0 seconds")
            )
            query = writer.option("checkpointLocation", folder).start()
            try:
                took = self._batches_of(query)
            finally:
                query.stop()
        return {"p50_ms": median(took), "batches": len(took)}

    def write(self, system: str, **special: str) -> Measured:
        """Rows that Spark makes, into an empty topic; done when all are acknowledged.

        Raises:
            RuntimeError: the topic has another number of rows then.
        """
        topic = f"Sink{next(_TOPICS)}"
        column = "value" if system == KAFKA else "body"
        count = self.rows // 2  # A write needs room on the disk that is not given back.
        rows = self.spark.range(0, count, numPartitions=2).selectExpr(f"{BODY} AS {column}")
        where = self.options(system, **special)
        where = {name: where[name] for name in where if name in WHERE or name in special}
        writer = rows.write.format(FORMATS[system]).options(topic=topic, **where)
        back_memory(4 * count * BODY_SIZE)
        began = time.perf_counter()
        writer.mode("append").save()
        took = time.perf_counter() - began
        if system == COMETMQ:
            with PullConsumer(self.nameserver, group="bench") as consumer:
                found = sum(consumer.max_offset(queue) for queue in consumer.queues(topic))
            if found != count:
                raise RuntimeError(f"{topic} has {found} rows of {count}")
        return {"per_second": count / took, "messages": count}

    def _batches_of(self, query: Any) -> list[float]:
        deadline = time.monotonic() + STREAM_SECONDS_MAX
        done: dict[int, Any] = {}
        while sum(each["numInputRows"] for each in done.values()) < FEW_ROWS:
            if time.monotonic() > deadline or query.exception():
                raise RuntimeError(f"{len(done)} micro-batches: {query.exception()}")
            done |= {each["batchId"]: each for each in query.recentProgress}
            time.sleep(0.1)
        took = [done[at]["durationMs"] for at in sorted(done) if done[at]["numInputRows"]]
        return [each["triggerExecution"] for each in took][WARM_BATCHES:]


FORMATS = {KAFKA: "kafka", COMETMQ: "rocketmq"}
WHERE = ("kafka.bootstrap.servers", "nameServer")
BODY = f"cast(concat(lpad(id, 16, '0'), repeat('x', {BODY_SIZE - 16})) AS binary)"
_TOPICS = count_from(1)  # Each write has a topic of its own.


@contextmanager
def sources(rows: int) -> Iterator[Sources]:
    """Both brokers, filled, and a session of two cores that knows both formats."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cometmq-bench-")))
        settings = {"defaultTopicQueueNums": QUEUES, **PULL_LIMITS}
        ours = stack.enter_context(running(COMETMQ, folder / "cometmq", **settings))
        theirs = stack.enter_context(kafka(folder / "kafka", partitions=QUEUES))
        conf = {
            "spark.jars": spark_jars(),
            "spark.driver.memory": "2g",
            "spark.sql.streaming.numRecentProgressUpdates": str(
                2 * (WARM_BATCHES + SMALL_BATCHES)
            ),
        }
        spark = session("bench", master="local[2]", conf=conf)
        stack.callback(spark.stop)
        made = Sources(spark, theirs, ours.nameserver, rows)
        fill(made, TOPIC, rows)
        fill(made, FEW_TOPIC, FEW_ROWS)
        yield made


def fill(made: Sources, topic: str, count: int) -> None:
    """The same rows to both, through Spark's sinks."""
    rows = made.spark.range(count).selectExpr(
        f"{BODY} AS body",
        "concat('tag', id % 8) AS tags",
        "concat('key', id) AS keys",
    )
    ours = rows.write.format("rocketmq").option("nameServer", made.nameserver)
    ours.option("topic", topic).mode("append").save()
    header = "struct('{0}' AS key, cast({1} AS binary) AS value)".format
    # An id of 32 signs, as ours has one in each message.
    headers = (
        header("UNIQ_KEY", "lpad(keys, 32, '0')"),
        header("TAGS", "tags"),
        header("KEYS", "keys"),
    )
    theirs = rows.selectExpr("body AS value", f"array({', '.join(headers)}) AS headers")
    writer: Any = theirs.write.format("kafka").option("kafka.bootstrap.servers", made.kafka)
    writer.option("topic", topic).option("includeHeaders", "true").save()


def count(rows: DataFrame) -> int:
    """How many there are: nothing may be measured of which a part is missing."""
    return rows.count()


def do_spark(made: Sources, *, without: str = "") -> dict[str, dict[str, Measured]]:
    """A round: each row of Kafka, then the one of ours that stands beside it."""
    rows: dict[str, dict[str, Measured]] = {KAFKA: {}, COMETMQ: {}}
    work: dict[str, Callable[[str], Measured]] = {
        "source map": made.read,
        "source raw": lambda name: made.read(
            name, **({"propertiesFormat": "raw"} if name == COMETMQ else {})
        ),
        "micro-batch": made.small_batches,
        "sink": made.write,
    }
    work.pop(without, None)
    for row, measure in work.items():
        for name in (KAFKA, COMETMQ):
            rows[name][row] = measured = measure(name)
            figures = ", ".join(f"{key} {value:,.0f}" for key, value in measured.items())
            print(f"  {name:8} {row:16} {figures}", flush=True)
    return rows


def spark_rounds(rounds: int, *, rows: int) -> Iterator[dict[str, dict[str, Measured]]]:
    """All rounds, after one that is thrown away: what Spark has never done is slow."""
    with sources(rows) as made:
        for name in (KAFKA, COMETMQ):
            reader = made.spark.read.format(FORMATS[name]).options(**made.options(name))
            found = count(reader.load())
            assert found == rows, f"{name} has {found} rows of {rows}"
        print("spark: a round to warm up", flush=True)
        do_spark(made, without="micro-batch")  # Which warms itself.
        for number in range(rounds):
            print(f"spark: round {number + 1}", flush=True)
            yield do_spark(made)
