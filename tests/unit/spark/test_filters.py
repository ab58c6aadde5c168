"""Filters of a query: what they spare a read, and that they never cost a row."""

import operator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from cometmq import ALL
from cometmq.connect import IndexedMessages
from cometmq.model.queue import MessageQueue
from cometmq.spark.push_down import PUSH_DOWN_MODULE
from cometmq.spark.schema import message_schema
from cometmq.spark.source import batch
from cometmq.spark.source.batch import FilteredReader, RocketMQReader, batch_reader
from cometmq.spark.source.settings import SourceSettings
from tests.support.memory_cluster import MemoryCluster

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EACH_MS = 40_000  # Between two messages; the margin for store times is 60 s.
COUNT = 30
COLUMNS = ["topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "tags", "keys"]


def cluster_of() -> MemoryCluster:
    cluster = MemoryCluster()
    for topic, broker, queue in (("t", "a", 0), ("t", "a", 1), ("t", "b", 0), ("u", "a", 0)):
        cluster.add(
            topic, broker, queue, next=COUNT, tags=("x", "y", "*", "z z"), ms_each=EACH_MS
        )
    return cluster


def settings_of(**options: str) -> SourceSettings:
    given = {"nameserver": "x:1", "subscribe": "t,u", **options}
    return SourceSettings.parse(given, is_stream=False)


def rows_of(reader: RocketMQReader) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions()
        for found in reader.read(partition)
        for row in found.to_pylist()
    ]


def narrowed(cluster: MemoryCluster, *filters: Filter, **options: str) -> list[dict[str, Any]]:
    """What a read gives to Spark, which would check the filters again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "source_cluster", lambda _settings: cluster)
        reader = FilteredReader(settings_of(**options), message_schema(COLUMNS))
        assert list(reader.pushFilters(list(filters))) == list(filters)
        return rows_of(reader)


def at(number: float) -> datetime:
    """When message `number` of a queue was stored."""
    return EPOCH + timedelta(milliseconds=number * EACH_MS)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["t", "u", "nobody"]),
    "brokerName": st.sampled_from(["a", "b", "c"]),
    "queueId": st.integers(-1, 2),
    "queueOffset": st.integers(-2, COUNT + 2),
    "storeTimestamp": st.floats(-2, COUNT + 2).map(at),
    "tags": st.sampled_from(["x", "y", "*", "z z", "w", ""]),
    "keys": st.sampled_from(["k0", "k6", "none"]),
}
COMPARED: dict[Any, Any] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(list(VALUES)))
    value = VALUES[column]
    kind = draw(st.sampled_from([*COMPARED, In]))
    given: Any = (
        In((column,), tuple(draw(st.lists(st.one_of(value, st.none()), max_size=3))))
        if kind is In
        else kind((column,), draw(value))
    )
    return Not(given) if draw(st.booleans()) and draw(st.booleans()) else given


def holds(filter_: Any, row: dict[str, Any]) -> bool:
    if isinstance(filter_, Not):
        return not holds(filter_.child, row)
    has, value = row[filter_.attribute[0]], filter_.value
    compare = COMPARED.get(type(filter_))
    return has in value if compare is None else bool(compare(has, value))


@cache
def all_rows() -> list[dict[str, Any]]:
    return narrowed(cluster_of())


@settings(max_examples=150, deadline=None)
@given(st.lists(filters(), max_size=4))
def test_a_narrowed_read_has_every_row_that_the_filters_keep(given):
    kept = [row for row in all_rows() if all(holds(each, row) for each in given)]
    found = narrowed(cluster_of(), *given)
    assert [row for row in found if all(holds(each, row) for each in given)] == kept


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ([EqualTo(("topic",), "u")], COUNT),
        ([EqualTo(("brokerName",), "a"), EqualTo(("topic",), "t")], 2 * COUNT),
        ([In(("queueId",), (1, 7))], COUNT),
        ([GreaterThan(("queueId",), 0)], COUNT),
        ([EqualTo(("queueOffset",), 5)], 4),
        ([GreaterThanOrEqual(("queueOffset",), 25), LessThan(("queueOffset",), 28)], 4 * 3),
        # Two messages of margin to each side, and the bounds themselves.
        ([GreaterThan(("storeTimestamp",), at(20))], 4 * 11),
        ([LessThanOrEqual(("storeTimestamp",), at(5))], 4 * 7),
        ([EqualTo(("tags",), "x")], 4 * 8),
        ([In(("tags",), ("x", "y", None))], 4 * 16),
        ([EqualTo(("topic",), "u"), EqualTo(("topic",), "t")], 0),
        ([In(("queueId",), ())], 0),
        # What is not understood narrows nothing.
        ([StringStartsWith(("topic",), "u")], 4 * COUNT),
        ([Not(EqualTo(("topic",), "u"))], 4 * COUNT),
        ([EqualTo(("properties", "topic"), "u")], 4 * COUNT),
        ([EqualTo(("tags",), "*")], 4 * COUNT),
        ([EqualTo(("tags",), "a || b")], 4 * COUNT),
    ],
)
def test_a_filter_spares_what_it_can(given, rows):
    assert len(narrowed(cluster_of(), *given)) == rows


def test_the_users_own_expression_goes_before_the_filters_tags():
    found = narrowed(cluster_of(), EqualTo(("tags",), "x"), subExpression="y")
    assert {row["tags"] for row in found} == {"y"}


def test_tags_of_system_topics_are_not_the_brokers_to_filter():
    reader = FilteredReader(settings_of(subscribe="SCHEDULE_TOPIC_XXXX"), message_schema())
    reader.pushFilters([EqualTo(("tags",), "x")])
    assert reader._settings.expression == ALL


def test_the_index_names_the_offsets_of_keys_and_ids():
    cluster = cluster_of()
    queue = MessageQueue("t", "a", 0)
    # The index of broker a is as far as message 20; broker b has never heard of the key.
    cluster.index["k3"] = IndexedMessages(
        frozenset({(queue, 3), (queue, 10)}), {"a": 20 * EACH_MS}
    )
    found = narrowed(cluster, EqualTo(("keys",), "k3"), subscribe="t")
    offsets = {
        name: [
            row["queueOffset"] for row in found if (row["brokerName"], row["queueId"]) == name
        ]
        for name in (("a", 0), ("a", 1), ("b", 0))
    }
    not_indexed = list(range(19, COUNT))
    assert offsets == {
        ("a", 0): [3, 10, *not_indexed],
        ("a", 1): not_indexed,
        ("b", 0): list(range(COUNT)),
    }
    assert len(narrowed(cluster, EqualTo(("msgId",), "k3"), subscribe="t")) == len(found)


@pytest.mark.parametrize("sign", ["\u3000", "\u00a0", "\t"])
def test_the_index_is_asked_for_the_whole_key_with_any_white_space_but_a_space(sign):
    cluster = cluster_of()
    key = f"订单{sign}号"
    # Another message has the part before as its key, and the index knows its place alone.
    cluster.index["订单"] = IndexedMessages(
        frozenset({(MessageQueue("t", "a", 0), 3)}), {"a": 1 << 60, "b": 1 << 60}
    )
    cluster.index[key] = IndexedMessages(
        frozenset({(MessageQueue("t", "a", 0), 7)}), {"a": 1 << 60, "b": 1 << 60}
    )
    found = narrowed(cluster, EqualTo(("keys",), f" {key} other"), subscribe="t")
    assert [row["queueOffset"] for row in found] == [7]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (EqualTo(("keys",), "k9"), {}),  # Unknown to the index: it may be switched off.
        (In(("keys",), ("k3", "k9")), {}),
        (EqualTo(("keys",), ""), {}),
        (EqualTo(("keys",), "k3"), {"indexLookup": "false"}),
        (In(("keys",), tuple(f"k{n}" for n in range(50))), {}),
    ],
)
def test_an_index_that_cannot_be_believed_spares_nothing(given, options):
    cluster = cluster_of()
    cluster.index["k3"] = IndexedMessages(
        frozenset({(MessageQueue("t", "a", 0), 3)}), {"a": 1 << 60}
    )
    assert len(narrowed(cluster, given, **options)) == 4 * COUNT


def test_only_sparks_push_down_gets_a_reader_that_takes_filters():
    """While push-down is off, Spark refuses every reader with `pushFilters`."""
    made = "from cometmq.spark.source.batch import batch_reader as make\nreader = make(*given)"
    given = settings_of(), message_schema()
    for spec in ({"__name__": PUSH_DOWN_MODULE}, {"__name__": "pyspark.daemon"}):
        names: dict[str, Any] = {**spec, "given": given}
        exec(made, names)
        is_asked = spec["__name__"] == PUSH_DOWN_MODULE
        assert isinstance(names["reader"], FilteredReader) == is_asked
    # Spark asks whether the class overrides the method of DataSourceReader.
    assert "pushFilters" not in vars(RocketMQReader)
    assert not isinstance(batch_reader(*given), FilteredReader)
