"""Avro and Protobuf bodies as columns: every type, bodies that are none, schemas that have no columns."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.avro_bodies import AvroBodies
from cometmq.spark.jobs.body_forms import BodyForm, read_bodies
from cometmq.spark.jobs.protobuf_bodies import ProtobufBodies
from tests.support.shop_bodies import (
    ORDER_AVRO,
    avro_body,
    order_descriptors,
    protobuf_class,
)

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
