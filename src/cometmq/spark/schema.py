"""The columns of a message in Spark, and which of them a read wants.

Names, types and order are Arrow's (`offline.columns.schema`). A read decodes only the columns it is
asked for: Spark 4.3 prunes no columns of a Python source by itself, so the user's own schema
(`.schema("topic STRING, queueOffset BIGINT")`) or the option `columns` says it.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from cometmq.model.errors import SettingsError
from cometmq.offline.columns.schema import COLUMNS as ARROW_COLUMNS
from cometmq.offline.columns.schema import PropertiesFormat, nearest

COLUMNS: dict[str, DataType] = {
    name: from_arrow_type(kind) for name, kind in ARROW_COLUMNS.items()
}

_TEXT = StringType()


def message_schema(
    columns: Sequence[str] = (), *, properties_format: PropertiesFormat = "map"
) -> StructType:
    """The schema of a read: all columns, or the named ones in their order.

    Args:
        columns: names as in `COLUMNS`, upper and lower case alike; none for all.
        properties_format: "map" for MAP<STRING,STRING>, "raw" for the stored text, "json" for an
            object as text.

    Raises:
        SettingsError: for a name that is no column, with the nearest one.
    """
    names = [column_name(name) for name in columns] or list(COLUMNS)
    types = dict(COLUMNS)
    if properties_format != "map":
        types["properties"] = _TEXT
    return StructType([StructField(name, types[name]) for name in names])


def column_name(name: str) -> str:
    """The column that is meant, in its own spelling.

    Raises:
        SettingsError: when there is none.
    """
    lowered = {known.lower(): known for known in COLUMNS}
    known = lowered.get(name.strip().lower())
    if known is None:
        raise SettingsError(f"no column {name.strip()!r}{nearest(name, COLUMNS)}")
    return known


def check_read_schema(schema: StructType) -> None:
    """Refuse a user's schema that names what a message does not have, or with another type.

    Raises:
        SettingsError: naming the column, its type and the right one.
    """
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise SettingsError(f"no column {field.name!r}{nearest(field.name, COLUMNS)}")
        allowed = [COLUMNS[field.name]]
        if field.name == "properties":
            allowed.append(_TEXT)  # As with propertiesFormat=raw, or json where that is said.
        if field.dataType not in allowed:
            wanted = " or ".join(kind.simpleString() for kind in allowed)
            raise SettingsError(
                f"column {field.name!r} is {wanted}, not {field.dataType.simpleString()}; "
                "read it so and cast in the query"
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark demands of batches of `schema`, type for type.

    The field metadata and nullability come from Spark's own function: Spark compares for equality.
    """
    return to_arrow_schema(schema, timezone="UTC")


def check_names(schema: StructType, taken: Mapping[str, str]) -> None:
    """Refuse columns that Spark takes for each other, or that have a name of ours; upper and lower case are alike.

    Args:
        schema: As the user wrote it.
        taken: Names that its columns must not have, each with what it is.

    Raises:
        SettingsError: A column has the name of another one, or one that is taken.
    """
    ours = {name.lower(): why for name, why in taken.items()}
    seen = set[str]()
    for each in schema.fields:
        name = each.name.lower()
        if name in ours:
            raise SettingsError(
                f"--schema: {each.name!r} is {ours[name]}; give the column another name"
            )
        if name in seen:
            raise SettingsError(
                f"--schema: {each.name!r} is there twice; Spark takes upper and lower case for one"
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
    """Return a column's name as Spark takes any: a dot in it is no path."""
    return "`" + name.replace("`", "``") + "`"


def check_gains(present: StructType, wanted: StructType) -> None:
    """Refuse a schema in which a table loses or changes a column: it only gains some, so that old and new files agree.

    Raises:
        SettingsError: a column that is there has another type now, or none.
    """
    types = {each.name: each.dataType for each in wanted.fields}
    for each in present.fields:
        now = types.get(each.name)
        if now != each.dataType:
            raise SettingsError(
                f"the table has {each.name} {each.dataType.simpleString()}, the schema has "
                f"{'no such column' if now is None else now.simpleString()}; columns can only be "
                "added: take another folder"
            )
