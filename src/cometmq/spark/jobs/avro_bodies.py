"""Avro bodies, decoded by fastavro: one record without a file header, as producers put it into a message.

Types follow `from_avro` of Spark 4.1: an enum becomes a string, a union with null a nullable column, int with long a
long, float with double a double. Other unions of several types and recursive records are not supported.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import expand_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from cometmq.model.errors import SettingsError
from cometmq.model.text import plural
from cometmq.spark.jobs.body_forms import Reader

_PRECISION_MAX = 38

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
# Logical types that Spark supports; values of any other are read as their underlying type.
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_WIDER = {
    frozenset(["int", "long"]): LongType(),
    frozenset(["float", "double"]): DoubleType(),
}


@dataclass(frozen=True)
class AvroBodies:
    """Decoder of Avro bodies with one schema (`schema` is its JSON text), and the columns that the schema becomes."""

    schema: str
    columns: StructType
    name: str = "avro"

    @classmethod
    def of(cls, text: str) -> "AvroBodies":
        """Create the decoder for a schema's JSON text; raise SettingsError if it is invalid or no columns can express it."""
        try:
            schema = _without_unknown(json.loads(text))
            whole = expand_schema(schema)
        except Exception as error:
            raise SettingsError(
                f"--schema is neither an existing file nor a valid Avro schema: {error}"
            ) from error
        columns, _ = _column(whole, "the schema")
        if not isinstance(columns, StructType):
            raise SettingsError(
                "the Avro schema is not a record; only the fields of a record can become columns of a table"
            )
        return cls(json.dumps(schema), columns)

    def reader(self) -> Reader:
        """Return a function that decodes an Avro body to a dict, or raises ValueError (bytes left over) or fastavro errors."""
        schema = parse_schema(json.loads(self.schema))

        def read(body: bytes) -> dict[str, Any]:
            stream = BytesIO(body)
            found = schemaless_reader(stream, schema, None)
            if left := len(body) - stream.tell():
                raise ValueError(f"{left} {plural(left, 'byte')} after the record")
            assert isinstance(found, dict)
            return found

        return read


def _without_unknown(schema: Any) -> Any:
    """Return the schema without logical types other than decimal and those in `_LOGICAL`."""
    if isinstance(schema, list):
        return [_without_unknown(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_unknown(each) for name, each in schema.items()}
    if kept.get("logicalType") not in {*_LOGICAL, "decimal"}:
        kept.pop("logicalType", None)
    return kept


def _column(schema: Any, where: str) -> tuple[DataType, bool]:
    """Return the type of an Avro schema's column and whether it is nullable; raise SettingsError if none fits."""
    if isinstance(schema, list):
        return _union(schema, where)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _column(kind, where)
    if kind in _NESTED:
        return _NESTED[kind](schema, where), False
    return _single(schema if isinstance(schema, dict) else {}, kind, where), False


def _record(schema: Any, where: str) -> DataType:
    fields = []
    for each in schema["fields"]:
        column, may_be_null = _column(each["type"], f"{where}.{each['name']}")
        fields.append(StructField(each["name"], column, may_be_null))
    return StructType(fields)


def _array(schema: Any, where: str) -> DataType:
    if _is_empty(schema["items"]):
        raise SettingsError(
            f"{where}: the items of this array take no bytes, so a short body could claim any number of them; use "
            "another item type"
        )
    return ArrayType(*_column(schema["items"], where))


def _is_empty(schema: Any) -> bool:
    """Return whether values of an Avro schema never take any bytes."""
    if not isinstance(schema, dict):
        return bool(schema == "null")
    kind = schema["type"]
    if kind == "record":
        return all(_is_empty(each["type"]) for each in schema["fields"])
    return (kind == "fixed" and schema["size"] == 0) or (
        isinstance(kind, dict | str) and kind not in _NESTED and _is_empty(kind)
    )


_NESTED: dict[str, Callable[[Any, str], DataType]] = {
    "record": _record,
    "array": _array,
    "map": lambda schema, where: MapType(StringType(), *_column(schema["values"], where)),
}


def _single(schema: dict[str, Any], kind: str, where: str) -> DataType:
    logical = schema.get("logicalType")
    if logical == "decimal":
        if schema["precision"] > _PRECISION_MAX:
            raise SettingsError(
                f"{where}: Spark's decimals have at most {_PRECISION_MAX} digits"
            )
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical is not None:
        return _LOGICAL[logical]
    if kind not in _PLAIN:
        raise SettingsError(f"{where}: {kind} is recursive or has no matching column type")
    return _PLAIN[kind]


def _union(schema: list[Any], where: str) -> tuple[DataType, bool]:
    others = [each for each in schema if each != "null"]
    may_be_null = len(others) < len(schema)
    if len(others) == 1:
        return _column(others[0], where)[0], may_be_null
    names = [each if isinstance(each, str) else str(each.get("type")) for each in others]
    wider = _WIDER.get(frozenset(names))
    if wider is None:
        raise SettingsError(
            f"{where}: a column can have only one type besides null, but this union has "
            f"{', '.join(names) or 'null only'}"
        )
    return wider, may_be_null
