"""Rows of Spark become batch items that the codec reads back."""

from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from cometmq.codec.batch import decode_batch
from cometmq.codec.properties import decode_properties
from cometmq.model import properties as keys_of
from cometmq.model.errors import MessageError, SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink import batches
from cometmq.spark.sink.batches import Place, cut, slices
from cometmq.spark.sink.columns import SinkColumns, Target
from cometmq.spark.sink.encode import encode_rows
from cometmq.spark.sink.settings import SinkSettings

TEXT = StringType()
SPARK = {
    "body": BinaryType(),
    "tags": TEXT,
    "keys": ArrayType(TEXT),
    "properties": MapType(TEXT, TEXT),
    "flag": IntegerType(),
    "shardingKey": TEXT,
}
ARROW = {
    "body": pa.binary(),
    "tags": pa.string(),
    # Spark says of array(...) that its elements are never null.
    "keys": pa.list_(pa.field("element", pa.string(), nullable=False)),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "shardingKey": pa.string(),
}
COLUMNS = SinkColumns.of(StructType([StructField(n, t) for n, t in SPARK.items()]), topic="t")

words = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=6
)
maybe = st.one_of(st.none(), words)
rows = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=30),
        "tags": maybe,
        "keys": st.one_of(st.none(), st.lists(words.filter(bool), max_size=3)),
        "properties": st.one_of(
            st.none(), st.dictionaries(st.one_of(words, st.just("TAGS")), maybe, max_size=3)
        ),
        "flag": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "shardingKey": maybe,
    }
)


def batch_of(values: list[dict]) -> pa.RecordBatch:
    columns = {
        name: pa.array(
            [
                list(row[name].items()) if isinstance(row[name], dict) else row[name]
                for row in values
            ],
            kind,
        )
        for name, kind in ARROW.items()
    }
    return pa.record_batch(columns)


def items_of(values: list[dict]) -> pa.Array:
    numbers = count()
    items = encode_rows(batch_of(values), COLUMNS, lambda: f"id{next(numbers)}")
    items.validate(full=True)
    return items


def expected(number: int, row: dict) -> tuple[int, bytes, dict[str, str]]:
    own = row["properties"] or {}
    stored = {k: v for k, v in own.items() if k and v and k not in keys_of.RESERVED}
    named = {
        keys_of.UNIQ_KEY: f"id{number}",
        keys_of.TAGS: row["tags"],
        keys_of.KEYS: " ".join(row["keys"] or ()),
        keys_of.SHARDING_KEY: row["shardingKey"],
    }
    return row["flag"] or 0, row["body"], stored | {k: v for k, v in named.items() if v}


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 2))
def test_the_codec_reads_back_what_was_encoded(values, skipped):
    items = items_of(values)[skipped:]  # A slice has an offset of its own into the buffers.
    found = decode_batch(b"".join(items.to_pylist()))
    assert [
        (item.flag, item.body, decode_properties(item.property_block)) for item in found
    ] == [expected(number, row) for number, row in enumerate(values)][skipped:]


def test_a_slice_of_rows_is_encoded_as_itself():
    values = [
        {"body": bytes([n]), "tags": f"t{n}", "keys": [f"k{n}"], "properties": {"n": str(n)},
         "flag": n, "shardingKey": None}
        for n in range(6)
    ]  # fmt: skip
    piece = batch_of(values).slice(2, 3)
    numbers = count(2)
    items = encode_rows(piece, COLUMNS, lambda: f"id{next(numbers)}")
    found = decode_batch(b"".join(items.to_pylist()))
    assert [
        (item.flag, item.body, decode_properties(item.property_block)) for item in found
    ] == [expected(n, values[n]) for n in (2, 3, 4)]


def test_a_null_key_is_no_key():
    batch = pa.record_batch({"body": [b"x", b"x"], "keys": [["a", None, "b"], None]})
    columns = SinkColumns.of(schema(body=BinaryType(), keys=ArrayType(TEXT)), topic="t")
    first, second = decode_batch(b"".join(encode_rows(batch, columns, lambda: "i").to_pylist()))
    assert decode_properties(first.property_block)["KEYS"].split() == ["a", "b"]
    assert "KEYS" not in decode_properties(second.property_block)


def row(**given) -> dict:
    nothing = dict.fromkeys(ARROW)
    return {**nothing, "body": b"x", **given}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"body": None}, "has no body"),
        ({"tags": "a\x01b"}, "a row's tags hold '\\\\x01'"),
        ({"keys": ["a\x02b"]}, "a row's keys hold"),
        ({"properties": {"a\x01": "b"}}, "a row's properties hold"),
        ({"properties": {"a": "b\x02"}}, "a row's properties hold"),
        ({"properties": {"a": "x" * 40_000}}, "a message has room for 32767"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_refused(bad, says):
    with pytest.raises(MessageError, match=says):
        items_of([row(), row(**bad)])


def requests(items: pa.Array, places, **options: str) -> list[tuple[int, int]]:
    settings = SinkSettings.parse({"nameserver": "x:1", **options})
    return [(request.rows, len(request.body)) for request in cut(items, places, settings)]


def test_requests_have_not_too_many_rows_and_not_too_many_bytes():
    items = pa.array([b"x" * 100] * 25 + [b"y" * 5000] + [b"x" * 100] * 2)
    found = requests(items, Place("t"), **{"batch.maxMessages": "10", "batch.maxBytes": "2000"})
    assert found == [(10, 1000), (10, 1000), (5, 500), (1, 5000), (2, 200)]
    assert requests(items[:0], Place("t")) == []


def test_rows_of_one_place_go_together_in_their_order():
    items = pa.array([bytes([n]) for n in range(6)])
    one, two = Place("t", MessageQueue("t", "b", 1)), Place("t", MessageQueue("t", "b", 2))
    settings = SinkSettings.parse({"nameserver": "x:1"})
    found = list(cut(items, [one, two, one, two, two, one], settings))
    assert [(each.place, each.rows, each.body) for each in found] == [
        (one, 3, b"\0\2\5"),
        (two, 3, b"\1\3\4"),
    ]


def test_large_rows_are_encoded_in_slices(monkeypatch):
    monkeypatch.setattr(batches, "SLICE_BYTES", 1000)
    values = [row(body=b"x" * 300) for _ in range(10)]
    pieces = list(slices(batch_of(values)))
    assert len(pieces) > 3
    assert sum(piece.num_rows for piece in pieces) == 10


def schema(**types) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_names_go_by_aliases_and_any_case():
    columns = SinkColumns.of(schema(VALUE=TEXT, messagegroup=TEXT), topic="t")
    assert columns.names == {"body": "VALUE", "shardingKey": "messagegroup"}
    batch = pa.record_batch({"VALUE": ["a"], "messagegroup": ["g"]})
    assert columns.targets(batch) == [Target("t", sharding_key="g")]


def test_rows_without_places_need_no_look_at_each():
    assert (
        SinkColumns.of(schema(body=TEXT), topic="t").targets(pa.record_batch({"body": ["a"]}))
        is None
    )


def test_a_row_without_a_topic_is_refused():
    columns = SinkColumns.of(schema(body=TEXT, topic=TEXT), topic=None)
    batch = pa.record_batch({"body": ["a", "b"], "topic": pa.array(["t", None])})
    with pytest.raises(MessageError, match="column 'topic' is null"):
        columns.targets(batch)


@pytest.mark.parametrize(
    ("types", "topic", "says"),
    [
        ({"body": TEXT, "value": TEXT}, "t", "'body' and 'value' mean the same"),
        ({"body": TEXT, "tag": TEXT}, "t", "no column 'tag'; did you mean 'tags'"),
        ({"body": IntegerType()}, "t", "column 'body' is int; the sink takes binary or string"),
        ({"body": TEXT, "keys": ArrayType(IntegerType())}, "t", "string or array<string>"),
        ({"tags": TEXT}, "t", "needs a column 'body'"),
        ({"body": TEXT}, None, "where to"),
        ({"body": TEXT}, "../x", "illegal characters"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_sent(types, topic, says):
    with pytest.raises(SettingsError, match=says):
        SinkColumns.of(schema(**types), topic=topic)
