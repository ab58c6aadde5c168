"""Rows of Spark become batch items that the codec reads back."""

from itertools import count

import numpy as np
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
    TimestampType,
)

from cometmq.codec.batch import decode_batch
from cometmq.codec.compression import decompress
from cometmq.codec.properties import decode_properties
from cometmq.model import properties as keys_of
from cometmq.model.errors import MessageError, SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink import batches
from cometmq.spark.sink.batches import (
    Request,
    RowBatch,
    RowPlace,
    RowPlaces,
    SingleSends,
    cut,
    slices,
)
from cometmq.spark.sink.columns import RowTarget, SinkColumns
from cometmq.spark.sink.encode import MessageRows, encode_rows
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


def columns_of(schema: StructType, *, topic: str | None = "t", **options: str) -> SinkColumns:
    given = {"nameserver": "x:1", **options, **({"topic": topic} if topic else {})}
    return SinkColumns.of(schema, SinkSettings.parse(given))


COLUMNS = columns_of(StructType([StructField(n, t) for n, t in SPARK.items()]))


class Numbered:
    """Ids that count from a number."""

    def __init__(self, first: int = 0) -> None:
        self.numbers = count(first)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, None]:
        return pa.array([f"id{next(self.numbers)}" for _ in range(batch.num_rows)]), None


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
    items = encode_rows(batch_of(values), COLUMNS, Numbered()).items()
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


def read_back(items: pa.Array) -> list[tuple[int, bytes, dict[str, str]]]:
    """What a broker reads of items: flag, body and properties of each."""
    found = decode_batch(b"".join(items.to_pylist()))
    return [(item.flag, item.body, decode_properties(item.property_block)) for item in found]


@settings(max_examples=200, deadline=None)
@given(st.lists(rows, min_size=1, max_size=6), st.integers(0, 2))
def test_the_codec_reads_back_what_was_encoded(values, skipped):
    items = items_of(values)[skipped:]  # A slice has an offset of its own into the buffers.
    wanted = [expected(number, row) for number, row in enumerate(values)]
    assert read_back(items) == wanted[skipped:]


def test_a_slice_of_rows_is_encoded_as_itself():
    values = [
        {"body": bytes([n]), "tags": f"t{n}", "keys": [f"k{n}"], "properties": {"n": str(n)},
         "flag": n, "shardingKey": None}
        for n in range(6)
    ]  # fmt: skip
    piece = batch_of(values).slice(2, 3)
    items = encode_rows(piece, COLUMNS, Numbered(2)).items()
    assert read_back(items) == [expected(n, values[n]) for n in (2, 3, 4)]


def test_a_null_key_is_no_key():
    batch = pa.record_batch({"body": [b"x", b"x"], "keys": [["a", None, "b"], None]})
    columns = columns_of(schema(body=BinaryType(), keys=ArrayType(TEXT)))
    first, second = read_back(encode_rows(batch, columns, Numbered()).items())
    assert first[2]["KEYS"].split() == ["a", "b"]
    assert "KEYS" not in second[2]


def row(**given) -> dict:
    nothing = dict.fromkeys(ARROW)
    return {**nothing, "body": b"x", **given}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"body": None}, "has a null body"),
        ({"tags": "a\x01b"}, "the tags of a row contain the character U\\+0001"),
        ({"keys": ["a\x02b"]}, "the keys of a row contain"),
        ({"properties": {"a\x01": "b"}}, "the properties of a row contain"),
        ({"properties": {"a": "b\x02"}}, "the properties of a row contain"),
        ({"properties": {"a": "x" * 40_000}}, "a message has room for 32767"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_refused(bad, says):
    with pytest.raises(MessageError, match=says):
        items_of([row(), row(**bad)])


@pytest.mark.parametrize("column", ["tags", "keys", "shardingKey", "msgId"])
def test_a_text_of_other_bytes_than_utf8_is_refused(column):
    texts = pa.array([b"\xff"], pa.binary()).view(pa.string())
    batch = pa.record_batch({"body": [b"x"], column: texts})
    columns = columns_of(schema(body=BinaryType(), **{column: TEXT}))
    with pytest.raises(
        MessageError, match=f"column '{column}' of a row has bytes that are not UTF-8"
    ):
        encode_rows(batch, columns, Numbered())


def rows_of(bodies: list[bytes], alone: tuple[int, ...] = (), packed: tuple[int, ...] = ()):
    count = len(bodies)
    blocks = pa.array([b""] * count, pa.binary())
    is_alone, sys_flags = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    is_alone[list(alone)] = True
    sys_flags[list(packed)] = 1
    no_flags = np.zeros(count, np.int32)
    return MessageRows(pa.array(bodies, pa.binary()), blocks, no_flags, sys_flags, is_alone)


def requests(bodies: list[bytes], places, **options: str) -> list[tuple[int, int]]:
    settings = SinkSettings.parse({"nameserver": "x:1", **options})
    found = cut(rows_of(bodies), places, settings)
    return [(each.rows, len(each.body)) for each in found if isinstance(each, RowBatch)]


def test_requests_have_not_too_many_rows_and_not_too_many_bytes():
    bodies = (
        [b"x" * 78] * 25 + [b"y" * 4978] + [b"x" * 78] * 2
    )  # Each 22 bytes more as an item.
    found = requests(
        bodies, RowPlace("t"), **{"batch.maxMessages": "10", "batch.maxBytes": "2000"}
    )
    assert found == [(10, 1000), (10, 1000), (5, 500), (1, 5000), (2, 200)]
    assert requests([], RowPlace("t")) == []


ONE, TWO = RowPlace("t", MessageQueue("t", "b", 1)), RowPlace("t", MessageQueue("t", "b", 2))


def bodies_of(request: Request) -> list[int]:
    if isinstance(request, SingleSends):
        return [each.body[0] for each in request.messages]
    return [item.body[0] for item in decode_batch(request.body)]


def each_of(places: list[RowPlace]) -> RowPlaces:
    """Where each row goes, as a task finds it out."""
    distinct = list(dict.fromkeys(places))
    return RowPlaces(distinct, np.array([distinct.index(place) for place in places]))


def cut_of(places, **kinds: tuple[int, ...]) -> list[tuple[RowPlace, type, list[int]]]:
    rows = rows_of([bytes([n]) for n in range(6)], **kinds)
    found = cut(rows, places, SinkSettings.parse({"nameserver": "x:1"}))
    return [(each.place, type(each), bodies_of(each)) for each in found]


def test_rows_of_one_place_go_together_in_their_order():
    assert cut_of(each_of([ONE, TWO, ONE, TWO, TWO, ONE])) == [
        (ONE, RowBatch, [0, 2, 5]),
        (TWO, RowBatch, [1, 3, 4]),
    ]


def test_rows_that_travel_otherwise_keep_their_turn_in_a_chosen_queue():
    assert cut_of(each_of([ONE, ONE, ONE, TWO, ONE, ONE]), packed=(2, 4)) == [
        (ONE, RowBatch, [0, 1]),
        (TWO, RowBatch, [3]),
        (ONE, RowBatch, [2, 4]),
        (ONE, RowBatch, [5]),
    ]
    assert cut_of(RowPlace("t"), packed=(2, 4), alone=(1,)) == [
        (RowPlace("t"), RowBatch, [0, 3, 5]),
        (RowPlace("t"), SingleSends, [1]),
        (RowPlace("t"), RowBatch, [2, 4]),
    ]


def test_places_take_turns_so_that_no_queue_waits_for_another():
    rows = rows_of([bytes([n]) for n in range(9)])
    places = each_of([TWO, TWO, TWO, ONE, ONE, ONE, ONE, RowPlace("t"), ONE])
    settings = SinkSettings.parse({"nameserver": "x:1", "batch.maxMessages": "2"})
    found = [(each.place, bodies_of(each)) for each in cut(rows, places, settings)]
    assert found == [
        (TWO, [0, 1]),
        (ONE, [3, 4]),
        (RowPlace("t"), [7]),
        (TWO, [2]),
        (ONE, [5, 6]),
        (ONE, [8]),
    ]


def test_a_row_may_keep_the_id_that_it_had():
    batch = pa.record_batch({"body": [b"x"] * 3, "msgId": ["01AB", None, ""]})
    columns = columns_of(schema(body=BinaryType(), msgId=TEXT))
    blocks = encode_rows(batch, columns, Numbered()).blocks.to_pylist()
    found = [decode_properties(block)[keys_of.UNIQ_KEY] for block in blocks]
    assert found == ["01AB", "id1", "id2"]


def test_long_bodies_are_compressed_and_say_so():
    batch = pa.record_batch({"body": [b"short", b"long" * 100, b"short"]})
    columns = columns_of(schema(body=BinaryType()))
    rows = encode_rows(batch, columns, Numbered(), compress_min=100)
    assert [flag != 0 for flag in rows.sys_flags] == [False, True, False]
    assert (
        decompress(rows.bodies[1].as_py(), int(rows.sys_flags[1]), limit=999) == b"long" * 100
    )
    assert rows.bodies[0].as_py() == b"short"


def delayed(levels: list, times: list) -> MessageRows:
    batch = pa.record_batch(
        {
            "body": pa.array([b"x"] * len(levels)),
            "delayLevel": pa.array(levels, pa.int32()),
            "deliverTimestamp": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )
    kinds = schema(
        body=BinaryType(), delayLevel=IntegerType(), deliverTimestamp=TimestampType()
    )
    return encode_rows(batch, columns_of(kinds), Numbered())


def test_a_row_that_is_due_later_travels_alone_and_says_when():
    rows = delayed([None, 0, 3, None], [None, None, None, 1_700_000_000_123_456])
    assert rows.is_alone.tolist() == [False, False, True, True]
    found = [decode_properties(block) for block in rows.blocks.to_pylist()]
    assert [each.get(keys_of.DELAY) for each in found] == [None, None, "3", None]
    due = [each.get(keys_of.TIMER_DELIVER_MS) for each in found]
    assert due == [None, None, None, "1700000000123"]
    with pytest.raises(MessageError, match="set only one"):
        delayed([3], [5])
    with pytest.raises(MessageError, match="negative delayLevel"):
        delayed([-1], [None])


def test_large_rows_are_encoded_in_slices(monkeypatch):
    monkeypatch.setattr(batches, "SLICE_BYTES", 1000)
    values = [row(body=b"x" * 300) for _ in range(10)]
    pieces = list(slices(batch_of(values)))
    assert len(pieces) > 3
    assert sum(piece.num_rows for piece in pieces) == 10


def schema(**types) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def targets_of(columns: SinkColumns, batch: pa.RecordBatch) -> list[RowTarget]:
    """The target of each row."""
    targets = columns.targets(batch)
    assert targets is not None
    return [targets.distinct[at] for at in targets.of_rows]


def test_names_go_by_aliases_and_any_case():
    columns = columns_of(schema(VALUE=TEXT, messagegroup=TEXT))
    assert columns.names == {"body": "VALUE", "shardingKey": "messagegroup"}
    batch = pa.record_batch({"VALUE": ["a"], "messagegroup": ["g"]})
    assert targets_of(columns, batch) == [RowTarget("t", sharding_key="g")]


def test_rows_without_places_need_no_look_at_each():
    assert columns_of(schema(body=TEXT)).targets(pa.record_batch({"body": ["a"]})) is None


def test_a_row_without_a_topic_is_refused():
    columns = columns_of(schema(body=TEXT, topic=TEXT), topic=None)
    batch = pa.record_batch({"body": ["a", "b"], "topic": pa.array(["t", None])})
    with pytest.raises(MessageError, match="column 'topic' is null"):
        columns.targets(batch)


@pytest.mark.parametrize("column", ["topic", "brokerName"])
def test_a_target_of_other_bytes_than_utf8_is_refused(column):
    texts = pa.array([b"\xff"], pa.binary()).view(pa.string())
    rows = {"body": [b"x"], "topic": ["t"], "queueId": [0], "brokerName": ["b"], column: texts}
    kinds = schema(body=BinaryType(), topic=TEXT, queueId=IntegerType(), brokerName=TEXT)
    with pytest.raises(MessageError, match=f"column '{column}' of a row has bytes that are"):
        columns_of(kinds, topic=None).targets(pa.record_batch(rows))


@pytest.mark.parametrize(
    ("types", "topic", "says"),
    [
        ({"body": TEXT, "value": TEXT}, "t", "'body' and 'value' mean the same"),
        ({"body": TEXT, "tag": TEXT}, "t", "the column 'tag'; did you mean 'tags'"),
        (
            {"body": IntegerType()},
            "t",
            "column 'body' has type int; the sink accepts binary or string",
        ),
        ({"body": TEXT, "keys": ArrayType(IntegerType())}, "t", "string or array<string>"),
        ({"tags": TEXT}, "t", "needs a column 'body'"),
        ({"body": TEXT}, None, "no topic: set"),
        ({"body": TEXT}, "../x", "illegal characters"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_sent(types, topic, says):
    with pytest.raises(SettingsError, match=says):
        columns_of(schema(**types), topic=topic)


TRANSACTIONAL = {"delivery": "transactional", "ledgerDir": "l", "writeId": "w"}
BY_KEYS = {"queueSelector": "keys"}


@pytest.mark.parametrize(
    ("types", "options", "says"),
    [
        ({"brokerName": TEXT}, {}, "needs a column 'queueId'"),
        ({"queueId": IntegerType()}, {"queueSelector": "partition"}, "both choose the queue"),
        ({}, BY_KEYS, "needs a column 'keys'"),
        ({"delayLevel": IntegerType()}, TRANSACTIONAL, "does not support delays"),
        ({"deliverTimestamp": IntegerType()}, {}, "has type int; the sink accepts timestamp"),
        ({}, {"delivery": "idempotent", "idColumn": "no"}, "the rows have no column 'no'"),
        (
            {"n": ArrayType(TEXT)},
            {"delivery": "idempotent", "idColumn": "n"},
            "an id must be string",
        ),
        ({"n": IntegerType()}, {}, "does not know the column 'n'"),
    ],
)
def test_columns_that_do_not_go_with_the_options_are_refused(types, options, says):
    with pytest.raises(SettingsError, match=says):
        columns_of(schema(body=TEXT, **types), **options)


def test_a_column_that_is_only_an_id_is_not_sent():
    columns = columns_of(
        schema(body=TEXT, N=IntegerType()), delivery="idempotent", idColumn="n"
    )
    assert columns.id_column == "N"
    assert columns.names == {"body": "body"}


def test_keys_choose_the_queue_where_that_is_asked_for():
    columns = columns_of(schema(body=TEXT, keys=ArrayType(TEXT), shardingKey=TEXT), **BY_KEYS)
    batch = pa.record_batch(
        {"body": ["a"] * 3, "keys": [["k", "l"], ["k"], None], "shardingKey": [None, "s", None]}
    )
    assert [each.sharding_key for each in targets_of(columns, batch)] == ["k l", "s", None]


def test_each_target_stands_once_however_many_rows_have_it():
    kinds = schema(
        body=TEXT, topic=TEXT, brokerName=TEXT, queueId=IntegerType(), shardingKey=TEXT
    )
    columns = columns_of(kinds, topic=None)
    rows = [
        ("t", "b", 1, None), ("u", None, None, "k"), ("t", "b", 1, None), ("t", "b", None, None),
        ("u", None, None, ""), ("u", None, None, "k"), ("t", None, 1, None),
    ]  # fmt: skip
    wanted = [RowTarget(*row) for row in rows]
    names = ("topic", "brokerName", "queueId", "shardingKey")
    cells = {name: pa.array([row[at] for row in rows]) for at, name in enumerate(names)}
    batch = pa.record_batch({"body": ["a"] * len(rows), **cells})
    targets = columns.targets(batch.slice(1))
    assert targets is not None
    assert sorted(map(repr, targets.distinct)) == sorted(map(repr, set(wanted)))
    assert [targets.distinct[at] for at in targets.of_rows] == wanted[1:]


def test_no_rows_have_no_targets():
    columns = columns_of(schema(body=TEXT, topic=TEXT), topic=None)
    batch = pa.record_batch(
        {"body": pa.array([], pa.string()), "topic": pa.array([], pa.string())}
    )
    assert targets_of(columns, batch) == []
