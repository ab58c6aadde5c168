"""Which offsets are read, and by which tasks."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.model.errors import SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.planning import (
    PlannedRange,
    RangesPartition,
    check_order,
    check_places,
    covered_queues,
    partitions,
    resolve,
    share_out,
)
from cometmq.spark.source.settings import SourceSettings, TopicChoice
from tests.support.memory_cluster import MemoryCluster

BEGUN_MS = 1_700_000_000_000


def settings_of(*, is_stream=False, **options) -> SourceSettings:
    given_options = {"nameserver": "x:1", "subscribe": "t", **options}
    return SourceSettings.parse(given_options, is_stream=is_stream)


def starts(cluster: MemoryCluster, **options) -> list[int]:
    queues = covered_queues(TopicChoice.by_name("t"), cluster)
    starting = settings_of(**options).starting
    check_places(starting, queues)
    return list(resolve(starting, queues, cluster).values())


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.add("t", "b", 0, first=10, next=20, committed=15, begun_ms=BEGUN_MS)
    cluster.add("t", "b", 1, first=0, next=0, begun_ms=BEGUN_MS)
    return cluster


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [10, 0]),
        ({"startingOffsets": "earliest"}, [10, 0]),
        ({"startingOffsets": "latest"}, [20, 0]),
        ({"startingOffsets": "committed"}, [15, 0]),
        ({"startingOffsets": '{"t": {"b": {"0": 12}}}'}, [12, 0]),
        ({"startingOffsets": '{"t": -1}'}, [20, 0]),
        ({"startingOffsets": '{"t": {"b": -2}}'}, [10, 0]),
        (
            {
                "startingTimestamp": "1700000013000",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [13, 0],
        ),
        ({"startingOffsetsByTimestamp": '{"t": {"b": {"0": 1700000012500}}}'}, [13, 0]),
        # A time for all goes before times, times before offsets.
        (
            {
                "startingTimestamp": "1700000013000",
                "startingOffsetsByTimestamp": '{"t": 1700000011000}',
                "startingOffsets": "latest",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [13, 0],
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"t": {"b": {"0": 1700000011000}}}',
                "startingOffsets": "latest",
            },
            [11, 0],
        ),
    ],
)
def test_queues_begin_where_the_options_say(cluster, options, expected):
    assert starts(cluster, **options) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": '{"typo": 5}'}, r"topics that are not read: typo"),
        ({"startingOffsets": '{"t": -7}'}, "-7 is not an offset"),
        ({"startingOffsets": '{"t": -3}'}, "-3 is not an offset"),
        # Kafka's shape, a slip, a queue that there is not.
        (
            {"startingOffsets": '{"t": {"0": 12}}'},
            r"'t' has no broker '0'; it has b \(queues 0, 1\).*Kafka.*\{\"t\": \{\"b\": \{\"0\": 12",
        ),
        ({"startingOffsets": '{"t": {"B": 12}}'}, "no broker 'B'.*did you mean 'b'"),
        (
            {"startingOffsets": '{"t": {"b": {"99": 12}}}'},
            "'t' has no readable queue 99 at broker 'b'",
        ),
        ({"startingOffsets": '{"t": {"b": {"00": 12}}}'}, "'t' has no readable queue 00"),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 0}}'},
            "ByTimestamp: topic 't' has no broker",
        ),
        (
            {"startingOffsets": '{"t": {"b": {"0": 21}}}'},
            "21 is beyond the end of t@b:0, which is 20",
        ),
        (
            {
                "startingTimestamp": "1700000099000",
                "startingOffsetsByTimestampStrategy": "error",
            },
            "t@b:0 has no message stored at or after 1700000099000",
        ),
    ],
)
def test_a_beginning_that_is_none_is_refused(cluster, options, says):
    with pytest.raises(SettingsError, match=says):
        starts(cluster, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"startingOffsets": '{"t": {"b": {"0": 15}}}', "endingOffsets": '{"t": 12}'},
            "t@b:0: start offset 15 is after end offset 12",
        ),
        (
            {"startingTimestamp": "1700000000002", "endingTimestamp": "1700000000001"},
            "start 1700000000002 ms is after end 1700000000001 ms",
        ),
    ],
)
def test_an_end_before_the_beginning_is_refused(cluster, options, says):
    settings, queues = settings_of(**options), covered_queues(TopicChoice.by_name("t"), cluster)
    with pytest.raises(SettingsError, match=says):
        check_order(settings.starting, settings.ending, queues)
    check_order(settings.starting, settings_of().ending, queues)


def test_a_pattern_leaves_out_what_the_system_owns_unless_it_is_named():
    cluster = MemoryCluster()
    for topic in ("orders", "orders-eu", "other", "%RETRY%orders", "rmq_sys_orders"):
        cluster.add(topic)
    found = covered_queues(TopicChoice.by_pattern(".*orders.*"), cluster)
    assert [queue.topic for queue in found] == ["orders", "orders-eu"]
    named = covered_queues(TopicChoice.by_pattern("%RETRY%.*"), cluster)
    assert [queue.topic for queue in named] == ["%RETRY%orders"]


def test_an_assignment_names_queues_of_a_broker_or_of_each():
    cluster = MemoryCluster()
    for broker in ("a", "b"):
        for number in range(3):
            cluster.add("t", broker, number)
    one = covered_queues(TopicChoice.by_assignment('{"t": {"b": [0, 2]}}'), cluster)
    assert [str(queue) for queue in one] == ["t@b:0", "t@b:2"]
    every = covered_queues(TopicChoice.by_assignment('{"t": [1]}'), cluster)
    assert [str(queue) for queue in every] == ["t@a:1", "t@b:1"]
    with pytest.raises(
        SettingsError, match=r"t@b has no readable queue \[7\]; topic 't' has a"
    ):
        covered_queues(TopicChoice.by_assignment('{"t": {"b": [0, 7]}}'), cluster)


def test_an_unknown_topic_is_an_error_unless_it_was_known_before():
    with pytest.raises(TopicNotFound):
        covered_queues(TopicChoice.by_name("t"), MemoryCluster())
    assert covered_queues(TopicChoice.by_name("t"), MemoryCluster(), held={"t"}) == []


def ranges_of(lengths: list[int]) -> list[PlannedRange]:
    return [
        PlannedRange(MessageQueue("t", "b", number), 5, 5 + length)
        for number, length in enumerate(lengths)
    ]


lengths = st.lists(st.integers(1, 100_000), min_size=1, max_size=12)
option = st.one_of(st.none(), st.integers(1, 50_000))


@given(lengths, option, option, st.integers(0, 50_000))
def test_tasks_cover_every_offset_once_in_order(sizes, partitions_min, rows_max, joined):
    options = {"minRecordsPerTask": str(joined)}
    if partitions_min is not None:
        options["minPartitions"] = str(partitions_min % 40 + 1)
    if rows_max is not None:
        options["maxRecordsPerPartition"] = str(rows_max + 1000)
    ranges = ranges_of(sizes)
    tasks = partitions(ranges, settings_of(**options))
    pieces = [piece for task in tasks for piece in task.ranges]
    merged: list[PlannedRange] = []
    for piece in pieces:
        assert piece.rows > 0
        if merged and merged[-1].queue == piece.queue:
            assert merged[-1].end == piece.start
            merged[-1] = PlannedRange(piece.queue, merged[-1].start, piece.end)
        else:
            merged.append(piece)
    assert merged == ranges
    if rows_max is not None:
        assert max(piece.rows for piece in pieces) <= rows_max + 1000
    if "minPartitions" in options:
        # As in Spark's Kafka source it is a wish: rounding may leave a few less.
        assert len(tasks) >= min(len(ranges), int(options["minPartitions"]))


def test_a_long_queue_is_one_task_and_short_ones_share_one():
    tasks = partitions(ranges_of([20_000, 3, 4, 5, 30_000]), settings_of())
    assert [[each.rows for each in task.ranges] for task in tasks] == [
        [20_000],
        [3, 4, 5, 30_000],
    ]
    alone = partitions(ranges_of([3, 4]), settings_of(minRecordsPerTask="0"))
    assert [len(task.ranges) for task in alone] == [1, 1]


def test_a_long_queue_is_split_for_more_partitions():
    tasks = partitions(ranges_of([90_000, 10_000]), settings_of(minPartitions="10"))
    assert [task.ranges[0].rows for task in tasks] == [10_000] * 10


@given(lengths, st.integers(1, 200_000))
def test_a_limit_is_shared_out_and_starves_nobody(sizes, rows_max):
    ranges = ranges_of(sizes)
    ends = share_out(ranges, rows_max)
    rows = [ends[each.queue] - each.start for each in ranges]
    assert all(1 <= got <= each.rows for got, each in zip(rows, ranges, strict=True))
    assert sum(rows) <= max(rows_max, len(rows)) + len(rows)
    if sum(sizes) <= rows_max:
        assert rows == sizes


def test_a_task_travels_to_its_executor():
    task = RangesPartition(ranges_of([3, 4]))
    assert pickle.loads(pickle.dumps(task)).ranges == task.ranges
    assert "t@b:0[5, 8)" in repr(task)
