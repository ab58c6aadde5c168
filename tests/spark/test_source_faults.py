"""What happens to a real cluster while it is read: right rows, or an error that says what to do.

No Spark: the readers are called as its processes call them.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cometmq import Admin, Message, Producer
from cometmq.client.consumer.pull import queue_reader
from cometmq.client.sync import portal
from cometmq.embedded import Embedded
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import message_schema
from cometmq.spark.source import pull
from cometmq.spark.source.batch import RocketMQReader
from cometmq.spark.source.cluster import source_cluster
from cometmq.spark.source.loss import DataLossError
from cometmq.spark.source.planning import PlannedRange, RangesPartition
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.source.stream import RocketMQStreamReader
from tests.support.processes import wait_until

COUNT = 600
SECONDS = 60


def options_of(cluster: Embedded, topic: str, **options: str) -> dict[str, str]:
    return {
        "nameserver": cluster.nameserver,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minRecordsPerTask": "0",
        **options,
    }


def batch_of(cluster: Embedded, topic: str, **options: str) -> RocketMQReader:
    settings = SourceSettings.parse(options_of(cluster, topic, **options), is_stream=False)
    return RocketMQReader(settings, message_schema(["body"]))


def stream_of(cluster: Embedded, topic: str, **options: str) -> RocketMQStreamReader:
    settings = SourceSettings.parse(options_of(cluster, topic, **options), is_stream=True)
    return RocketMQStreamReader(settings, message_schema(["body"]))


def send(cluster: Embedded, topic: str, numbers: range, size: int = 0) -> MessageQueue:
    """Numbers as bodies, to one queue."""
    with Producer(cluster.nameserver) as producer:
        queue = producer.queues(topic)[0]
        for start in range(numbers.start, numbers.stop, 100):
            part = range(start, min(start + 100, numbers.stop))
            bodies = [b"%06d" % number + b"x" * size for number in part]
            producer.send_batch([Message(topic, body) for body in bodies], queue=queue)
    return queue


def numbers_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(body[:6]) for batch in batches for body in batch.column(0).to_pylist()]


def read(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """A micro-batch."""
    return [
        number
        for task in reader.partitions(start, end)
        for number in numbers_of(reader.read(task))
    ]


def test_a_broker_restarted_in_the_middle_of_a_read_loses_nothing(
    tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pull, "WINDOW_ROWS", 20)
    monkeypatch.setattr(portal, "AHEAD_PULLS", 2)
    with Embedded(tmp_path / "data") as cluster:
        send(cluster, topic, range(COUNT))
        options = {"pull.batchSize": "10", "pullTimeoutMs": str(SECONDS * 1000)}
        reader = batch_of(cluster, topic, **options)
        [task] = reader.partitions()
        batches = reader.read(task)
        found = numbers_of(iter([next(batches)]))
        ports = [int(each.rpartition(":")[2]) for each in (cluster.nameserver, cluster.broker)]
    with Embedded(tmp_path / "data", nameserver_port=ports[0], broker_port=ports[1]):
        assert found + numbers_of(batches) == list(range(COUNT))


def test_a_broker_that_stays_away_fails_the_read_after_the_time_it_is_given(
    tmp_path: Path, topic: str
):
    with Embedded(tmp_path / "data") as cluster:
        send(cluster, topic, range(10))
        reader = batch_of(cluster, topic, pullTimeoutMs="1")
        [task] = reader.partitions()
    with pytest.raises(CometError, match=r"127\.0\.0\.1"):
        numbers_of(reader.read(task))


@pytest.mark.parametrize("count", [40, 120])
def test_a_topic_made_again_with_as_many_messages_or_more_is_refused_or_read_whole(
    cluster: Embedded, topic: str, count: int
):
    send(cluster, topic, range(40))
    reader = stream_of(cluster, topic)
    first = reader.latestOffset(reader.initialOffset())
    assert reader.latestOffset(first) == first, "the same topic"
    with Admin(cluster.nameserver) as admin:
        admin.topics.delete(topic)
        admin.topics.create(topic)
    send(cluster, topic, range(count))
    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        stream_of(cluster, topic).latestOffset(first)
    lenient = stream_of(cluster, topic, failOnDataLoss="false")
    second = lenient.latestOffset(first)
    assert read(lenient, first, second) == list(range(count))
    assert stream_of(cluster, topic).latestOffset(second) == second


def test_a_stream_plans_on_while_nameserver_and_broker_are_away(tmp_path: Path, topic: str):
    with Embedded(tmp_path / "data") as cluster:
        send(cluster, topic, range(10))
        reader = stream_of(cluster, topic, startingOffsets="earliest")
        first = reader.latestOffset(reader.initialOffset())
        ports = [int(each.rpartition(":")[2]) for each in (cluster.nameserver, cluster.broker)]
    for _ in range(3):
        assert reader.latestOffset(first) == first
    with Embedded(tmp_path / "data", nameserver_port=ports[0], broker_port=ports[1]) as cluster:
        send(cluster, topic, range(10, 15))
        second = wait_until(
            lambda: None if (end := reader.latestOffset(first)) == first else end,
            seconds=SECONDS,
            what="the new messages",
        )
        assert second is not None
        assert read(reader, first, second) == list(range(10, 15))


def test_queues_come_and_go_while_a_stream_runs(cluster: Embedded, topic: str):
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=1)
        reader, lenient = (
            stream_of(cluster, topic),
            stream_of(cluster, topic, failOnDataLoss="false"),
        )
        send(cluster, topic, range(5))
        first = reader.latestOffset(reader.initialOffset())
        assert read(reader, reader.initialOffset(), first) == list(range(5))
        admin.topics.create(topic, queues=2)
        with Producer(cluster.nameserver) as producer:
            added = next(each for each in producer.queues(topic) if each.queue_id == 1)
            producer.send(Message(topic, b"000005"), queue=added)
        second = reader.latestOffset(first)
        assert read(reader, first, second) == [5], "at the next trigger, from its beginning"
        admin.topics.create(topic, queues=1)
        with pytest.raises(
            DataLossError, match=rf"{topic}@.*:1 no longer exists.*up to offset 1\."
        ):
            reader.latestOffset(second)
        send(cluster, topic, range(6, 9))
        third = lenient.latestOffset(second)
        assert read(lenient, second, third) == [6, 7, 8]


def test_a_topic_deleted_while_a_stream_runs_is_data_loss(cluster: Embedded, topic: str):
    reader, lenient = (
        stream_of(cluster, topic),
        stream_of(cluster, topic, failOnDataLoss="false"),
    )
    queue = send(cluster, topic, range(5))
    first = reader.latestOffset(reader.initialOffset())
    tasks = reader.partitions(reader.initialOffset(), first)
    with Admin(cluster.nameserver) as admin:
        admin.topics.delete(topic)
    with pytest.raises(DataLossError, match=f"{queue} no longer exists.*failOnDataLoss"):
        reader.latestOffset(first)
    with pytest.raises(DataLossError, match=f"{queue}: its topic was deleted, offsets 0 to 4"):
        numbers_of(reader.read(tasks[0]))
    assert lenient.latestOffset(first) == first
    assert numbers_of(lenient.read(tasks[0])) == []


def test_retention_below_the_start_is_data_loss(tmp_path: Path, topic: str):
    settings = {
        "mappedFileSizeCommitLog": 65_536,
        "cleanResourceInterval": 100,
        "diskMaxUsedSpaceRatio": 1,  # Expired files go at once, whatever the hour is.
    }
    with Embedded(tmp_path / "data", settings=settings) as cluster:
        queue = send(cluster, topic, range(COUNT), size=300)
        strict = batch_of(cluster, topic)
        lenient = batch_of(cluster, topic, failOnDataLoss="false")
        [task] = strict.partitions()
        oldest = min((tmp_path / "data").rglob("commitlog/0*"))
        os.utime(oldest, (1, 1))
        wait_until(lambda: not oldest.exists(), seconds=SECONDS, what="the oldest file gone")
        with pytest.raises(DataLossError, match=f"{queue}: offsets 0 to .* are deleted"):
            numbers_of(strict.read(task))
        found = numbers_of(lenient.read(task))
        assert 0 < found[0] < COUNT
        assert found == list(range(found[0], COUNT))


def test_a_range_that_never_was_names_where_the_queue_ends(cluster: Embedded, topic: str):
    queue = send(cluster, topic, range(5))
    reader = batch_of(cluster, topic)
    task = RangesPartition([PlannedRange(queue, 0, 9)])
    with pytest.raises(DataLossError, match=f"{queue}: offsets 5 to 8 do not exist.*ends at 5"):
        numbers_of(reader.read(task))


def test_sql_filters_at_the_broker_and_the_end_is_reached(cluster: Embedded, topic: str):
    with Producer(cluster.nameserver) as producer:
        queue = producer.queues(topic)[0]
        for start in range(0, COUNT, 100):
            messages = [
                Message(topic, b"%06d" % number, properties={"n": str(number)})
                for number in range(start, start + 100)
            ]
            producer.send_batch(messages, queue=queue)
    options = {"subExpressionType": "SQL92", "subExpression": "n BETWEEN 150 AND 160"}
    reader = batch_of(cluster, topic, **options, **{"pull.batchSize": "32"})
    [task] = reader.partitions()
    assert numbers_of(reader.read(task)) == list(range(150, 161))


def test_an_id_and_a_key_are_found_by_the_index(
    cluster: Embedded, topic: str, monkeypatch: pytest.MonkeyPatch
):
    queue = send(cluster, topic, range(50))
    with Producer(cluster.nameserver) as producer:
        sent = producer.send(Message(topic, b"000050", keys="needle"), queue=queue)
    settings = SourceSettings.parse(options_of(cluster, topic), is_stream=False)
    source = source_cluster(settings)

    def found(key: str, *, is_id: bool) -> Callable[[], Any]:
        return lambda: source.indexed(topic, key, is_id=is_id)

    place = frozenset({(queue, 50)})
    for look in (found("needle", is_id=False), found(sent.message_id, is_id=True)):
        indexed = wait_until(look, seconds=SECONDS, what="the index has it")
        assert indexed.places == place
        assert list(indexed.until_ms) == [queue.broker_name]
    assert source.indexed(topic, "nothing", is_id=False) is None
    monkeypatch.setattr(queue_reader, "INDEXED_MAX", 1)
    assert source.indexed(topic, "needle", is_id=False) is None, "there may be more of them"
