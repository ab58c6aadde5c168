"""The columns of a message in Arrow: their names, types and order."""

from collections.abc import Sequence

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.offline.columns.names import KINDS, RAW_RECORD, Kind, PropertiesFormat, nearest

_TEXT, _BYTES = pa.string(), pa.binary()
_TYPES: dict[Kind, pa.DataType] = {
    "text": _TEXT,
    "int": pa.int32(),
    "long": pa.int64(),
    "bytes": _BYTES,
    "time": pa.timestamp("us", "UTC"),
    "map": pa.map_(_TEXT, _TEXT),
}
COLUMNS: dict[str, pa.DataType] = {name: _TYPES[kind] for name, kind in KINDS.items()}

# Columns that only a store's files can fill.
STORE_COLUMNS: dict[str, pa.DataType] = {**COLUMNS, "storeFile": _TEXT, "valid": pa.bool_()}


def stored_schema(
    columns: Sequence[str] = (),
    *,
    properties_format: PropertiesFormat = "map",
    with_raw: bool = False,
) -> pa.Schema:
    """Return the Arrow schema for messages read from files: the usual columns, or the named ones in the given order.

    Args:
        columns: Names in any case; empty for all but `rawRecord`.
        properties_format: "raw" for the stored text of the properties, "json" for a JSON object as text.
        with_raw: Include the column `rawRecord`, the record's bytes, if `columns` is empty.

    Raises:
        SettingsError: A name is not a column; the text suggests a close one or lists all.
    """
    types = {**STORE_COLUMNS, RAW_RECORD: _BYTES}
    if properties_format != "map":
        types["properties"] = _TEXT
    lowered = {name.lower(): name for name in types}
    unknown = next((name for name in columns if name.lower() not in lowered), None)
    if unknown is not None:
        raise SettingsError(f"unknown column {in_quotes(unknown)}{nearest(unknown, types)}")
    names = [lowered[name.lower()] for name in columns]
    names = names or [name for name in types if name != RAW_RECORD or with_raw]
    return pa.schema([(name, types[name]) for name in names])
