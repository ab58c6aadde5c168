"""Log entry of a data file in a Delta table: its statistics and partition values."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from pyarrow import parquet as pq

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# Limits of Delta's own writer: columns with statistics, and length of a text used as bound.
_DESCRIBED_COLUMNS = 32
_BOUND_LETTERS = 32


def file_statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return the statistics by which Delta readers skip a file: row count, and minimum, maximum and nulls per column.

    The result is a dict with `numRecords`, `minValues`, `maxValues` and `nullCount`. Columns inside others or with a dot
    in the name, all after the first 32 leaf columns, and those without statistics in the Parquet file have none. Bounds
    are whole numbers, dates, times with a zone (in ms, rounded outwards) and texts of at most 32 characters.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for column in range(min(metadata.num_columns, _DESCRIBED_COLUMNS)):
        name = metadata.schema.column(column).path
        parts = [group.column(column).statistics for group in groups]
        if "." in name or any(each is None or not each.has_null_count for each in parts):
            continue
        nulls[name] = sum(each.null_count for each in parts)
        bounded = [
            each for each in parts if each.null_count < each.num_values + each.null_count
        ]
        if not bounded or not all(each.has_min_max for each in bounded):
            continue
        try:
            low = _bound(min(each.min for each in bounded), is_up=False)
            high = _bound(max(each.max for each in bounded), is_up=True)
        except (ValueError, OverflowError):
            continue  # A time outside Python's range.
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }


def _bound(value: object, *, is_up: bool) -> int | str | None:
    """Convert a bound to its form in Delta's log; None for a long text or other type. Times get ms, rounded up if `is_up`."""
    match value:
        case int() if not isinstance(value, bool):
            return value
        case datetime() if value.tzinfo is not None:
            ticks = timedelta(microseconds=value.microsecond % 1000)
            if ticks:
                value += timedelta(milliseconds=int(is_up)) - ticks
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case str() if len(value) <= _BOUND_LETTERS:
            return value
    return None


def partition_values(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """Return the partition values by column as texts, from the folder names in a file's path; None for a null."""
    folders = path.split("/")[-1 - len(columns) : -1] if columns else []
    values = {}
    for column, folder in zip(columns, folders, strict=True):
        value = unquote(folder.partition("=")[2])
        values[column] = None if value == _NULL_FOLDER else value
    return values
