"""Filters over a store: the same rows, of fewer bytes of the log."""

import operator
from dataclasses import replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from cometmq.offline import pruning
from cometmq.spark.push_down import PUSH_DOWN_MODULE
from cometmq.spark.schema import arrow_schema
from cometmq.spark.store.batch import FilteredStoreReader, StoreReader, store_reader
from cometmq.spark.store.format import RocketMQStoreSource
from cometmq.spark.store.settings import StoreReadSettings
from tests.support.big_store import SETTINGS, make_big_store
from tests.unit.spark.test_store_rows import STORES

COLUMNS = "topic,queueId,queueOffset,commitLogOffset,storeTimestamp,keys"
SPLIT = 4 << 20


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of ours with 18 MB of messages, put within two seconds; only read."""
    path = tmp_path_factory.mktemp("filters") / "store"
    make_big_store(path, 15_000, settings=replace(SETTINGS, commitlog_file_size=8 << 20))
    return path


def reader_of(store: Path, *filters: Filter, **options: str) -> Any:
    given = {"path": str(store), "columns": COLUMNS, "splitBytes": str(SPLIT), **options}
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


TESTS = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: pc.starts_with,
    In: lambda column, values: pc.is_in(column, value_set=pa.array(values, column.type)),
}


def checked(rows: pa.Table, filters: tuple[Any, ...]) -> pa.Table:
    """What Spark makes of the rows with its own check."""
    named = {operator.eq: pc.equal, operator.gt: pc.greater, operator.ge: pc.greater_equal,
             operator.lt: pc.less, operator.le: pc.less_equal}  # fmt: skip
    masks = []
    for each in filters:
        test: Any = TESTS[type(each)]  # type: ignore[index]
        column = rows[each.attribute[0]].combine_chunks()
        value = each.value
        if isinstance(value, datetime):
            value = pa.scalar(value, column.type)
        masks.append(named.get(test, test)(column, value))
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
