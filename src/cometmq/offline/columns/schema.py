"""The columns of a message in Arrow: their names, types and order.

Names are those of the community's Scala connector where it has the column, so its queries can be ported.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

PropertiesFormat = Literal["map", "raw", "json"]

RAW_RECORD = "rawRecord"

_TEXT, _INT, _LONG, _BYTES = pa.string(), pa.int32(), pa.int64(), pa.binary()
_TIME = pa.timestamp("us", "UTC")

COLUMNS: dict[str, pa.DataType] = {
    "topic": _TEXT,
    "brokerName": _TEXT,
    "queueId": _INT,
    "queueOffset": _LONG,
    "msgId": _TEXT,
    "offsetMsgId": _TEXT,
    "keys": _TEXT,
    "tags": _TEXT,
    "body": _BYTES,
    "properties": pa.map_(_TEXT, _TEXT),
    "bornTimestamp": _TIME,
    "bornHost": _TEXT,
    "storeTimestamp": _TIME,
    "storeHost": _TEXT,
    "flag": _INT,
    "sysFlag": _INT,
    "bodyCrc": _INT,
    "storeSize": _INT,
    "reconsumeTimes": _INT,
    "commitLogOffset": _LONG,
    "preparedTransactionOffset": _LONG,
}

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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or `; known names are ...` if none is close."""
    lowered = {word.lower(): word for word in known}
    close = get_close_matches(name.strip().lower(), list(lowered), n=1)
    if close:
        return f"; did you mean {in_quotes(lowered[close[0]])}?"
    return f"; known names are {', '.join(lowered.values())}"
