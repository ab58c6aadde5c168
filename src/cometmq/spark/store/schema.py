"""Columns of each view of the Spark format "rocketmq-store", and schemas made or checked by them."""

from collections.abc import Sequence

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.model.text import in_quotes
from cometmq.offline.columns.names import RAW_RECORD, PropertiesFormat
from cometmq.spark.schema import COLUMNS, check_read_schema, column_name

_TEXT, _INT, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()
_BYTES, _TRUTH = BinaryType(), BooleanType()

MESSAGES = "messages"

VIEWS: dict[str, dict[str, DataType]] = {
    MESSAGES: {**COLUMNS, "storeFile": _TEXT, "valid": _TRUTH},
    "consumequeue": {
        "topic": _TEXT,
        "queueId": _INT,
        "queueOffset": _LONG,
        "commitLogOffset": _LONG,
        "storeSize": _INT,
        "tagsCode": _LONG,
        "storeFile": _TEXT,
    },
    "index": {
        "keyHash": _INT,
        "commitLogOffset": _LONG,
        "storeTimestamp": _TIME,
        "entry": _INT,
        "previousEntry": _INT,
        "storeFile": _TEXT,
    },
    "packed-cq": {
        "topic": _TEXT,
        "queueId": _INT,
        "queueOffset": _LONG,
        "messages": _INT,
        "entries": _BYTES,
    },
    "verify": {
        "part": _TEXT,
        "place": _TEXT,
        "finding": _TEXT,
        "isError": _TRUTH,
        "messages": _LONG,
        "bytes": _LONG,
        "queueEntries": _LONG,
    },
    "files": {
        "kind": _TEXT,
        "name": _TEXT,
        "startOffset": _LONG,
        "bytes": _LONG,
        "modified": _TIME,
    },
    "offsets": {"group": _TEXT, "topic": _TEXT, "queueId": _INT, "committedOffset": _LONG},
    "topics": {
        "topic": _TEXT,
        "readQueues": _INT,
        "writeQueues": _INT,
        "perm": _INT,
        "isOrdered": _TRUTH,
    },
}


def view_schema(
    view: str,
    columns: Sequence[str] = (),
    *,
    properties_format: PropertiesFormat = "map",
    with_raw: bool = False,
) -> StructType:
    """Return the schema of a view: all columns (`rawRecord` only on request), or the named ones in the given order.

    Args:
        view: One of `VIEWS`.
        columns: Names, ignoring case; empty for all.
        properties_format: "raw" for the stored text of the properties, "json" for a JSON object as text.
        with_raw: Whether all columns of the view `messages` include `rawRecord`.

    Raises:
        SettingsError: A name is not a column; the message suggests a similar one, or lists all.
    """
    types = _types(view)
    if properties_format != "map" and "properties" in types:
        types["properties"] = _TEXT
    names = [column_name(name, types, where=_in(view)) for name in columns]
    names = names or [name for name in types if name != RAW_RECORD or with_raw]
    return StructType([StructField(name, types[name]) for name in names])


def check_view_schema(view: str, schema: StructType) -> None:
    """Raise SettingsError if a user's schema has a column that the view lacks, or one of a type that it cannot have."""
    check_read_schema(schema, _types(view), where=_in(view))


def _in(view: str) -> str:
    return f" in view {in_quotes(view)}"


def _types(view: str) -> dict[str, DataType]:
    types = dict(VIEWS[view])
    if view == MESSAGES:
        types[RAW_RECORD] = _BYTES
    return types
