"""Spark schema of messages, and selection of the columns of a read.

Names, types and order are those of the Arrow schema (`offline.columns.schema`), which is not imported, because pyarrow
takes 100 ms in each process of Spark. A read decodes only the
requested columns. Spark 4.3 prunes no columns of a Python source by itself, so the user requests them by a schema
(`.schema("topic STRING, queueOffset BIGINT")`) or the option `columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.offline.columns.names import KINDS, Kind, PropertiesFormat, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

_TEXT = StringType()
_TYPES: dict[Kind, DataType] = {
    "text": _TEXT,
    "int": IntegerType(),
    "long": LongType(),
    "bytes": BinaryType(),
    "time": TimestampType(),
    "map": MapType(_TEXT, _TEXT),
}
COLUMNS: dict[str, DataType] = {name: _TYPES[kind] for name, kind in KINDS.items()}


def message_schema(
    columns: Sequence[str] = (), *, properties_format: PropertiesFormat = "map"
) -> StructType:
    """Return the schema of a read: all columns, or the named ones in the given order.

    Args:
        columns: Names as in `COLUMNS`, ignoring case; empty for all.
        properties_format: "map" for MAP<STRING,STRING>, "raw" for the stored text, "json" for a JSON object as text.

    Raises:
        SettingsError: A name is not a column; the message suggests a similar one, or lists all.
    """
    names = [column_name(name) for name in columns] or list(COLUMNS)
    types = dict(COLUMNS)
    if properties_format != "map":
        types["properties"] = _TEXT
    return StructType([StructField(name, types[name]) for name in names])


def column_name(name: str, types: Mapping[str, DataType] = COLUMNS, *, where: str = "") -> str:
    """Return a column's name in its official spelling, ignoring case; raise SettingsError if it is unknown.

    Args:
        name: The name, perhaps with white space around it.
        types: All columns.
        where: Text after the name in the error.
    """
    known = {each.lower(): each for each in types}.get(name.strip().lower())
    if known is None:
        raise _unknown(name.strip(), types, where)
    return known


def check_read_schema(
    schema: StructType, types: Mapping[str, DataType] = COLUMNS, *, where: str = ""
) -> None:
    """Raise SettingsError if the schema of a read has a column with an unknown name (case matters) or a wrong type."""
    for field in schema.fields:
        if field.name not in types:
            raise _unknown(field.name, types, where)
        allowed = [types[field.name]]
        if field.name == "properties":
            allowed.append(_TEXT)  # The type with propertiesFormat=raw or json.
        if field.dataType not in allowed:
            wanted = " or ".join(kind.simpleString() for kind in allowed)
            raise SettingsError(
                f"column {in_quotes(field.name)} is {wanted}, not {field.dataType.simpleString()}; "
                "read it with that type and cast it in the query"
            )


def _unknown(name: str, types: Mapping[str, DataType], where: str) -> SettingsError:
    return SettingsError(f"unknown column {in_quotes(name)}{where}{nearest(name, types)}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of batches of `schema`, with the nullability and metadata that Spark compares."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def check_names(schema: StructType, taken: Mapping[str, str]) -> None:
    """Raise SettingsError if names of columns, or of fields of one struct, are equal ignoring case, or a column is reserved.

    Args:
        schema: Columns of the option --schema.
        taken: Reserved names of columns, each with its use.
    """
    ours = {name.lower(): why for name, why in taken.items()}
    seen = set[str]()
    for each in schema.fields:
        name = each.name.lower()
        if name in ours:
            raise SettingsError(
                f"--schema: the name {in_quotes(each.name)} is {ours[name]}; give the column another name"
            )
        if name in seen:
            raise SettingsError(
                f"--schema: column {in_quotes(each.name)} appears twice; Spark does not distinguish upper and "
                "lower case"
            )
        seen.add(name)
        _check_inside(each.dataType)


def _check_inside(kind: DataType) -> None:
    if isinstance(kind, StructType):
        check_names(kind, {})
    elif isinstance(kind, ArrayType):
        _check_inside(kind.elementType)
    elif isinstance(kind, MapType):
        _check_inside(kind.valueType)


def quoted(name: str) -> str:
    """Quote a column name for Spark, so that a dot in it does not select a field."""
    return "`" + name.replace("`", "``") + "`"


def check_gains(present: StructType, wanted: StructType) -> None:
    """Raise SettingsError unless `wanted` has all columns of the table `present` with their types; it may have more."""
    types = {each.name: each.dataType for each in wanted.fields}
    for each in present.fields:
        now = types.get(each.name)
        if now != each.dataType:
            raise SettingsError(
                f"the table has the column {each.name} {each.dataType.simpleString()}, the schema has "
                f"{'no such column' if now is None else now.simpleString()}; columns can only be "
                "added: use another folder"
            )
