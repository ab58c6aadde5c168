"""Spark reads all rows of a topic or says what is missing, and begins where it is told.

Two real brokers, one of which dies, and one real Spark session for all tests: each test stands in the
order of what happens to the brokers.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from cometmq import Admin, Message, Producer, PullConsumer
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.spark import session
from cometmq.spark.source.batch import RocketMQReader
from cometmq.spark.source.settings import SourceSettings
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import Program, wait_until
from tests.support.programs import halted

# A session starts in some seconds, and on a machine with other suites in a minute.
pytestmark = pytest.mark.timeout(300)

TOPIC, ROWS, QUEUES = "orders", 320, 4
# Given as options: Spark's JVM keeps the environment of its start, at whichever kind of servers that was.
ACCESS_KEYS = {
    "rocketmq.accessKey": "COMETMQ_ACCESS_KEY", "rocketmq.secretKey": "COMETMQ_SECRET_KEY",
}  # fmt: skip


@dataclass
class Cluster:
    """Two brokers with the same topic, and two nameservers that both know.

    `forgetful` remembers nobody who left, as RocketMQ's own.
    """

    folder: Path
    nameserver: Program
    forgetful: Program
    brokers: dict[str, Program]

    def options(self, **more: str) -> dict[str, str]:
        access = {
            option: os.environ[key] for option, key in ACCESS_KEYS.items() if key in os.environ
        }
        return {
            "nameServer": self.nameserver.address,
            "subscribe": TOPIC,
            "fetchOffset.numRetries": "1",
            **access,
            **more,
        }

    @property
    def checkpoint(self) -> Path:
        """Of a stream that has read all while both brokers were there."""
        return self.folder / "checkpoint"

    def kill(self, name: str) -> None:
        """As a power cut would, and the nameserver has seen it."""
        self.brokers[name].kill()
        wait_until(lambda: name not in self.registered(), seconds=10, what=f"{name} is away")

    def registered(self) -> str:
        return ask(self.nameserver.address, RequestCode.GET_BROKER_CLUSTER_INFO)[1].decode()


def send(cluster: Cluster, numbers: range, topic: str = TOPIC) -> None:
    """Numbers as bodies, to all queues of all brokers in turn."""
    with Producer(cluster.nameserver.address) as producer:
        queues = producer.queues(topic)
        for at, queue in enumerate(queues):
            bodies = [b"%d" % number for number in numbers[at :: len(queues)]]
            producer.send_batch([Message(topic, body) for body in bodies], queue=queue)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, access) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("two-brokers")
    with (
        processes.nameserver(folder / "nameserver") as nameserver,
        processes.nameserver(folder / "other", missingBrokerReservedTime=0) as forgetful,
    ):
        both = f"{nameserver.address};{forgetful.address}"
        brokers = {
            name: processes.broker(folder / name, both, settings={"brokerName": name})
            for name in ("broker-a", "broker-b")
        }
        try:
            for each in brokers.values():
                each.start()
            cluster = Cluster(folder, nameserver, forgetful, brokers)
            with Admin(nameserver.address) as admin:
                admin.topics.create(TOPIC, queues=QUEUES)
            send(cluster, range(ROWS))
            yield cluster
        finally:
            for each in brokers.values():
                each.stop()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("attacks", master="local[2]", conf={"spark.sql.shuffle.partitions": "1"})
    yield spark
    spark.stop()


def batch(spark: SparkSession, cluster: Cluster, **more: str) -> list[int]:
    """The numbers that a batch reads, sorted."""
    frame = spark.read.format("rocketmq").options(**cluster.options(**more)).load()
    return numbers_of(frame)


def numbers_of(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


def available_now(
    spark: SparkSession, cluster: Cluster, checkpoint: Path, **more: str
) -> list[int]:
    """The numbers that a stream reads until it has all that is there."""
    found: list[int] = []
    frame = spark.readStream.format("rocketmq").options(**cluster.options(**more)).load()
    query = (
        frame.writeStream.foreachBatch(lambda rows, _number: found.extend(numbers_of(rows)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(200), "the stream has not ended"
    finally:
        query.stop()
    return sorted(found)


def planned(cluster: Cluster, **more: str) -> int:
    """How many rows a batch would read, as Spark's planner asks the source."""
    return planned_of(cluster.options(**more))


def planned_of(options: dict[str, str]) -> int:
    settings = SourceSettings.parse(options, is_stream=False)
    bodies = StructType([StructField("body", BinaryType())])
    tasks: list[Any] = RocketMQReader(settings, bodies).partitions()
    return sum(part.rows for task in tasks for part in task.ranges)


def test_all_rows_come_while_all_brokers_are_there(spark, cluster):
    assert batch(spark, cluster) == list(range(ROWS))


def test_a_group_knows_the_last_batch_when_the_stream_has_ended(spark, cluster):
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "120",
        "commitOffsets": "batch",
        "group": "reports",
    }
    assert len(available_now(spark, cluster, cluster.checkpoint, **options)) == ROWS
    with PullConsumer(cluster.nameserver.address, group="reports") as consumer:
        committed = [consumer.committed(queue) or 0 for queue in consumer.queues(TOPIC)]
    assert sum(committed) == ROWS


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        # The shape of Kafka's: without it all rows came.
        (
            "startingOffsets",
            '{"orders": {"0": 23}}',
            "no broker '0'; it has broker-a .queues 0",
        ),
        ("endingOffsets", '{"orders": {"0": 23}}', "no broker '0'; it has broker-a .queues 0"),
        ("startingOffsetsByTimestamp", '{"orders": {"0": 1700000000000}}', "no broker '0'"),
        ("startingOffsets", '{"orders": {"broker-A": 23}}', "did you mean 'broker-a'"),
        (
            "startingOffsets",
            '{"orders": {"broker-a": {"99": 23}}}',
            "no readable queue 99 .*queues 0 to 3",
        ),
        ("startingTimestamp", "1700000000", "is it in seconds.*1700000000000"),
        ("endingTimestamp", "1700000000", "is it in seconds.*1700000000000"),
        ("endingOffsetsByTimestamp", '{"orders": 1700000000}', "is it in seconds"),
        ("startingTimestamp", "1700000000000000", "microseconds"),
        ("endingOffsets", '{"orders": -2}', "-2 is not an end"),
        ("assign", '{"orders": []}', "not a list of queue numbers"),
        ("startingOfsets", "latest", "did you mean 'startingOffsets'"),
    ],
)
def test_a_wrong_place_is_refused_by_name(cluster, option, value, says):
    others = {"subscribe": TOPIC} if option != "assign" else {}
    given = {"nameServer": cluster.nameserver.address, **others, option: value}
    with pytest.raises(CometError, match=says):
        planned_of(given)


def test_spark_shows_what_is_wrong_with_a_place(spark, cluster, tmp_path):
    with pytest.raises(
        Exception, match=r"'orders' has no broker '0'; it has broker-a \(queues"
    ):
        batch(spark, cluster, startingOffsets='{"orders": {"0": 23}}')
    places = '{"orders": {"broker-a": {"99": 1}}}'
    with pytest.raises(
        Exception, match=r"topic 'orders' has no readable queue 99 at broker 'broker-a'"
    ):
        available_now(spark, cluster, tmp_path / "places", startingOffsets=places)


def test_a_broker_that_does_not_answer_is_named_with_its_queues(cluster, caplog):
    options = {"fetchOffset.numRetries": "0"}
    with halted(cluster.brokers["broker-b"]):
        with pytest.raises(
            CometError, match=r"4 queues are missing.*'broker-b' \(it is registered"
        ):
            planned(cluster, **options)
        assert planned(cluster, failOnDataLoss="false", **options) == ROWS // 2
    assert "4 queues are missing: 4 of 'orders' at broker 'broker-b'" in caplog.text


def test_a_batch_over_a_dead_broker_is_an_error_or_a_warning_with_a_number(
    spark, cluster, caplog
):
    cluster.kill("broker-b")
    with pytest.raises(
        Exception, match=r"4 queues are missing: 4 of 'orders' at broker 'broker-b'"
    ):
        batch(spark, cluster)
    assert planned(cluster, failOnDataLoss="false") == ROWS // 2
    assert "4 queues are missing: 4 of 'orders' at broker 'broker-b'" in caplog.text
    assert len(batch(spark, cluster, failOnDataLoss="false")) == ROWS // 2


def test_the_brokers_that_must_be_there_are_named_by_an_option(cluster):
    assert planned(cluster, brokers="broker-a") == ROWS // 2
    with pytest.raises(CometError, match=r"4 queues are missing.*broker-b"):
        planned(cluster, brokers="broker-a, broker-b")
    with pytest.raises(CometError, match="not registered; did you mean 'broker-a'"):
        planned(cluster, brokers="broker-A,broker-b")


def test_a_run_that_ends_does_not_begin_without_a_dead_broker(spark, cluster, tmp_path):
    with pytest.raises(
        Exception, match="4 queues are missing: 4 of 'orders' at broker 'broker-b'"
    ):
        available_now(spark, cluster, tmp_path / "refused", startingOffsets="earliest")
    found = available_now(
        spark,
        cluster,
        tmp_path / "allowed",
        startingOffsets="earliest",
        failOnDataLoss="false",
    )
    assert len(found) == ROWS // 2


def test_where_the_nameserver_remembers_nobody_checkpoint_and_option_tell(spark, cluster):
    """As with RocketMQ's own nameserver, which no batch can be warned by without the option."""
    other = {"nameServer": cluster.forgetful.address}
    assert planned(cluster, **other) == ROWS // 2
    with pytest.raises(CometError, match=r"4 queues are missing.*'brokers' names it"):
        planned(cluster, **other, brokers="broker-a,broker-b")
    with pytest.raises(Exception, match=r"4 queues are missing.*the checkpoint has it"):
        available_now(spark, cluster, cluster.checkpoint, **other)


def test_a_stream_of_what_comes_takes_no_old_rows_of_a_broker_that_comes_back(
    spark, cluster, tmp_path
):
    options = {"startingOffsets": "latest", "failOnDataLoss": "false"}
    assert available_now(spark, cluster, tmp_path / "latest", **options) == []
    cluster.brokers["broker-b"].start()
    new = range(ROWS, ROWS + 80)
    send(cluster, new)
    assert available_now(spark, cluster, tmp_path / "latest", **options) == list(new)


def test_a_broker_that_is_back_is_not_missing(cluster):
    assert planned(cluster) == ROWS + 80
