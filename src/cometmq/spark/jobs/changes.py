"""Change messages in Debezium's format, decoded to the changes of table rows.

A body is `{"op": "u", "before": …, "after": …, "ts_ms": …}`, with or without the envelope `{"payload": …}`. It sets
one row, deletes one, or both: an update with another key in `before` deletes that row. An empty body (a tombstone,
which Debezium sends after a deletion) changes nothing.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t

from cometmq.spark.jobs.body_forms import BodyMismatch, Reader
from cometmq.spark.jobs.text_bodies import json_object
from cometmq.spark.jobs.text_values import (
    WrongValue,
    carried,
    check_columns,
    converter,
    json_text,
)

CHANGES, ROW, TIME, IS_GONE = "changes", "row", "ts", "is_gone"

_SETS = ("c", "r", "u", "i", "create", "read", "update", "insert", "upsert")
_DELETES = ("d", "delete", "remove")


@dataclass(frozen=True)
class ChangeBodies:
    """Decoder of bodies that are change messages in Debezium's format.

    Args:
        row: Columns of a row.
        keys: Columns that identify a row.
        time: Field with the time of a change, or the path to it with dots; empty if changes have none.

    Raises:
        SettingsError: A column has a type that JSON values cannot have.
    """

    row: t.StructType
    keys: tuple[str, ...]
    time: str
    name: str = "cdc"

    def __post_init__(self) -> None:
        check_columns(self.row)

    @property
    def columns(self) -> t.StructType:
        """Spark type of a decoded body: one column, an array of changes.

        A change has a row, its time as in the body (null if `time` is empty), and whether the row is deleted.
        """
        change = t.StructType().add(ROW, carried(self.row)).add(TIME, t.LongType())
        return t.StructType().add(CHANGES, t.ArrayType(change.add(IS_GONE, t.BooleanType())))

    def reader(self) -> Reader:
        """Return a function that decodes a body to its changes (none if empty), or raises BodyMismatch for a wrong body."""
        as_row, as_time = converter(self.row), converter(t.LongType())
        key = t.StructType([t.StructField(name, self.row[name].dataType) for name in self.keys])
        as_key = converter(key)

        def read(body: bytes) -> dict[str, Any]:
            if not body:
                return {CHANGES: []}
            change = _without_envelope(json_object(body))
            try:
                time = _time_of(change, self.time, as_time)
                rows = _rows_of(change, self.keys, as_row, as_key)
            except WrongValue as error:
                raise BodyMismatch(str(error)) from None
            return {CHANGES: [{ROW: row, TIME: time, IS_GONE: gone} for row, gone in rows]}

        return read


def _without_envelope(body: dict[str, Any]) -> dict[str, Any]:
    payload = body.get("payload")
    if payload is None:
        return body
    if not isinstance(payload, dict):
        raise BodyMismatch("its payload is not a JSON object")
    return payload


def _time_of(change: dict[str, Any], path: str, as_time: Any) -> int | None:
    if not path:
        return None
    found: Any = change.get(path)
    if found is None and "." in path:
        found = change
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        raise BodyMismatch(f"the change has no field {path} with its time (--ts)")
    try:
        time: int = as_time(found)
    except WrongValue as error:
        raise error.within(path) from None
    return time


def _rows_of(
    change: dict[str, Any], keys: tuple[str, ...], as_row: Any, as_key: Any
) -> list[tuple[dict[str, Any], bool]]:
    """Return the rows of a change, each with whether it is deleted; a deleted row has only its key columns.

    Raises BodyMismatch or WrongValue if the change is incomplete or does not fit the columns.
    """
    before, after = change.get("before"), change.get("after")
    if _is_deletion(change.get("op"), after):
        gone = {} if before is None else _part(as_key, before, "before")
        _check_key(gone, keys)
        return [(gone, True)]
    row = _part(as_row, after, "after")
    _check_key(row, keys)
    if before is None:
        return [(row, False)]
    old = _part(as_key, before, "before")
    is_moved = None not in old.values() and any(old[name] != row[name] for name in keys)
    return [(old, True), (row, False)] if is_moved else [(row, False)]


def _is_deletion(op: Any, after: Any) -> bool:
    if op is None:
        return after is None
    kind = op.lower() if isinstance(op, str) else ""
    if kind in _DELETES:
        return True
    if kind not in _SETS:
        raise BodyMismatch(f"op {json_text(op)[:60]} is not a change of one row")
    if after is None:
        raise BodyMismatch(f"op {json_text(op)[:60]} has no row after the change (after)")
    return False


def _part(convert: Any, value: Any, name: str) -> dict[str, Any]:
    try:
        part: dict[str, Any] = convert(value)
    except WrongValue as error:
        raise error.within(name) from None
    return part


def _check_key(row: dict[str, Any], keys: tuple[str, ...]) -> None:
    if any(row.get(name) is None for name in keys):
        raise BodyMismatch("the change has no value for a key column")
