"""Ranges read through pulls: nothing missing, nothing twice, nothing silently lost."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    CometError,
    NetError,
    TopicNotFound,
)
from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import arrow_schema, message_schema
from cometmq.spark.source import pull
from cometmq.spark.source.loss import DataLossError
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.settings import SourceSettings
from tests.support import memory_cluster
from tests.support.memory_cluster import MemoryCluster


def reader_of(cluster: MemoryCluster, **options) -> RangePuller:
    given = {
        "nameserver": "x:1",
        "subscribe": "t",
        "fetchOffset.retryIntervalMs": "0",
        **options,
    }
    settings = SourceSettings.parse(given, is_stream=False)
    return RangePuller(cluster, settings, arrow_schema(message_schema(["queueOffset", "body"])))


LENIENT = {"failOnDataLoss": "false"}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


def batches_of(
    cluster: MemoryCluster, *ranges: tuple[MessageQueue, int, int], **options: str
) -> list[pa.RecordBatch]:
    """What a task gives for ranges of queues."""
    planned = [PlannedRange(*each) for each in ranges]
    return list(reader_of(cluster, **options).batches(planned))


def read(
    cluster: MemoryCluster, *ranges: tuple[MessageQueue, int, int], **options: str
) -> list[int]:
    """The offsets of what a task gives."""
    return offsets_of(batches_of(cluster, *ranges, **options))


def offsets_of(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def test_a_range_is_read_whole_in_order_and_not_beyond(cluster):
    queue = cluster.add("t", first=0, next=100)
    batches = batches_of(cluster, (queue, 10, 60), **{"pull.batchSize": "7"})
    assert offsets_of(batches) == list(range(10, 60))
    assert batches[0].column(1)[0].as_py() == b"t@b:0#10"


def test_answers_are_joined_to_windows_of_a_good_size(cluster, monkeypatch):
    monkeypatch.setattr(pull, "WINDOW_ROWS", 20)
    queue = cluster.add("t", first=0, next=50)
    batches = batches_of(cluster, (queue, 0, 50), **{"pull.batchSize": "8"})
    assert [batch.num_rows for batch in batches] == [24, 24, 2]


def test_ranges_of_several_queues_come_one_after_the_other(cluster):
    one, two = cluster.add("t", next=3), cluster.add("t", queue=1, next=3)
    assert read(cluster, (one, 0, 3), (two, 1, 2)) == [0, 1, 2, 1]


def test_what_the_broker_filters_out_does_not_stop_the_read(cluster):
    queue = cluster.add("t", next=30, hidden=frozenset(range(5, 25)))
    found = read(cluster, (queue, 0, 30), subExpression="t", **{"pull.batchSize": "10"})
    assert found == [0, 1, 2, 3, 4, 25, 26, 27, 28, 29]


def test_deleted_messages_fail_the_read_and_are_named(cluster):
    queue = cluster.add("t", first=20, next=30)
    says = r"t@b:0: offsets 5 to 19 are deleted.*continues at 20"
    with pytest.raises(DataLossError, match=says):
        read(cluster, (queue, 5, 30))


def test_messages_whose_log_is_deleted_are_not_taken_for_filtered(cluster, caplog):
    queue = cluster.add("t", next=30, hidden=frozenset(range(10)))
    options = {"pull.batchSize": "10"}
    with pytest.raises(DataLossError, match="offsets 0 to 9 are deleted"):
        read(cluster, (queue, 0, 30), **options)
    assert read(cluster, (queue, 0, 30), **LENIENT, **options) == list(range(10, 30))
    assert "offsets 0 to 9 are deleted" in caplog.text


def test_messages_passed_over_in_an_answer_with_others_are_lost(cluster):
    """A broker whose oldest file has just gone answers with the first message behind it."""
    queue = cluster.add("t", next=30, hidden=frozenset(range(7)))
    with pytest.raises(DataLossError, match=r"offsets 0 to 6 are deleted.*continues at 7"):
        read(cluster, (queue, 0, 30))
    for options in (LENIENT, {"subExpression": "t"}):
        assert read(cluster, (queue, 0, 30), **options) == list(range(7, 30))


def test_deleted_messages_are_skipped_where_the_user_says_so(cluster, caplog):
    queue = cluster.add("t", first=20, next=30)
    assert read(cluster, (queue, 5, 25), **LENIENT) == [20, 21, 22, 23, 24]
    assert read(cluster, (queue, 5, 15), **LENIENT) == []
    assert "are deleted" in caplog.text


def test_losses_that_are_allowed_are_counted(cluster, caplog):
    one, two = cluster.add("t", first=20, next=30), cluster.add("t", queue=1, first=3, next=9)
    found = read(cluster, (one, 5, 25), (two, 0, 9), **LENIENT)
    assert found == [*range(20, 25), *range(3, 9)]
    assert "15 messages lost so far" in caplog.text
    assert "18 messages lost so far" in caplog.text


@pytest.mark.parametrize(("code", "is_loss"), [(17, True), (16, False)])
def test_a_broker_that_refuses_is_quoted_with_queue_and_offset(
    cluster, monkeypatch, code, is_loss
):
    queue = cluster.add("t", next=30)

    def refuse(*_: object, **__: object) -> None:
        raise BrokerRefused(code, "its reason", "10.0.0.1:10911")

    monkeypatch.setattr(cluster, "pulls", refuse)
    says = "t@b:0: its topic was deleted, offsets 4 to 29" if is_loss else (
        "t@b:0 cannot be read from offset 4: 10.0.0.1:10911 answered 16.*its reason"
    )  # fmt: skip
    with pytest.raises(CometError, match=says):
        read(cluster, (queue, 4, 30))
    if is_loss:
        assert batches_of(cluster, (queue, 4, 30), **LENIENT) == []


@pytest.mark.parametrize("error", [NetError, BrokerNotFound, TopicNotFound])
def test_a_task_in_a_new_process_waits_for_a_broker_that_is_away(cluster, monkeypatch, error):
    queue = cluster.add("t", next=5)
    pulls, tries = cluster.pulls, iter(range(2))

    def away_twice(*args: Any, **plan: Any) -> Any:
        if next(tries, None) is not None:
            raise error("nobody is there")
        return pulls(*args, **plan)

    monkeypatch.setattr(cluster, "pulls", away_twice)
    monkeypatch.setattr(pull, "RETRY_S", 0)
    assert read(cluster, (queue, 0, 5)) == [0, 1, 2, 3, 4]
    tries = iter(range(1000))
    with pytest.raises(error):
        read(cluster, (queue, 0, 5), pullTimeoutMs="1")


def test_a_broker_filters_by_sql_and_the_range_is_read_whole(cluster):
    queue = cluster.add("t", next=30, hidden=frozenset(range(5, 30)))
    options = {"subExpression": "a > 3", "subExpressionType": "SQL92", "pull.batchSize": "10"}
    assert read(cluster, (queue, 0, 30), **options) == [0, 1, 2, 3, 4]
    assert cluster.pulls_seen[-1] == (20, 30)


def test_a_queue_that_lost_its_end_fails_the_read_after_some_tries(cluster):
    queue = cluster.add("t", next=10)
    with pytest.raises(DataLossError, match=r"offsets 10 to 19 do not exist.*ends at 10"):
        read(cluster, (queue, 0, 20), **{"fetchOffset.numRetries": "2"})
    # Once after [0, 10), then three times alone.
    assert cluster.pulls_seen.count((10, 20)) == 4


def test_a_broker_that_catches_up_loses_nothing(cluster, monkeypatch):
    queue = cluster.add("t", next=10)
    monkeypatch.setattr(
        pull, "sleep", lambda _s: setattr(cluster.queues_by_name[queue], "next", 20)
    )
    assert read(cluster, (queue, 0, 20)) == list(range(20))


def short_ranges(
    cluster: MemoryCluster, count: int, **state
) -> list[tuple[MessageQueue, int, int]]:
    queues = [cluster.add("t", queue=number, next=10, **state) for number in range(count)]
    return [(queue, 2, 9) for queue in queues]


def test_short_ranges_are_asked_together_and_come_in_one_batch(cluster, monkeypatch):
    monkeypatch.setattr(pull, "AHEAD_RANGES", 3)
    batches = batches_of(cluster, *short_ranges(cluster, 5))
    assert cluster.asked_ahead == [3, 2]
    assert [offsets_of([batch]) for batch in batches] == [[2, 3, 4, 5, 6, 7, 8] * 5]
    bodies = batches[0].column(1).to_pylist()
    assert bodies[::7] == [f"t@b:{number}#2".encode() for number in range(5)]
    # Nothing was asked twice.
    assert len(cluster.pulls_seen) == 5


def test_a_first_answer_that_is_no_whole_range_is_gone_on_from(cluster):
    found = read(cluster, *short_ranges(cluster, 3), **{"pull.batchSize": "4"})
    assert found == [2, 3, 4, 5, 6, 7, 8] * 3
    assert cluster.pulls_seen == [(2, 9)] * 3 + [(6, 9)] * 3


def test_a_first_answer_that_did_not_come_is_asked_for_again(cluster, monkeypatch):
    monkeypatch.setattr(cluster, "first_pulls", lambda asked, _: [None] * len(asked))
    assert read(cluster, *short_ranges(cluster, 3)) == [2, 3, 4, 5, 6, 7, 8] * 3


def test_ranges_of_two_brokers_are_batches_of_two(cluster):
    one, two = cluster.add("t", "a", next=3), cluster.add("t", "b", next=3)
    reader = replace(
        reader_of(cluster), schema=arrow_schema(message_schema(["queueOffset", "brokerName"]))
    )
    batches = list(reader.batches([PlannedRange(one, 0, 3), PlannedRange(two, 0, 3)]))
    assert [batch.column(1).to_pylist() for batch in batches] == [["a"] * 3, ["b"] * 3]


def test_tags_are_compared_in_each_of_many_short_ranges(cluster):
    ranges = short_ranges(cluster, 3, tags=("t", "u"))
    assert read(cluster, *ranges, subExpression="u") == [3, 5, 7] * 3


def test_a_loss_in_the_first_answer_of_a_short_range_is_named(cluster):
    ranges = short_ranges(cluster, 3)
    cluster.queues_by_name[ranges[1][0]].first = 5
    with pytest.raises(DataLossError, match=r"t@b:1: offsets 2 to 4 are deleted"):
        read(cluster, *ranges)
    assert read(cluster, *ranges, **LENIENT) == [*range(2, 9), *range(5, 9), *range(2, 9)]


@pytest.mark.parametrize(("count", "number"), [(1, 0), (4, 2)], ids=["alone", "among-many"])
def test_a_broken_answer_names_its_queue(cluster, monkeypatch, count, number):
    made = memory_cluster.record
    monkeypatch.setattr(
        "tests.support.memory_cluster.record",
        lambda queue, *rest: b"broken" if queue.queue_id == number else made(queue, *rest),
    )
    with pytest.raises(CodecError, match=rf"t@b:{number}: no whole record"):
        read(cluster, *short_ranges(cluster, count))


def test_ranges_too_large_together_are_not_joined(cluster, monkeypatch):
    monkeypatch.setattr(pull, "JOINED_BYTES_MAX", 100)
    batches = batches_of(cluster, *short_ranges(cluster, 2))
    assert [offsets_of([batch]) for batch in batches] == [[2, 3, 4, 5, 6, 7, 8]] * 2
