"""Micro-batches: planned from the checkpoint alone, so that a restart reads the same."""

import json
import pickle
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import BrokerNotFound, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import message_schema
from cometmq.spark.source import stream
from cometmq.spark.source.loss import DataLossError
from cometmq.spark.source.missing import QueuesMissing
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.source.stream import RocketMQStreamReader
from tests.support.hand_clock import HandClock
from tests.support.memory_cluster import MemoryCluster


@pytest.fixture
def cluster(monkeypatch) -> MemoryCluster:
    cluster = MemoryCluster()
    monkeypatch.setattr(stream, "source_cluster", lambda _settings: cluster)
    return cluster


def reader_of(**options) -> RocketMQStreamReader:
    given = {"nameserver": "x:1", "subscribe": "t", "minRecordsPerTask": "0", **options}
    settings = SourceSettings.parse(given, is_stream=True)
    return RocketMQStreamReader(settings, message_schema(["queueOffset"]))


def all_from(reader: RocketMQStreamReader, start: dict | None = None) -> dict:
    """Where a batch ends that takes all from an offset on, or from the reader's beginning."""
    begin = reader.initialOffset() if start is None else start
    end: dict = reader.latestOffset(begin, ReadAllAvailable())
    return end


def rows(reader: RocketMQStreamReader, start: dict, end: dict) -> list[tuple[str, int, int]]:
    """What a batch reads, after the way through Spark's log as text."""
    tasks: list[Any] = list(
        reader.partitions(*(json.loads(json.dumps(at)) for at in (start, end)))
    )
    return [(str(each.queue), each.start, each.end) for task in tasks for each in task.ranges]


def test_latest_is_durable_from_the_first_batch_on(cluster):
    queue = cluster.add("t", next=10)
    reader = reader_of()
    start = reader.initialOffset()
    first = all_from(reader, start)
    assert rows(reader, start, first) == []
    # The process dies before the batch is committed; messages come; Spark plans the batch again.
    cluster.queues_by_name[queue].next = 15
    again = reader_of()
    assert again.initialOffset() == start
    assert rows(again, start, first) == []
    second = all_from(again, first)
    assert rows(again, first, second) == [("t@b:0", 10, 15)]


def test_earliest_starts_at_what_is_there(cluster):
    cluster.add("t", first=3, next=10)
    reader = reader_of(startingOffsets="earliest")
    start = reader.initialOffset()
    end = all_from(reader, start)
    assert rows(reader, start, end) == [("t@b:0", 3, 10)]


def test_nothing_new_gives_the_start_itself_as_text(cluster):
    cluster.add("t", next=10)
    reader = reader_of()
    first = all_from(reader)
    text = json.dumps(first)
    assert json.dumps(reader.latestOffset(json.loads(text), ReadAllAvailable())) == text


def test_a_limit_bounds_each_batch_and_all_is_read(cluster):
    cluster.add("t", next=1000)
    cluster.add("t", queue=1, next=10)
    reader = reader_of(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(100)
    offsets = [reader.initialOffset()]
    while len(offsets) < 50:
        end = reader.latestOffset(offsets[-1], limit)
        if end == offsets[-1]:
            break
        offsets.append(end)
    read = [piece for start, end in pairwise(offsets) for piece in rows(reader, start, end)]
    sizes = [sum(e - s for _, s, e in rows(reader, *pair)) for pair in pairwise(offsets)]
    assert max(sizes) <= 101
    assert sum(end - start for _, start, end in read) == 1010
    assert all(one[2] == two[1] for one, two in pairwise(sorted(read)) if one[0] == two[0])


@pytest.mark.parametrize(
    ("options", "read"), [({"startingOffsets": "earliest"}, [("t@b:0", 0, 10)]), ({}, [])]
)
def test_available_now_stops_where_the_queues_ended_at_its_start(cluster, options, read):
    queue = cluster.add("t", next=10)
    reader = reader_of(**options)
    reader.prepareForTriggerAvailableNow()
    cluster.queues_by_name[queue].next = 99
    start = reader.initialOffset()
    end = all_from(reader, start)
    assert rows(reader, start, end) == read
    assert end["q"] == {"t": {"b": {"0": 10}}}
    assert all_from(reader, end) == end


def test_a_new_queue_is_read_from_its_beginning_durably(cluster):
    cluster.add("t", next=10)
    reader = reader_of()
    first = all_from(reader)
    new = cluster.add("t", queue=1, first=2, next=5)
    second = all_from(reader, first)
    cluster.queues_by_name[new].first = 4  # Retention goes on before the batch is run again.
    assert rows(reader_of(), first, second) == [("t@b:1", 2, 5)]


BEGUN_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ({"startingOffsets": "latest"}, 4),  # Stored from a second before the start on.
        ({"startingTimestamp": str(BEGUN_MS + 1500)}, 2),
        ({"startingOffsetsByTimestamp": f'{{"t": {BEGUN_MS + 500}}}'}, 1),
        ({"startingOffsets": '{"t": -1}'}, 4),
        ({"startingOffsets": '{"t": -2}'}, 0),
        ({"startingOffsets": '{"t": 3}'}, 3),
        ({"startingOffsets": "committed"}, 3),
        (
            {
                "startingOffsets": "committed",
                "startingOffsetsByTimestamp": f'{{"t": {BEGUN_MS + 500}}}',
            },
            1,
        ),
        ({"startingOffsets": "earliest"}, 0),
    ],
)
def test_a_broker_that_was_away_at_the_start_begins_where_the_stream_did(
    cluster, monkeypatch, options, begins
):
    clock = HandClock(BEGUN_MS + 4900)
    monkeypatch.setattr(stream, "SystemClock", lambda: clock)
    cluster.add("t", "a", next=5)
    away = cluster.add("t", "c", next=9, committed=3, begun_ms=BEGUN_MS)
    cluster.down.add("c")
    reader = reader_of(**options)
    start = all_from(reader)
    start = json.loads(json.dumps(start))
    cluster.down.clear()
    cluster.add("t", "a", queue=1, next=5)  # New: its broker was there.
    again = reader_of(**options)
    end = all_from(again, start)
    assert end["from"]["t"] == {"a": {"1": 0}, "c": {"0": begins}}
    assert (str(away), begins, 9) in rows(again, start, end)


def test_a_queue_whose_broker_is_down_waits(cluster, caplog):
    cluster.add("t", "a", next=10)
    cluster.add("t", "c", next=10)
    reader = reader_of(startingOffsets="earliest")
    first = all_from(reader)
    cluster.down.add("c")
    assert all_from(reader, first) == first
    cluster.down.add("a")  # No broker at all: the topic has no route.
    assert all_from(reader, first) == first
    assert "t@c:0 waits: its broker does not answer" in caplog.text
    cluster.down.clear()
    for state in cluster.queues_by_name.values():
        state.next = 12
    second = all_from(reader, first)
    assert rows(reader, first, second) == [("t@a:0", 10, 12), ("t@c:0", 10, 12)]


@pytest.mark.parametrize("question", ["brokers", "max_offsets", "min_offsets", "mean_sizes"])
def test_a_stream_waits_when_who_answered_a_moment_ago_is_gone(cluster, caplog, question):
    cluster.add("t", "a", next=10)
    cluster.add("t", "c", next=10)
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "1g"}
    reader, bounded = reader_of(**options), reader_of(failOnDataLoss="false", **options)
    first = all_from(reader)
    cluster.queues_by_name[MessageQueue("t", "a", 0)].next = 12
    cluster.add("t", "a", queue=1, next=5)
    cluster.down.add("c")
    cluster.vanishing.add(question)
    assert all_from(reader, first) == first
    assert f"nobody answers {question}" in caplog.text
    bounded.prepareForTriggerAvailableNow()
    with pytest.raises(NetError, match=question):
        all_from(bounded, first)
    cluster.vanishing.clear()
    second = all_from(reader, first)
    assert rows(reader, first, second) == [("t@a:0", 10, 12), ("t@a:1", 0, 5)]


@pytest.mark.parametrize("question", ["min_offsets", "mean_sizes", "offsets_by_time"])
def test_a_stream_waits_for_a_broker_that_has_left_the_route_a_moment_ago(
    cluster, monkeypatch, question
):
    cluster.add("t", next=10)
    reader = reader_of(startingOffsets="earliest", maxBytesPerTrigger="300")
    first = all_from(reader)
    cluster.add("t", queue=1, next=50)
    with monkeypatch.context() as patch:
        gone = BrokerNotFound("no broker 'b'")
        patch.setattr(cluster, question, lambda queues: dict.fromkeys(queues, gone))
        assert all_from(reader, first) == first
    assert all_from(reader, first) != first


def test_a_broker_that_comes_back_between_two_questions_has_lost_nothing(cluster):
    cluster.add("t", "a", next=10)
    cluster.add("t", "c", next=10)
    reader = reader_of(startingOffsets="earliest")
    first = all_from(reader)
    cluster.down.add("c")
    brokers = cluster.brokers

    def comes_back() -> set[str]:
        cluster.down.clear()
        return brokers()

    cluster.brokers = comes_back
    assert all_from(reader, first) == first


def test_a_topic_nobody_knows_is_an_error_at_the_start(cluster):
    reader = reader_of()
    with pytest.raises(TopicNotFound):
        all_from(reader)


def test_a_deleted_queue_is_data_loss(cluster):
    cluster.add("t", next=10)
    gone = cluster.add("t", queue=1, next=10)
    strict, lenient = reader_of(), reader_of(failOnDataLoss="false")
    first = all_from(strict)
    del cluster.queues_by_name[gone]
    with pytest.raises(DataLossError, match="t@b:1 no longer exists"):
        all_from(strict, first)
    assert all_from(lenient, first) == first


def test_a_queue_that_goes_back_is_data_loss(cluster):
    queue = cluster.add("t", next=10)
    strict, lenient = reader_of(), reader_of(failOnDataLoss="false")
    first = all_from(strict)
    cluster.queues_by_name[queue].next = 4
    with pytest.raises(DataLossError, match=r"went back from offset 10 to 4.*took over"):
        all_from(strict, first)
    bounded = reader_of()
    bounded.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match="went back from offset 10 to 4"):
        all_from(bounded, first)
    second = all_from(lenient, first)
    assert rows(lenient, first, second) == []
    cluster.queues_by_name[queue].next = 6
    third = all_from(lenient, second)
    assert rows(lenient, second, third) == [("t@b:0", 4, 6)]


def test_a_minimum_waits_for_messages_or_for_the_delay(cluster, monkeypatch):
    queue = cluster.add("t", next=0)
    now = 100.0
    monkeypatch.setattr(stream, "monotonic", lambda: now)
    reader = reader_of(minOffsetsPerTrigger="10", maxTriggerDelay="5s")
    first = all_from(reader)
    cluster.queues_by_name[queue].next = 3
    assert all_from(reader, first) == first
    now = 106.0
    second = all_from(reader, first)
    assert rows(reader, first, second) == [("t@b:0", 0, 3)]
    cluster.queues_by_name[queue].next = 13
    third = all_from(reader, second)
    assert rows(reader, second, third) == [("t@b:0", 3, 13)]


@pytest.mark.parametrize(
    ("options", "rows_in_all"),
    [
        ({"maxBytesPerTrigger": "10k"}, 90),
        ({"maxBytesPerTrigger": "1g", "maxOffsetsPerTrigger": "50"}, 50),
        ({"maxBytesPerTrigger": "1"}, 2),  # A message of each queue, however small the limit.
        ({"maxBytesPerTrigger": "1g"}, 1010),
    ],
)
def test_a_batch_is_bounded_by_bytes_and_by_messages(cluster, options, rows_in_all):
    """A message of the memory cluster has about 114 bytes."""
    cluster.add("t", next=1000)
    cluster.add("t", queue=1, next=10)
    reader = reader_of(startingOffsets="earliest", **options)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    read = rows(reader, reader.initialOffset(), end)
    assert sum(end - start for _, start, end in read) == pytest.approx(rows_in_all, abs=4)
    assert {name for name, _, _ in read} == {"t@b:0", "t@b:1"}


def test_bytes_alone_are_sparks_limit():
    assert reader_of(maxBytesPerTrigger="64m").getDefaultReadLimit() == ReadMaxBytes(64 << 20)


def test_the_group_is_told_of_finished_batches_where_it_is_wanted(cluster):
    queue = cluster.add("t", next=10)
    state = cluster.queues_by_name[queue]
    for options, committed in (({}, None), ({"commitOffsets": "batch"}, 10)):
        reader = reader_of(startingOffsets="earliest", **options)
        reader.commit(reader.initialOffset())
        assert state.committed is None
        reader.commit(all_from(reader))
        assert state.committed == committed


def test_the_group_is_told_of_the_last_batch_when_nothing_follows(cluster):
    queue = cluster.add("t", next=10)
    told: list[int] = []
    cluster.commit = lambda offsets: told.extend(offsets.values())
    reader = reader_of(startingOffsets="earliest", commitOffsets="batch")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(6))
    assert told == [], "planned is not done"
    last = reader.latestOffset(first, ReadMaxRows(6))
    reader.commit(first)
    assert told == [6]
    assert reader.latestOffset(last, ReadMaxRows(6)) == last
    assert told == [6, cluster.queues_by_name[queue].next], "each time once"


def test_a_group_that_cannot_be_told_stops_nothing(cluster, monkeypatch, caplog):
    cluster.add("t", next=10)
    reader = reader_of(commitOffsets="batch")
    first = all_from(reader)

    def refuse(_offsets: object) -> None:
        raise NetError("nobody is there")

    monkeypatch.setattr(cluster, "commit", refuse)
    reader.commit(first)
    assert (
        "The offsets of group spark-rocketmq-source could not be committed: nobody is there"
        in caplog.text
    )


def test_a_topic_deleted_before_an_available_now_run_is_data_loss(cluster, caplog):
    queue = cluster.add("t", next=10)
    strict, lenient = reader_of(), reader_of(failOnDataLoss="false")
    first = all_from(strict)
    del cluster.queues_by_name[queue]
    for reader in (strict, lenient):
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match=r"t@b:0 no longer exists.*up to offset 10"):
        all_from(strict, first)
    for _ in range(3):
        assert all_from(lenient, first) == first
    assert caplog.text.count("no longer exists") == 1, "said once, not at each trigger"


@pytest.mark.parametrize("count", [10, 50])
def test_a_topic_made_again_with_as_many_messages_or_more_is_data_loss(cluster, caplog, count):
    queue = cluster.add("t", next=10, begun_ms=BEGUN_MS)
    end = reader_of(startingOffsets="earliest").latestOffset({"initial": True, "v": 1})
    cluster.add("t", next=count, begun_ms=BEGUN_MS + 1_000_000)
    with pytest.raises(DataLossError, match=r"t@b:0 has another message at offset 9 than"):
        reader_of().latestOffset(end, ReadAllAvailable())
    lenient = reader_of(failOnDataLoss="false")
    anew = all_from(lenient, end)
    assert rows(lenient, end, anew) == [(str(queue), 0, count)], "all of the new topic"
    assert caplog.text.count("another message") == 1
    assert reader_of().latestOffset(anew, ReadAllAvailable()) == anew


def test_a_replica_without_the_last_messages_goes_on_with_what_was_stored_since(cluster):
    queue = cluster.add("t", next=10, begun_ms=BEGUN_MS, ms_each=100)
    reader = reader_of(startingOffsets="earliest", failOnDataLoss="false")
    end = all_from(reader)
    # The last one that was read was stored after 900 ms; now that is so of no message, and of the next ones from 5 on.
    cluster.add("t", next=30, begun_ms=BEGUN_MS - 4000 + 1)
    [(at, begin, until)] = rows(reader, end, all_from(reader, end))
    assert (at, begin, until) == (str(queue), 5, 30)


def test_the_lag_can_be_seen(cluster):
    cluster.add("t", next=10)
    reader = reader_of()
    assert reader.reportLatestOffset() is None
    all_from(reader)
    assert reader.reportLatestOffset() == {"q": {"t": {"b": {"0": 10}}}, "v": 1}


def test_a_reader_travels_to_the_executors():
    reader = reader_of(startingOffsets="earliest")
    assert isinstance(pickle.loads(pickle.dumps(reader)), RocketMQStreamReader)


def test_a_run_that_ends_does_not_leave_out_a_broker_of_its_checkpoint_in_silence(
    cluster, caplog
):
    cluster.add("t", "a", next=10)
    cluster.add("t", "c", next=10)
    options = {"startingOffsets": "earliest"}
    reader = reader_of(**options)
    first = all_from(reader)
    cluster.down.add("c")
    strict, lenient = reader_of(**options), reader_of(failOnDataLoss="false", **options)
    others = reader_of(brokers="a", **options)
    for bounded in (strict, lenient, others):
        bounded.prepareForTriggerAvailableNow()
    with pytest.raises(
        QueuesMissing, match=r"1 queue is missing: 1 of 't' at broker 'c' \(the check"
    ):
        all_from(strict, first)
    assert all_from(others, first) == first
    for _ in range(2):
        assert all_from(lenient, first) == first
    assert caplog.text.count("the read continues without them") == 1


def test_a_stream_that_runs_on_says_what_it_begins_without(cluster, caplog):
    cluster.add("t", "a", next=10)
    cluster.missing.append(MissingBroker("c", "x", 0, {"t": 4, "other": 9}))
    reader = reader_of(startingOffsets="earliest")
    first = all_from(reader)
    assert (
        "4 queues are missing: 4 of 't' at broker 'c' (it left the nameserver at 1970"
        in caplog.text
    )
    caplog.clear()
    assert all_from(reader, first) == first
    assert not caplog.text
    with pytest.raises(QueuesMissing, match="4 queues are missing"):
        reader_of().prepareForTriggerAvailableNow()
