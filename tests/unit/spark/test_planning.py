"""Which offsets are read, and by which tasks."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.commits import ends_of
from cometmq.spark.source.missing import (
    MissingBrokerQueues,
    QueuesMissing,
    check_missing,
    missing_queues,
)
from cometmq.spark.source.offsets import INITIAL, QueueValues, StreamOffset
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


@pytest.fixture
def lost() -> MemoryCluster:
    lost = MemoryCluster()
    for number in range(2):
        lost.add("t", "a", number)
    lost.add("orders-eu", "b")
    return lost


def found(lost: MemoryCluster, **options: str) -> list[MissingBrokerQueues]:
    given = {"nameserver": "x:1", **({"subscribe": "t"} | options)}
    if "subscribePattern" in options or "assign" in options:
        del given["subscribe"]
    settings = SourceSettings.parse(given, is_stream=False)
    return missing_queues(settings, covered_queues(settings.topics, lost), lost)


def shown(all_of: list[MissingBrokerQueues]) -> list[str]:
    return [str(queue) for each in all_of for queue in each.queues]


def test_nobody_is_missing_where_nothing_is_known(lost):
    assert found(lost) == []


def test_whom_the_nameserver_remembers_is_missing_with_the_queues_that_are_read(lost):
    lost.missing.append(MissingBroker("c", "x", 0, {"t": 2, "orders-us": 1, "%RETRY%t": 1}))
    assert shown(found(lost)) == ["t@c:0", "t@c:1"]
    assert shown(found(lost, subscribePattern="orders-.*")) == ["orders-us@c:0"]
    assert shown(found(lost, subscribe="orders-eu")) == []
    assert shown(found(lost, assign='{"t": [1]}')) == ["t@c:1"]
    assert shown(found(lost, assign='{"t": {"a": [1]}}')) == []


def test_who_is_there_under_another_nameserver_is_not_missing(lost):
    lost.missing.append(MissingBroker("a", "x", 0, {"t": 2}))
    assert found(lost) == []


def test_an_order_configuration_names_brokers(lost):
    lost.ordered = [MessageQueue("t", broker, 0) for broker in ("a", "c")]
    (one,) = found(lost)
    assert shown([one]) == ["t@c:0"]
    assert "order configuration" in one.why


def test_the_brokers_that_the_user_names_are_all_that_must_be_there(lost):
    lost.missing.append(MissingBroker("c", "x", 0, {"t": 3}))
    assert found(lost, brokers="a") == []
    assert shown(found(lost, brokers="a, c")) == ["t@c:0", "t@c:1", "t@c:2"]
    (slip,) = found(lost, brokers="a,bb")
    assert len(slip.queues) == 2
    assert (
        "not registered; did you mean 'b'?; its number of queues is assumed to be that of the other brokers"
        in slip.why
    )
    (elsewhere,) = found(lost, brokers="b")
    assert "no queue of the topics" in elsewhere.why


def test_a_query_that_wants_other_queues_is_not_refused(lost):
    lost.missing.append(MissingBroker("c", "x", 0, {"t": 2}))
    settings = SourceSettings.parse({"nameserver": "x:1", "subscribe": "t"}, is_stream=False)
    some = found(lost)
    check_missing(some, settings, wanted=lambda _queues: [])
    with pytest.raises(
        QueuesMissing, match=r"^1 queue is missing: 1 of 't' at broker 'c' \(it left"
    ):
        check_missing(some, settings, wanted=lambda queues: queues[:1])


def queue(topic="t", broker="b", number=0):
    return MessageQueue(topic, broker, number)


def test_equal_offsets_are_equal_text_whatever_order_they_were_made_in():
    ends = {queue("z"): 1, queue("a", "y", 10): 2, queue("a", "y", 2): 3, queue("a", "x"): 4}
    backwards = dict(reversed(ends.items()))
    text = json.dumps(StreamOffset(ends).to_json())
    assert text == json.dumps(StreamOffset(backwards).to_json())
    assert text == (
        '{"q": {"a": {"x": {"0": 4}, "y": {"2": 3, "10": 2}}, "z": {"b": {"0": 1}}}, "v": 1}'
    )


def test_an_offset_comes_back_from_its_json():
    offset = StreamOffset({queue(): 5, queue(number=1): 7}, {queue(number=1): 3})
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_initial_offset_knows_no_queue():
    offset = StreamOffset.from_json(INITIAL)
    assert offset.is_initial
    assert offset.ends == {}
    assert offset.to_json() == INITIAL


@pytest.mark.parametrize("value", [{}, {"v": 2, "q": {}}, {"topic": {"0": 1}}])
def test_an_offset_of_something_else_is_refused(value):
    with pytest.raises(SettingsError, match="new checkpoint location"):
        StreamOffset.from_json(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t": 5}', 5),
        ('{"t": {"b": 6}}', 6),
        ('{"t": {"b": {"0": 7, "1": 8}}}', 7),
        ('{"t": {"b": {"1": 8}}}', None),
        ('{"t": {"other": 6}}', None),
        ("{}", None),
    ],
)
def test_a_tree_may_end_at_topic_broker_or_queue(text, expected):
    assert QueueValues.parse(text, "startingOffsets").of(queue()) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latst", "not JSON"),
        ("5", "object by topic"),
        ('{"t": "5"}', "object by broker"),
        ('{"t": true}', "object by broker"),
        ('{"t": {"b": {"x": 1}}}', "'x' is not a queue number"),
        ('{"t": {"b": {"0": {"deep": 1}}}}', "a number"),
    ],
)
def test_a_wrong_tree_names_the_option_and_the_fault(text, says):
    with pytest.raises(SettingsError, match=f"startingOffsets.*{says}"):
        QueueValues.parse(text, "startingOffsets")


QUEUE = MessageQueue("orders", "broker-a", 3)


def report(*offsets: object) -> str:
    return json.dumps({"sources": [{"endOffset": offset} for offset in offsets]})


def test_the_end_of_a_batch_is_found_among_other_sources():
    ours = StreamOffset({QUEUE: 42}, {QUEUE: 7}).to_json()
    others: list[object] = [{"topic": {"0": 5}}, 17, "17", None, "no json", {"v": 9}]
    assert ends_of(report(*others, ours)) == {QUEUE: 42}
    assert ends_of(report(json.dumps(ours))) == {QUEUE: 42}


def test_before_the_first_batch_there_is_nothing_to_store():
    assert ends_of(report(INITIAL)) == {}
    assert ends_of(report()) == {}
