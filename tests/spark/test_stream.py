"""Streams through a real broker and a real Spark: nothing lost, nothing twice."""

import time
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cometmq import PullConsumer
from cometmq.embedded import Embedded
from cometmq.spark import commit_offsets
from tests.spark.conftest import load, numbers_of
from tests.support.processes import wait_until

pytestmark = pytest.mark.slow

DEADLINE_S = 90


def stream(spark: SparkSession, cluster: Embedded, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.nameserver)
    return reader.option("subscribe", topic).options(**options).load()


def run_available(
    rows: DataFrame, folder, write: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Run a query over what is there; raises what it fails with."""
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S), "the query does not end"
    return query


def batches_into(found: dict[int, list[int]]) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        found[batch] = numbers_of(rows)

    return write


def all_of(found: dict[int, list[int]]) -> list[int]:
    return sorted(number for numbers in found.values() for number in numbers)


def test_a_limit_makes_several_batches_and_a_restart_goes_on(
    spark, cluster, topic, send, tmp_path
):
    send(0, 1000, **{"batch.maxMessages": "50"})
    found: dict[int, list[int]] = {}
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    run_available(stream(spark, cluster, topic, **options), tmp_path, batches_into(found))
    assert all_of(found) == list(range(1000))
    assert len(found) >= 3
    assert max(map(len, found.values())) <= 304
    send(1000, 1500)
    run_available(stream(spark, cluster, topic, **options), tmp_path, batches_into(found))
    assert all_of(found) == list(range(1500))


def test_the_group_learns_of_every_batch_and_of_the_last_one(
    spark, cluster, topic, send, tmp_path
):
    send(0, 300, **{"batch.maxMessages": "10"})
    group = f"{topic}-group"
    options = {
        "startingOffsets": "earliest",
        "maxBytesPerTrigger": "20k",
        "commitOffsets": "batch",
        "group": group,
    }
    found: dict[int, list[int]] = {}
    rows = stream(spark, cluster, topic, **options)
    query = run_available(rows, tmp_path, batches_into(found))
    assert all_of(found) == list(range(300))
    assert len(found) > 1
    with PullConsumer(cluster.nameserver, group=group) as consumer:
        queues = [queue for queue in consumer.queues(topic) if consumer.max_offset(queue)]

        def committed() -> list[int | None]:
            return [consumer.committed(queue) for queue in queues]

        ends = [consumer.max_offset(queue) for queue in queues]
        assert committed() == ends, "the last batch, too"
        assert commit_offsets(query, name_server=cluster.nameserver, group=group) == 4
        assert committed() == ends


def test_a_failed_batch_comes_again_the_same(spark, cluster, topic, send, tmp_path):
    send(0, 400)
    seen: list[tuple[int, list[int]]] = []

    def fail_once(rows: DataFrame, batch: int) -> None:
        seen.append((batch, numbers_of(rows)))
        if len(seen) == 2:
            raise RuntimeError("the sink is broken")

    rows = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="150")
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        run_available(rows, tmp_path, fail_once)
    send(400, 500)
    rows = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="150")
    run_available(rows, tmp_path, fail_once)
    assert seen[1] == seen[2], "a batch that is run again is the same, though more has come"
    assert all_of(dict(seen)) == list(range(500))


def test_latest_begins_at_the_first_batch_and_not_later(spark, cluster, topic, send, tmp_path):
    send(0, 10)
    found: dict[int, list[int]] = {}

    def fail(_rows: DataFrame, _batch: int) -> None:
        raise RuntimeError("before the first commit")

    with pytest.raises(StreamingQueryException, match="before the first commit"):
        run_available(stream(spark, cluster, topic), tmp_path, fail)
    send(10, 30)
    run_available(stream(spark, cluster, topic), tmp_path, batches_into(found))
    assert all_of(found) == list(range(10, 30))


def test_a_stream_into_a_topic_copies_each_message_once(spark, cluster, topic, send, tmp_path):
    send(0, 700)
    rows = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="250")
    query = (
        rows.select("body", "tags", "keys", "properties")
        .writeStream.format("rocketmq")
        .option("nameServer", cluster.nameserver)
        .option("topic", f"{topic}-copy")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    assert numbers_of(load(spark, cluster, f"{topic}-copy")) == list(range(700))


def test_messages_arrive_while_the_query_runs(spark, cluster, topic, send, tmp_path):
    send(0, 10)
    found: dict[int, list[int]] = {}
    query = (
        stream(spark, cluster, topic, startingOffsets="earliest")
        .writeStream.foreachBatch(batches_into(found))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        send(10, 50)
        deadline = time.monotonic() + DEADLINE_S
        while len(all_of(found)) < 50 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert all_of(found) == list(range(50))
        batches = len(found)
        time.sleep(0.5)
        assert len(found) == batches, "nothing new must make no batches"
    finally:
        query.stop()


def test_a_broker_that_restarts_loses_nothing(spark, topic, tmp_path):
    found: dict[int, list[int]] = {}
    with Embedded(tmp_path / "data") as cluster:
        address = cluster.nameserver, cluster.broker
        rows = spark.range(0, 20).selectExpr("cast(id AS string) AS body")
        write(rows, cluster, topic)
        query = (
            stream(spark, cluster, topic, startingOffsets="earliest")
            .writeStream.foreachBatch(batches_into(found))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        wait_until(lambda: len(all_of(found)) == 20, seconds=DEADLINE_S, what="20 rows")
    ports = [int(each.rpartition(":")[2]) for each in address]
    try:
        time.sleep(1)
        assert query.isActive, "a broker that is away is no reason to fail"
        with Embedded(
            tmp_path / "data", nameserver_port=ports[0], broker_port=ports[1]
        ) as cluster:
            more = spark.range(20, 40).selectExpr("cast(id AS string) AS body")
            write(more, cluster, topic)
            wait_until(lambda: len(all_of(found)) >= 40, seconds=DEADLINE_S, what="40 rows")
            assert all_of(found) == list(range(40))
            query.stop()
    finally:
        query.stop()


def write(rows: DataFrame, cluster: Embedded, topic: str) -> None:
    writer = rows.write.format("rocketmq").option("nameServer", cluster.nameserver)
    writer.option("topic", topic).mode("append").save()
