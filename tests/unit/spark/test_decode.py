"""Records decoded many at once say what the codec says of each."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.codec.batch import encode_batch
from cometmq.codec.compression import Compression, compress, compressed_flag
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, decode_record, encode_record
from cometmq.kernel import walk_records
from cometmq.model import flags
from cometmq.model.errors import CodecError
from cometmq.offline.columns import body, inner_batch
from cometmq.offline.columns.inner_batch import unwrapped
from cometmq.offline.columns.window import RecordWindow, record_starts
from cometmq.offline.columns.window_columns import WindowColumns
from cometmq.spark.schema import arrow_schema, message_schema

STORES = Path(__file__).parents[2] / "golden" / "stores"

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 4_000_000_000_000)
words = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)
names = st.one_of(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a"]), words)
# Blocks as brokers store them, and blocks that no good writer makes.
blocks = st.one_of(
    st.dictionaries(names, words, max_size=5).map(encode_properties),
    st.lists(st.tuples(names, words), max_size=5).map(
        lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
    ),
    st.text("a\x01\x02é", max_size=12).map(str.encode),
)
bodies = st.binary(max_size=40)
hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)).map(
    lambda host: host[:-4] + b"\0\0" + host[-2:]
)
plain_flags = st.sampled_from([0, flags.MULTI_TAGS, flags.TRANSACTION_COMMIT])


@st.composite
def records(draw: st.DrawFn) -> Record:
    sys_flag, body = draw(plain_flags), draw(bodies)
    algorithm = draw(st.sampled_from([None, None, *Compression]))
    if algorithm is not None:
        sys_flag, body = compressed_flag(sys_flag, algorithm), compress(body, algorithm)
    return Record(
        queue_id=draw(ints),
        flag=draw(ints),
        queue_offset=draw(longs),
        physical_offset=draw(longs),
        sys_flag=sys_flag,
        born_timestamp=draw(times),
        born_host=draw(hosts),
        store_timestamp=draw(times),
        store_host=draw(hosts),
        reconsume_times=draw(ints),
        prepared_offset=draw(longs),
        body=body,
        topic=draw(st.one_of(st.just("orders"), st.text("ab%é", max_size=140))),
        property_block=draw(blocks),
    )


def window_of(*records: Record) -> RecordWindow:
    buffer = b"".join(map(encode_record, records))
    return RecordWindow(buffer, record_starts(buffer))


def columns_of(
    window: RecordWindow, *columns: str, form: Any = "map", **how: Any
) -> list[dict]:
    """The rows of a window, with these columns."""
    schema = arrow_schema(message_schema(list(columns), properties_format=form))
    rows: list[dict] = WindowColumns(window, "b-0", **how).batch(schema).to_pylist()
    return rows


def batch_of(buffer: bytes, **options) -> pa.RecordBatch:
    schema = arrow_schema(message_schema(**options))
    batch = WindowColumns(RecordWindow(buffer, record_starts(buffer)), "b-0").batch(schema)
    batch.validate(full=True)
    return batch


def expected(buffer: bytes, position: int) -> dict:
    """What the codec's own decoder says of one record."""
    record = decode_record(buffer, position)
    properties = record.properties()
    place = encode_message_id(record.store_host, record.physical_offset)
    from cometmq.codec.compression import decompress

    return {
        "topic": record.topic,
        "brokerName": "b-0",
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "msgId": properties.get("UNIQ_KEY", place),
        "offsetMsgId": place,
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": decompress(record.body, record.sys_flag, limit=1 << 20),
        "properties": properties,
        "bornTimestamp": record.born_timestamp * 1000,
        "bornHost": decode_host(record.born_host),
        "storeTimestamp": record.store_timestamp * 1000,
        "storeHost": decode_host(record.store_host),
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bodyCrc": record.body_crc,
        "storeSize": record.store_size,
        "reconsumeTimes": record.reconsume_times,
        "commitLogOffset": record.physical_offset,
        "preparedTransactionOffset": record.prepared_offset,
    }


def rows_of(batch: pa.RecordBatch) -> list[dict]:
    columns = {
        name: (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(c.to_pylist() for c in columns.values()), strict=True)
    ]
    for row in rows:
        pairs = row["properties"]
        row["properties"] = dict(pairs)
        assert len(row["properties"]) == len(pairs), "a map holds a name once"
    return rows


@settings(max_examples=200, deadline=None)
@given(st.lists(records(), min_size=1, max_size=6))
@example([Record()])
def test_every_column_of_every_record_is_what_the_codec_decodes(messages):
    buffer = b"".join(encode_record(message) for message in messages)
    starts = record_starts(buffer)
    assert rows_of(batch_of(buffer)) == [expected(buffer, int(start)) for start in starts]


@settings(max_examples=200, deadline=None)
@given(st.lists(records(), min_size=1, max_size=3), st.data())
def test_broken_bytes_give_only_a_codec_error(messages, data):
    buffer = bytearray(b"".join(encode_record(message) for message in messages))
    for _ in range(data.draw(st.integers(1, 6))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(buffer)))
    with suppress(CodecError):
        batch_of(bytes(buffer[:cut] if data.draw(st.booleans()) else buffer))


def test_every_record_that_java_wrote_is_decoded_the_same():
    count = 0
    for path in STORES.glob("*/store/commitlog/*"):
        log = path.read_bytes()
        log = log[: walk_records(log, 0, len(log))[1]]
        starts = record_starts(log)
        assert rows_of(batch_of(log)) == [expected(log, int(start)) for start in starts]
        count += len(starts)
    assert count > 500


def test_an_empty_answer_is_an_empty_batch():
    assert batch_of(b"").num_rows == 0


def test_only_the_columns_asked_for_are_made_in_their_order():
    batch = batch_of(encode_record(Record(body=b"x")), columns=["body", "queueOffset"])
    assert batch.schema.names == ["body", "queueOffset"]
    assert batch.to_pylist() == [{"body": b"x", "queueOffset": 0}]


@pytest.mark.parametrize(
    ("block", "form", "row"),
    [
        (b"a\x01b\x02a\x01c\x02", "raw", {"properties": "a\x01b\x02a\x01c\x02"}),
        (b"TAGS\x01old\x02x\x01y\x02TAGS\x01new\x02", "map", {"properties": [("x", "y"), ("TAGS", "new")], "tags": "new"}),
        (b"TAGS\x01\xff\x02", "map", {"tags": "�"}),
    ],
    ids=["raw properties are the stored text", "of two equal names the later wins", "no UTF-8 is replaced"],
)  # fmt: skip
def test_a_property_block_becomes_these_columns(block, form, row):
    assert columns_of(window_of(Record(property_block=block)), *row, form=form) == [row]


def test_many_different_names_in_one_window():
    count = 3000  # Beyond what is counted in a table: names are compared by sorting.
    block = [encode_properties({f"n{row}": "v", "TAGS": f"t{row}"}) for row in range(count)]
    buffer = b"".join(encode_record(Record(property_block=each)) for each in block)
    batch = batch_of(buffer, columns=["tags", "properties"])
    assert batch.column(0).to_pylist() == [f"t{row}" for row in range(count)]
    assert batch.column(1)[count - 1].as_py() == [
        (f"n{count - 1}", "v"),
        ("TAGS", f"t{count - 1}"),
    ]


def test_a_body_that_does_not_unpack_names_its_place_and_the_way_out():
    broken = Record(body=b"no zlib", sys_flag=flags.COMPRESSED, queue_id=3, queue_offset=77)
    buffer = encode_record(broken)
    with pytest.raises(CodecError, match=r"offset 77 of queue 3 .* decompress=false"):
        batch_of(buffer, columns=["body"])
    stored = columns_of(window_of(broken), "body", is_decompressed=False)
    assert stored == [{"body": b"no zlib"}]


def test_a_selection_keeps_order_and_leaves_out_the_rest():
    window = window_of(*(Record(queue_offset=offset) for offset in range(5)))
    kept = window.select((window.queue_offset > 0) & (window.queue_offset < 4))
    assert kept.queue_offset.tolist() == [1, 2, 3]


@pytest.mark.parametrize("algorithm", [None, *Compression])
def test_an_inner_batch_becomes_its_messages(algorithm):
    body = encode_batch([(7, b"one", b"TAGS\x01x\x02"), (8, b"two", b"")])
    sys_flag = flags.INNER_BATCH | flags.NEED_UNWRAP
    if algorithm is not None:
        sys_flag, body = compressed_flag(sys_flag, algorithm), compress(body, algorithm)
    wrapped = Record(queue_offset=10, sys_flag=sys_flag, body=body, topic="t")
    window = unwrapped(window_of(Record(body=b"before"), wrapped, Record(body=b"after")))
    rows = columns_of(window, "queueOffset", "body", "tags", "flag")
    assert [row["body"] for row in rows] == [b"before", b"one", b"two", b"after"]
    assert [row["queueOffset"] for row in rows] == [0, 10, 11, 0]
    assert rows[1]["tags"] == "x"
    assert [row["flag"] for row in rows] == [0, 7, 8, 0]


def test_a_window_without_inner_batches_is_left_alone():
    window = window_of(Record())
    assert unwrapped(window) is window


def test_times_beyond_sparks_range_are_bounded():
    buffer = encode_record(Record(born_timestamp=2**63 - 1, store_timestamp=-(2**63)))
    batch = batch_of(buffer, columns=["bornTimestamp", "storeTimestamp"])
    micros = [column.view(pa.int64())[0].as_py() for column in batch.columns]
    assert micros[0] > 0 > micros[1]


def test_the_batch_has_exactly_the_schema_that_spark_compares_with():
    from pyspark.sql.pandas.types import to_arrow_schema

    for options in ({}, {"properties_format": "raw"}, {"columns": ["tags", "body"]}):
        schema = message_schema(**options)
        batch = batch_of(encode_record(Record()), **options)
        assert to_arrow_schema(schema, timezone="UTC").equals(batch.schema)
        assert np.all([len(column) == 1 for column in batch.columns])


def test_properties_as_json_are_what_the_map_says():
    blocks = [{"a": "1", "quote": '"\\ é', "UNIQ_KEY": "x"}, {}, {"b": "2"}]
    window = window_of(
        *(Record(topic="t", property_block=encode_properties(each)) for each in blocks)
    )
    rows = columns_of(window, "properties", form="json", is_json=True)
    assert [json.loads(row["properties"]) for row in rows] == blocks


def test_bodies_that_unpack_to_much_become_several_batches(monkeypatch):
    monkeypatch.setattr(body, "UNPACKED_SIZE_MAX", 1000)
    bodies = [bytes([n]) * (400 if n % 3 else 5) for n in range(20)]
    packed = [
        (compressed_flag(0, Compression.ZLIB), compress(each)) if n % 3 else (0, each)
        for n, each in enumerate(bodies)
    ]
    records = [
        Record(topic="t", body=each, sys_flag=flag, queue_offset=n)
        for n, (flag, each) in enumerate(packed)
    ]
    pieces = list(body.bounded(window_of(*records)))
    assert len(pieces) == 7, "2 of 400 bytes each, and the last one"
    assert [each for _, column in pieces for each in column.to_pylist()] == bodies
    offsets = [int(offset) for piece, _ in pieces for offset in piece.queue_offset]
    assert offsets == list(range(20))
    plain = window_of(records[0])
    [(piece, column)] = body.bounded(plain)
    assert piece is plain
    assert column.to_pylist() == [bodies[0]]


@pytest.mark.parametrize("algorithm", list(Compression))
def test_a_bomb_is_named_by_queue_and_offset(monkeypatch, algorithm):
    monkeypatch.setattr(body, "BODY_SIZE_MAX", 1 << 16)
    bomb = Record(
        topic="t",
        body=compress(bytes(1 << 20), algorithm),
        sys_flag=compressed_flag(0, algorithm),
        queue_id=3,
        queue_offset=77,
    )
    with pytest.raises(
        CodecError, match=r"offset 77 of queue 3 .* more than 65536; decompress=false"
    ):
        list(body.bounded(window_of(bomb)))


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("BODY_SIZE_MAX", r"the inner batch at offset 40 of queue 2: .* more than 2000"),
        ("UNWRAPPED_SIZE_MAX", r"decompress to more than 2000, at offset 40"),
    ],
)
def test_an_inner_batch_that_is_a_bomb_is_named(monkeypatch, limit, says):
    monkeypatch.setattr(inner_batch, limit, 2000)
    items = encode_batch([(0, bytes(300), b"")] * 20)
    wrapped = flags.INNER_BATCH | flags.NEED_UNWRAP
    record = Record(
        topic="t",
        queue_id=2,
        queue_offset=40,
        sys_flag=compressed_flag(wrapped, Compression.ZLIB),
        body=compress(items),
    )
    with pytest.raises(CodecError, match=says):
        unwrapped(window_of(record))
