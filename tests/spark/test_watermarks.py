"""A backlog meets a watermark: every window of a stream that catches up is as one batch read gives it."""

import time
from collections import Counter
from datetime import datetime

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, window
from pyspark.sql.streaming.query import StreamingQuery

from cometmq import Message, MessageQueue, Producer
from cometmq.embedded import Embedded
from tests.spark.conftest import load
from tests.spark.test_stream import DEADLINE_S, stream

pytestmark = pytest.mark.slow

WINDOW, DELAY = "100 milliseconds", "200 milliseconds"
Windows = dict[datetime, int]


@pytest.fixture(scope="module")
def backlog(cluster: Embedded) -> str:
    """A topic with a long queue of two seconds, and a short one of its last moment.

    Store times are the broker's, so the time of the test passes between messages.
    """
    topic = "backlog"
    with Producer(cluster.nameserver) as producer:
        producer.send(Message(topic, b"first"))  # It makes the topic.
        queues = sorted(producer.queues(topic), key=lambda each: each.queue_id)
        for moment in range(40):
            _send(producer, queues[0], 50)
            if moment >= 36:
                _send(producer, queues[1], 50)
            time.sleep(0.05)
    return topic


def _send(producer: Producer, queue: MessageQueue, messages: int) -> None:
    producer.send_batch([Message(queue.topic, b"m")] * messages, queue=queue)


def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy(window("storeTimestamp", WINDOW).alias("at")).agg(count("*").alias("n"))


def catch_up(
    spark: SparkSession, cluster: Embedded, topic: str, folder, *, fails_at=(), **options: str
) -> tuple[Windows, int]:
    """The windows of a stream that reads the backlog in small batches, and the rows it dropped.

    It fails once at each batch of `fails_at` and is started again from its checkpoint.
    """
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "250", **options}
    rows = stream(spark, cluster, topic, **limits).withWatermark("storeTimestamp", DELAY)
    found: dict[int, Windows] = {}
    failed = set()

    def write(part: DataFrame, batch: int) -> None:
        if batch in fails_at and batch not in failed:
            failed.add(batch)
            raise RuntimeError("as the test wants it")
        found[batch] = {row["at"]["start"]: row["n"] for row in part.collect()}

    dropped = 0
    for _ in range(len(fails_at) + 1):
        query: StreamingQuery = (
            counts(rows)
            .writeStream.foreachBatch(write)
            .outputMode("append")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(DEADLINE_S), "the query does not end"
        except StreamingQueryException as error:
            if "as the test wants it" not in str(error):
                raise
        dropped += sum(
            state["numRowsDroppedByWatermark"]
            for progress in query.recentProgress
            for state in progress["stateOperators"]
        )
    assert failed == set(fails_at)
    windows: Counter[datetime] = Counter()
    for part in found.values():
        windows.update(part)
    return windows, dropped


def test_every_window_of_a_backlog_is_as_in_one_batch(spark, cluster, backlog, tmp_path):
    whole = {
        row["at"]["start"]: row["n"] for row in counts(load(spark, cluster, backlog)).collect()
    }
    windows, dropped = catch_up(spark, cluster, backlog, tmp_path, fails_at=(3,))
    assert dropped == 0
    # The last windows stay open until a later message closes them.
    assert windows == {at: whole[at] for at in windows}
    assert len(windows) >= len(whole) - 4


def test_shares_by_length_drop_what_the_watermark_has_passed(spark, cluster, backlog, tmp_path):
    """What Spark's Kafka source does, and why it is not the default here."""
    _, dropped = catch_up(spark, cluster, backlog, tmp_path, admission="offsets")
    assert dropped > 0
