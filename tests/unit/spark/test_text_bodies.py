"""JSON and CSV bodies, and changes: a value is exactly what the body says, or the body has a reason."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.avro_bodies import AvroBodies
from cometmq.spark.jobs.body_forms import BodyForm, read_bodies
from cometmq.spark.jobs.changes import ChangeBodies
from cometmq.spark.jobs.protobuf_bodies import ProtobufBodies
from cometmq.spark.jobs.text_bodies import CsvBodies, JsonBodies
from cometmq.spark.schema import check_names
from tests.support.shop_bodies import (
    ORDER_AVRO,
    avro_body,
    order_descriptors,
    protobuf_class,
)

KINDS: dict[str, t.DataType] = {
    "byte": t.ByteType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "double": t.DoubleType(),
    "float": t.FloatType(),
    "decimal": t.DecimalType(10, 2),
    "wide": t.DecimalType(38, 18),
    "text": t.StringType(),
    "flag": t.BooleanType(),
    "at": t.TimestampType(),
    "local": t.TimestampNTZType(),
    "day": t.DateType(),
    "bytes": t.BinaryType(),
    "list": t.ArrayType(t.IntegerType()),
    "map": t.MapType(t.StringType(), t.DecimalType(10, 2)),
    "inner": t.StructType([t.StructField("x", t.LongType())]),
    "variant": t.VariantType(),
}
ALL = t.StructType([t.StructField(name, kind) for name, kind in KINDS.items()])


def read(form: BodyForm, body: bytes) -> dict[str, Any]:
    (found,) = read_bodies(form, pa.array([body], pa.binary())).to_pylist()
    assert (found["value"] is None) != (found["reason"] is None)
    return dict(found)


# Column, what the body has there, and what the table has; None: the body is refused.
VALUES: list[tuple[str, str, Any]] = [
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "9223372036854775808", None),
    ("long", "1.0", None),
    ("long", '"1"', None),
    ("long", "true", None),
    ("byte", "-128", -128),
    ("byte", "128", None),
    ("double", "0.1", 0.1),
    ("double", "9007199254740993", None),  # DOUBLE has no such number.
    ("double", "1e400", None),
    ("double", "1e-400", None),
    ("double", "NaN", None),
    ("double", '"-Infinity"', None),
    ("float", "16777217", None),
    ("float", "1e39", None),
    ("decimal", "1.230", Decimal("1.23")),
    ("decimal", "1.239", None),
    ("decimal", '"12.50"', Decimal("12.5")),
    ("decimal", "1.2e3", Decimal(1200)),
    ("decimal", "123456789", None),
    ("decimal", "0e1000000000", None),
    ("wide", "0.123456789012345678", Decimal("0.123456789012345678")),
    ("text", "12345678901234567.89", "12345678901234567.89"),
    ("text", '{"a": 1.50, "b": [true, null, "ü"]}', '{"a":1.50,"b":[true,null,"ü"]}'),
    ("text", '"\\ud800"', None),
    ("flag", "1", None),
    ("at", '"2026-05-01T12:00:00.5+02:00"', "2026-05-01T10:00:00.500000+00:00"),
    ("at", '"2026-05-01 12:00"', "2026-05-01T12:00:00"),
    ("at", "1777636800000", None),
    ("at", "1777636800000000", None),
    ("at", "1777636800", None),
    ("at", '"12:30"', None),
    ("at", '"2026-02-30T12:00:00Z"', None),
    ("at", '"2026-05-01T12:00:00.1234567Z"', None),
    ("at", '"0001-01-01T00:00:00+05:00"', None),
    ("local", '"2026-05-01T12:00:00"', "2026-05-01T12:00:00"),
    ("local", '"2026-05-01T12:00:00Z"', None),
    ("day", '"2026-05-01"', dt.date(2026, 5, 1)),
    ("day", "20574", None),
    ("bytes", '"AP8="', b"\x00\xff"),
    ("bytes", '"AP8"', None),
    ("list", "[1, null, 3]", [1, None, 3]),
    ("list", "[1, 2.5]", None),
    ("map", '{"a": 1.5}', [("a", Decimal("1.5"))]),
    ("map", '{"a": 1.555}', None),
    ("inner", '{"x": 1, "y": 2}', {"x": 1}),
    ("inner", '{"x": 1, "x": 2}', None),
    ("variant", '{"a": 1.50}', '{"a":1.50}'),
    ("variant", "12345678901234567.89e0", None),
]


@pytest.mark.parametrize(("column", "value", "wanted"), VALUES)
def test_a_value_is_what_the_body_says_or_the_body_is_refused(column, value, wanted):
    found = read(JsonBodies(ALL), f'{{"{column}": {value}}}'.encode())
    if wanted is None and value != "0e1000000000":
        assert (
            column in found["reason"] or "NaN" in found["reason"] or "twice" in found["reason"]
        )
    elif wanted is not None:
        assert found["value"][column] == wanted
        assert all(found["value"][name] is None for name in KINDS if name != column)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "an empty body"),
        (b"no json", "not JSON"),
        (b'{"long": 1}\n{"long": 2}', "more text follows the JSON document"),
        (b'[{"long": 1}]', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"text": "\xff"}', "not UTF-8 text"),
        (b"[" * 100_000, "JSON that is nested too deeply"),
        (b'{"long": 1, "long": 2}', "the name 'long' is twice in one object"),
        (b'{"inner": {"x": "a"}}', "inner.x: a cannot be read as bigint"),
        (b'{"list": [1, "a"]}', "list[1]: a cannot be read as int"),
        # Half of a surrogate pair is no text, not even in a reason.
        (b'{"long": "\\udc00"}', "long: \\udc00 cannot be read as bigint"),
        (b'{"\\ud800": 1, "\\ud800": 2}', "the name '\\ud800' is twice in one object"),
    ],
)
def test_a_body_that_is_no_single_object_says_why(body, reason):
    assert read(JsonBodies(ALL), body)["reason"] == reason


@pytest.mark.parametrize("column", KINDS)
@pytest.mark.parametrize(
    "number",
    [
        "1e20000000",
        "1e-20000000",
        "1e999999999999",
        "9" * 100_000,
        "0." + "9" * 100_000,
        "1e" + "9" * 5000,
    ],
)
def test_no_number_however_it_is_written_holds_a_job_up(column, number):
    began = monotonic()
    for body in (f'{{"{column}": {number}}}', f'{{"{column}": "{number}"}}'):
        read(JsonBodies(ALL), body.encode())
    assert monotonic() - began < 20, "each took minutes"


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.text(max_size=10),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.dates().map(lambda day: day.isoformat()),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def as_json(value: Any) -> str:
    return json.dumps(value, default=str)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KINDS, values)))
def test_what_is_read_is_what_python_reads(document: dict[str, Any]):
    body = as_json(document).encode()
    found = read(JsonBodies(ALL), body)["value"]
    if found is None:
        return
    plain = json.loads(body, parse_float=Decimal)
    for name, kind in KINDS.items():
        value, wanted = found[name], plain.get(name)
        assert (value is None) == (wanted is None)
        if value is not None and type(kind) in SAME:
            assert SAME[type(kind)](value, wanted), (name, value, wanted)


def exactly(value: Any, wanted: Any) -> bool:
    return value == wanted and type(value) is type(wanted)


SAME: dict[type[t.DataType], Any] = {
    t.ByteType: exactly,
    t.IntegerType: exactly,
    t.LongType: exactly,
    t.BooleanType: exactly,
    t.ArrayType: exactly,
    t.DecimalType: lambda value, wanted: value == Decimal(wanted),
    t.DoubleType: lambda value, wanted: value == float(wanted) and math.isfinite(value),
    t.FloatType: lambda value, wanted: math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-44),
    t.StringType: lambda value, wanted: (
        value == wanted or json.loads(value, parse_float=Decimal) == wanted
    ),
    t.TimestampType: lambda value, wanted: (
        dt.datetime.fromisoformat(value) == dt.datetime.fromisoformat(wanted)
    ),
    t.DateType: lambda value, wanted: value.isoformat() == wanted,
}


LINE = t.StructType(
    [t.StructField(name, KINDS[name]) for name in ("long", "text", "decimal", "flag", "at")]
)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"007,a,2.5,TRUE,2026-05-01", [7, "a", Decimal("2.5"), True, "2026-05-01T00:00:00"]),
        (b'1,"a,""b""",,,\r\n', [1, 'a,"b"', None, None, None]),
        (b'1,"",,,', [1, "", None, None, None]),
        (b"1,a,,,\n2,b,,,", None),
        (b"1,a", None),
        (b"1,a,,,,", None),
        (b'1,"a"b,,,', None),
        (b"1,a,1e20000000,,", None),
        (b"1,a,1.239,,", None),
        (b"1,a,,,12:30", None),
        (b"1_0,a,,,", None),
        (b"", None),
    ],
)
def test_a_line_of_csv_is_read_whole_or_refused(body, wanted):
    found = read(CsvBodies(LINE), body)["value"]
    assert (found and list(found.values())) == wanted
    tabs = CsvBodies(LINE, separator="\\t")
    assert read(tabs, b"1\ta,b\t\t\t")["value"]["text"] == "a,b"


def test_a_column_that_must_not_be_null_is_in_the_body():
    strict = t.StructType([t.StructField("id", t.LongType(), nullable=False)])
    assert read(JsonBodies(strict), b'{"id": 1}')["value"] == {"id": 1}
    assert "NOT NULL" in read(JsonBodies(strict), b"{}")["reason"]


ROW = t.StructType().add("id", t.LongType()).add("amount", t.DecimalType(20, 2))


def changes_of(body: Any, ts: str = "ts_ms") -> Any:
    given = body if isinstance(body, bytes) else as_json(body).encode()
    found = read(ChangeBodies(ROW, ("id",), ts), given)
    if found["value"] is None:
        return found["reason"]
    return [
        (each["row"]["id"], each["row"]["amount"], each["ts"], each["is_gone"])
        for each in found["value"]["changes"]
    ]


ONE = {"id": 1, "amount": 5}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"", []),
        (
            b'{"schema": {}, "payload": {"op": "c", "after": {"id": 1, "amount": 12345678901234567.89}, "ts_ms": 3}}',
            [(1, Decimal("12345678901234567.89"), 3, False)],
        ),
        ({"after": ONE, "ts_ms": 3}, [(1, 5, 3, False)]),
        (
            {"op": "u", "before": {"id": 1}, "after": {"id": 7}, "ts_ms": 3},
            [(1, None, 3, True), (7, None, 3, False)],
        ),
        ({"op": "u", "before": {"id": 1}, "after": ONE, "ts_ms": 3}, [(1, 5, 3, False)]),
        ({"op": "u", "before": {"name": "a"}, "after": ONE, "ts_ms": 3}, [(1, 5, 3, False)]),
        ({"op": "d", "before": {"id": 1, "amount": "x"}, "ts_ms": 3}, [(1, None, 3, True)]),
        ({"op": "d", "before": None, "ts_ms": 3}, "the change has no value for a key column"),
        ({"op": "t", "ts_ms": 3}, 'op "t" is not a change of one row'),
        (
            {"op": "u", "before": ONE, "after": None, "ts_ms": 3},
            'op "u" has no row after the change (after)',
        ),
        ({"op": "c", "after": ONE}, "the change has no field ts_ms with its time (--ts)"),
        ({"op": "c", "after": ONE, "ts_ms": 1.5}, "ts_ms: 1.5 cannot be read as bigint"),
        (
            {"op": "c", "after": {"id": 1, "amount": 1.239}, "ts_ms": 3},
            "after.amount: 1.239 cannot be read as decimal(20,2)",
        ),
        ({"payload": [1]}, "its payload is not a JSON object"),
    ],
)
def test_a_change_sets_and_deletes_the_rows_that_it_says(body, wanted):
    assert changes_of(body) == wanted


def test_the_time_of_a_change_may_lie_within_a_field_or_be_the_store_time():
    change = {"op": "c", "after": ONE, "source": {"ts_ms": 9}}
    assert changes_of(change, "source.ts_ms") == [(1, 5, 9, False)]
    assert changes_of(change, "") == [(1, 5, None, False)]
    assert (
        changes_of(change, "source.ts_us")
        == "the change has no field source.ts_us with its time (--ts)"
    )


BOTH = t.StructType().add("x", t.IntegerType()).add("X", t.IntegerType())


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (t.StructType().add("Batch", t.IntegerType()), "'Batch' is read as a folder"),
        (BOTH, "column 'X' appears twice"),
        (t.StructType().add("a", BOTH), "column 'X' appears twice"),
        (t.StructType().add("a", t.ArrayType(BOTH)), "column 'X' appears twice"),
    ],
)
def test_a_column_with_a_name_of_ours_is_refused_by_name(schema, says):
    with pytest.raises(SettingsError, match=says):
        check_names(schema, {"batch": "read as a folder"})


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (t.DayTimeIntervalType(), "column c has type interval .* make the column STRING"),
        (t.MapType(t.IntegerType(), t.IntegerType()), "make the column STRING"),
        (t.ArrayType(t.VariantType()), "make the outer column VARIANT"),
        (t.VarcharType(3), "make the column STRING"),
    ],
)
def test_a_type_that_no_body_has_is_refused_by_name(kind, says):
    with pytest.raises(SettingsError, match=says):
        JsonBodies(t.StructType().add("c", kind))


NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def rows(form: BodyForm, *bodies: bytes | None) -> list[dict[str, Any]]:
    found = read_bodies(form, pa.array(bodies, pa.binary()))
    found.validate(full=True)
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


# --- Avro

ORDER = {
    "id": 7,
    "small": -1,
    "name": None,
    "kind": "B",
    "other": "A",
    "at": NOON,
    "local": NOON.replace(tzinfo=None),
    "day": NOON.date(),
    "time": 1000,
    "price": Decimal("12.30"),
    "mark": b"1234",
    "lines": [{"n": 1, "w": 0.5}, {"n": 2, "w": 1.0}],
    "more": {"k": b"v", "z": None},
    "sum": 1 << 40,
}


def test_avro_types_are_those_of_spark():
    form = AvroBodies.of(json.dumps(ORDER_AVRO))
    assert form.columns.simpleString() == (
        "struct<id:bigint,small:int,name:string,kind:string,other:string,at:timestamp,local:timestamp_ntz,"
        "day:date,time:int,price:decimal(9,2),mark:binary,lines:array<struct<n:int,w:double>>,"
        "more:map<string,binary>,sum:bigint>"
    )
    (row,) = rows(form, avro_body(ORDER_AVRO, ORDER))
    assert row["reason"] is None
    assert row["value"] == {**ORDER, "more": [("k", b"v"), ("z", None)]}


def test_an_avro_body_that_is_cut_or_goes_on_has_a_reason_and_stops_no_other():
    form = AvroBodies.of(json.dumps(ORDER_AVRO))
    whole = avro_body(ORDER_AVRO, ORDER)
    bodies = [whole[:size] for size in range(len(whole))] + [whole + b"\0", None, whole]
    *bad, good = rows(form, *bodies)
    assert good["reason"] is None
    assert all(row["value"] is None for row in bad)
    assert all(row["reason"].startswith("not avro of this schema (") for row in bad)
    assert "1 byte after the record" in bad[-2]["reason"]


def test_a_number_that_no_column_holds_has_a_reason():
    narrow = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    wide = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    bodies = [avro_body(wide, {"n": number}) for number in (1, 1 << 40, 2)]
    first, second, third = rows(AvroBodies.of(json.dumps(narrow)), *bodies)
    assert (first["value"], third["value"]) == ({"n": 1}, {"n": 2})
    assert second["value"] is None
    assert str(1 << 40) in second["reason"]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_row_or_a_reason(body):
    for form in (AvroBodies.of(json.dumps(ORDER_AVRO)), _protobuf()):
        (row,) = rows(form, body)
        assert (row["value"] is None) == (row["reason"] is not None)


FIELD = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "?"}]}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "nor a valid Avro schema"),
        ('{"type": "strange"}', "nor a valid Avro schema"),
        ('{"type": "string"}', "not a record"),
        (
            json.dumps(FIELD).replace('"?"', '["int", "string"]'),
            "schema.f: a column can have only one type",
        ),
        (json.dumps(FIELD).replace('"?"', '["null", "R"]'), "schema.f: .*recursive"),
        (json.dumps(FIELD).replace('"?"', '"null"'), "schema.f: null"),
        (
            json.dumps(FIELD).replace(
                '"?"', '{"type": "bytes", "logicalType": "decimal", "precision": 40}'
            ),
            "at most 38",
        ),
    ],
)
def test_an_avro_schema_without_columns_is_refused(schema, why):
    with pytest.raises(SettingsError, match=why):
        AvroBodies.of(schema)


def test_the_other_branches_of_avro_unions_are_read():
    body = avro_body(ORDER_AVRO, {**ORDER, "name": "n", "sum": None})
    (row,) = rows(AvroBodies.of(json.dumps(ORDER_AVRO)), body)
    assert (row["value"]["name"], row["value"]["sum"]) == ("n", None)


# --- Protobuf


def _protobuf(message: str = "shop.Order") -> ProtobufBodies:
    return ProtobufBodies.of(str(_DESCRIPTORS), message)


@pytest.fixture(autouse=True, scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A descriptor set as protoc makes it."""
    global _DESCRIPTORS  # noqa: PLW0603  Hypothesis gives its functions no fixture of a module.
    _DESCRIPTORS = tmp_path_factory.mktemp("protobuf") / "shop.desc"
    _DESCRIPTORS.write_bytes(order_descriptors())
    return _DESCRIPTORS


_DESCRIPTORS = Path()


def test_protobuf_values_are_columns():
    form = _protobuf()
    assert form.columns.simpleString() == (
        "struct<id:bigint,small:bigint,huge:decimal(20,0),name:string,note:string,kind:string,at:timestamp,"
        "body:binary,lines:array<struct<n:int>>,counts:map<string,bigint>>"
    )
    order = protobuf_class()(
        id=-7,
        small=(1 << 32) - 1,
        huge=(1 << 64) - 1,
        name="n",
        note="",
        kind=1,
        body=b"\0\xff",
    )
    order.at.FromDatetime(NOON.replace(tzinfo=None))
    order.lines.add(n=3)
    order.counts["a"] = 1 << 40
    (full,) = rows(form, order.SerializeToString())
    assert full["value"] == {
        "id": -7,
        "small": (1 << 32) - 1,
        "huge": Decimal((1 << 64) - 1),
        "name": "n",
        "note": "",
        "kind": "B",
        "at": NOON,
        "body": b"\0\xff",
        "lines": [{"n": 3}],
        "counts": [("a", 1 << 40)],
    }


def test_what_was_not_set_is_null_where_that_is_known():
    """`note` is optional, `at` a message; the others have their defaults."""
    (unset,) = rows(_protobuf(), b"")
    assert unset["value"] == {
        "id": 0,
        "small": 0,
        "huge": Decimal(0),
        "name": "",
        "note": None,
        "kind": "A",
        "at": None,
        "body": b"",
        "lines": [],
        "counts": [],
    }


def test_a_protobuf_body_that_is_none_has_a_reason_and_unknown_fields_are_passed_over():
    form = _protobuf()
    good = protobuf_class()(id=1, kind=77).SerializeToString()
    later = b"\xa2\x06\x03new"  # Field 100, three bytes.
    late = protobuf_class()(id=2)
    late.at.seconds = 1 << 60
    first, cut, newer, null, beyond = rows(
        form, good, b"\x0a\x7f", good + later, None, late.SerializeToString()
    )
    assert (first["value"]["id"], first["value"]["kind"]) == (1, "77")
    assert newer["value"] == first["value"]
    for bad in (cut, null, beyond):
        assert bad["value"] is None
        assert bad["reason"].startswith("not protobuf of this schema (")


def test_descriptors_without_columns_are_refused(tmp_path, descriptors):
    with pytest.raises(SettingsError, match="needs --message"):
        ProtobufBodies.of(str(descriptors), "")
    with pytest.raises(
        SettingsError, match=r"not in the descriptor set, which has .*shop\.Order"
    ):
        ProtobufBodies.of(str(descriptors), "shop.Nothing")
    with pytest.raises(SettingsError, match=r"shop\.Tree contains itself"):
        ProtobufBodies.of(str(descriptors), "shop.Tree")
    (tmp_path / "broken").write_bytes(b"\x0a\x7f")
    for name in ("broken", "missing"):
        with pytest.raises(SettingsError, match="not a descriptor set"):
            ProtobufBodies.of(str(tmp_path / name), "shop.Order")
    (tmp_path / "part").write_bytes(order_descriptors(with_imports=False))
    with pytest.raises(SettingsError, match="--include_imports"):
        ProtobufBodies.of(str(tmp_path / "part"), "shop.Order")
