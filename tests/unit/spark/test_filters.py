"""Filters of a query: what they spare a read, and that they never cost a row."""

import operator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
from pyspark.sql.types import StructType

from cometmq import ALL
from cometmq.connect import IndexedMessages
from cometmq.model.queue import MessageQueue
from cometmq.offline import pruning
from cometmq.spark.push_down import PUSH_DOWN_MODULE
from cometmq.spark.schema import arrow_schema, message_schema
from cometmq.spark.source import batch
from cometmq.spark.source.batch import FilteredReader, RocketMQReader, batch_reader
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.store.batch import FilteredStoreReader, StoreReader, store_reader
from cometmq.spark.store.format import RocketMQStoreSource
from cometmq.spark.store.settings import StoreReadSettings
from tests.support.big_store import SETTINGS, make_big_store
from tests.support.memory_cluster import MemoryCluster
from tests.support.offline_steps import STORES

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


STORE_COLUMNS = "topic,queueId,queueOffset,commitLogOffset,storeTimestamp,keys"
SPLIT = 4 << 20


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of ours with 18 MB of messages, put within two seconds; only read."""
    path = tmp_path_factory.mktemp("filters") / "store"
    make_big_store(path, 15_000, settings=replace(SETTINGS, commitlog_file_size=8 << 20))
    return path


def reader_of(store: Path, *filters: Filter, **options: str) -> Any:
    given = {"path": str(store), "columns": STORE_COLUMNS, "splitBytes": str(SPLIT), **options}
    schema = RocketMQStoreSource(given).schema()
    assert isinstance(schema, StructType)
    reader = FilteredStoreReader(StoreReadSettings.parse(given, is_stream=False), schema)
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark checks them again"
    return reader


def read(reader: Any) -> pa.Table:
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, arrow_schema(reader._schema))


def bytes_of(reader: Any) -> int:
    """How much of the log the tasks walk over."""
    return sum(split.hi - split.lo for part in reader.partitions() for split in part.log)


TESTS: dict[Any, Any] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
    StringStartsWith: pc.starts_with,
    In: lambda column, values: pc.is_in(column, value_set=pa.array(values, column.type)),
}


def checked(rows: pa.Table, filters: tuple[Any, ...]) -> pa.Table:
    """What Spark makes of the rows with its own check."""
    masks = []
    for each in filters:
        column = rows[each.attribute[0]].combine_chunks()
        value = each.value
        if isinstance(value, datetime):
            value = pa.scalar(value, column.type)
        masks.append(TESTS[type(each)](column, value))
    return rows.filter(reduce(pc.and_, masks)) if masks else rows


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_physical_offsets_spare_the_pieces_of_the_log_outside(big, share):
    every = reader_of(big)
    rows = read(every)
    place = rows["commitLogOffset"][int(rows.num_rows * share)].as_py()
    for filters in (
        (EqualTo(("commitLogOffset",), place),),
        (
            GreaterThan(("commitLogOffset",), place - 100_000),
            LessThanOrEqual(("commitLogOffset",), place + 100_000),
        ),
    ):
        reader = reader_of(big, *filters)
        assert checked(read(reader), filters).equals(checked(rows, filters))
        assert bytes_of(reader) <= 2 << 20
        assert bytes_of(every) > 6 * bytes_of(reader)
        assert len(reader.partitions()) < len(every.partitions())


@pytest.mark.parametrize("filter_of", [GreaterThanOrEqual, LessThan])
def test_store_times_spare_the_pieces_of_the_log_outside(big, filter_of, monkeypatch):
    monkeypatch.setattr(pruning, "STORE_TIME_MARGIN_MS", 100)  # Of 1.5 s in all.
    every = reader_of(big)
    rows = read(every)
    share = 0.8 if filter_of is GreaterThanOrEqual else 0.2
    cut = rows["storeTimestamp"][int(rows.num_rows * share)].as_py()
    filters = (filter_of(("storeTimestamp",), cut),)
    reader = reader_of(big, *filters)
    assert checked(read(reader), filters).equals(checked(rows, filters))
    assert bytes_of(reader) <= bytes_of(every) * 2 / 3


@pytest.mark.parametrize(
    "filters",
    [
        (EqualTo(("topic",), "orders"), EqualTo(("queueId",), 2)),
        (In(("topic",), ("orders", "nobody")), In(("queueId",), (0, 3))),
        (GreaterThan(("queueOffset",), 100), LessThanOrEqual(("queueOffset",), 300)),
        (EqualTo(("topic",), "nobody"),),
        (StringStartsWith(("topic",), "pay"), EqualTo(("queueOffset",), 7)),
    ],
    ids=str,
)
def test_rows_that_no_query_wants_are_not_decoded(big, filters):
    rows = read(reader_of(big))
    given = read(reader_of(big, *filters))
    assert checked(given, filters).equals(checked(rows, filters))
    assert given.num_rows < rows.num_rows


@pytest.mark.parametrize("name", ["clean", "crash", "kinds"])
@pytest.mark.parametrize("column", ["commitLogOffset", "queueOffset", "storeTimestamp"])
@pytest.mark.parametrize("filter_of", [EqualTo, GreaterThan, LessThan])
def test_golden_stores_give_the_same_rows_by_every_filter(name, column, filter_of):
    """Java's stores, with batches, damage and file ends among the pieces."""
    store = STORES / name / "store"
    rows = read(reader_of(store, splitBytes="50000"))
    known = rows.filter(pc.is_valid(rows[column]))
    for place in range(0, known.num_rows, max(known.num_rows // 3, 1)):
        filters = (filter_of((column,), known[column][place].as_py()),)
        given = read(reader_of(store, *filters, splitBytes="50000"))
        assert checked(given, filters).equals(checked(rows, filters)), filters


def test_only_sparks_push_down_gets_a_reader_of_messages_that_takes_filters(big):
    made = "from cometmq.spark.store.batch import store_reader as make\nreader = make(*given)"
    for view, is_filtered in (("messages", True), ("files", False)):
        options = {"path": str(big), "view": view}
        schema = RocketMQStoreSource(options).schema()
        given = StoreReadSettings.parse(options, is_stream=False), schema
        names: dict[str, Any] = {"__name__": PUSH_DOWN_MODULE, "given": given}
        exec(made, names)
        assert isinstance(names["reader"], FilteredStoreReader) == is_filtered
        assert not isinstance(store_reader(*given), FilteredStoreReader)
    assert "pushFilters" not in vars(StoreReader)
