"""Columns that the Spark sink accepts, and the topic and queue they select for each row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.model.errors import MessageError, SettingsError
from cometmq.model.names import topic_fault
from cometmq.model.text import in_quotes
from cometmq.offline.columns.names import nearest
from cometmq.offline.columns.pieces import indices_of, number_array
from cometmq.spark.sink.options import BY_KEYS, ROUND_ROBIN
from cometmq.spark.sink.settings import SinkSettings

_TEXT = (StringType,)
_WHOLE = (IntegerType, LongType, ShortType)

# Meanings of columns with their allowed types; other accepted names are in `_ALIASES`.
TYPES: dict[str, tuple[type[DataType], ...]] = {
    "body": (BinaryType, StringType),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": (StringType, ArrayType),
    "properties": (MapType,),
    "msgId": _TEXT,
    "flag": _WHOLE,
    "brokerName": _TEXT,
    "queueId": _WHOLE,
    "shardingKey": _TEXT,
    "delayLevel": _WHOLE,
    "deliverTimestamp": (TimestampType,),
}
_ALIASES = {"value": "body", "messageGroup": "shardingKey"}
_ID_TYPES = (StringType, BinaryType, *_WHOLE)
DELAYS = ("delayLevel", "deliverTimestamp")


class RowTarget(NamedTuple):
    """Topic, broker name, queue id and sharding key (or keys) of a row; all but the topic are None if it has none."""

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None


class RowTargets(NamedTuple):
    """Targets of rows: `distinct` has each target once, `of_rows` the index of its target for each row."""

    distinct: list[RowTarget]
    of_rows: npt.NDArray[np.int64]


@dataclass(frozen=True)
class SinkColumns:
    """Mapping of a write's columns to their meanings, such as body, keys and delayLevel.

    Attributes:
        names: Column name by meaning.
        topic: Topic of all rows; None if the column `topic` names it.
        id_column: Column named by the option `idColumn`, as spelt in the rows; None without the option.
        is_by_keys: Whether the hash of a row's keys, if any, selects its queue if it has no sharding key.
    """

    names: Mapping[str, str]
    topic: str | None
    id_column: str | None = None
    is_by_keys: bool = False

    @classmethod
    def of(cls, schema: StructType, settings: SinkSettings) -> "SinkColumns":
        """Map the columns of a write to their meanings, and check them before anything is sent.

        Raises:
            SettingsError: A column is unknown, has a wrong type, is given twice or is missing, or conflicts with an
                option or another column; or the option `topic` is invalid.
        """
        id_field = _id_field(schema, settings.id_column)
        names = _meanings(schema, id_field)
        if "body" not in names:
            raise SettingsError("the sink needs a column 'body' (or 'value'), BINARY or STRING")
        if settings.topic is None and "topic" not in names:
            raise SettingsError("no topic: set the option 'topic', or add a column 'topic'")
        if settings.topic is not None:
            _check_topic(settings.topic)
        _check_against(names, settings)
        return cls(
            names,
            settings.topic,
            None if id_field is None else id_field.name,
            settings.queue_selector == BY_KEYS,
        )

    def has(self, *meanings: str) -> bool:
        """Return whether the rows have a column with one of these meanings."""
        return any(each in self.names for each in meanings)

    def column(self, batch: pa.RecordBatch, meaning: str) -> pa.Array | None:
        """Return the rows' column with a meaning, such as "body", or None if they have no such column."""
        name = self.names.get(meaning)
        return None if name is None else batch.column(batch.schema.get_field_index(name))

    def targets(self, batch: pa.RecordBatch) -> RowTargets | None:
        """Return the targets of rows, or None if only the option `topic` names one.

        Raises MessageError if a topic is null, or a text that selects topic or queue is not UTF-8.
        """
        places = self.is_by_keys or self.has("brokerName", "queueId", "shardingKey")
        if self.topic is not None and not places:
            return None
        topics = None if self.topic else self.column(batch, "topic")
        if topics is not None and topics.null_count:
            raise MessageError("a row has no topic: its column 'topic' is null")
        columns = {
            "topic": topics,
            "brokerName": self.column(batch, "brokerName"),
            "queueId": self.column(batch, "queueId"),
            "shardingKey": self._hashed(batch),
        }
        firsts, of_rows = _distinct(columns.values(), batch.num_rows)
        values = []
        for meaning, column in columns.items():
            chosen = pa.nulls(len(firsts)) if column is None else column.take(firsts)
            check_utf8(chosen, self.names.get(meaning, meaning))
            values.append(chosen.to_pylist())
        if self.topic is not None:
            values[0] = [self.topic] * len(firsts)
        return RowTargets([RowTarget(*each) for each in zip(*values, strict=True)], of_rows)

    def _hashed(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return each row's text whose hash selects its queue: its sharding key, or else, with `is_by_keys`, its keys; or None."""
        sharding = self.column(batch, "shardingKey")
        if not self.is_by_keys:
            return sharding
        keys = self.column(batch, "keys")
        if keys is not None and pa.types.is_list(keys.type):
            words = (filter(None, each or ()) for each in keys.to_pylist())
            keys = pa.array([" ".join(each) or None for each in words], pa.string())
        if sharding is None or keys is None:
            return keys if sharding is None else sharding
        has_own = pc.fill_null(pc.greater(pc.binary_length(sharding), 0), fill_value=False)
        return pc.if_else(has_own, sharding, keys)


def check_utf8(values: pa.Array, column: str) -> None:
    """Raise MessageError if a text is not UTF-8: Spark's texts may be any bytes."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise MessageError(
            f"column {in_quotes(column)} of a row has bytes that are not UTF-8; encode them, for example with "
            "base64()"
        ) from None


def _distinct(
    columns: Iterable[pa.Array | None], rows: int
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the index of the first row with each combination of values, and each row's position in that array."""
    codes = np.zeros(rows, np.int64)
    firsts = codes[:1]
    for column in columns:
        if column is None:
            continue
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + indices_of(encoded)
        # Renumber the combinations, so that the next product fits into 64 bits.
        _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    return number_array(firsts), codes


def _id_field(schema: StructType, name: str | None) -> StructField | None:
    if name is None:
        return None
    field = next((each for each in schema.fields if each.name.lower() == name.lower()), None)
    if field is None:
        raise SettingsError(
            f"option 'idColumn': the rows have no column {in_quotes(name)}{nearest(name, schema.names)}"
        )
    if not isinstance(field.dataType, _ID_TYPES):
        raise SettingsError(
            f"option 'idColumn': column {in_quotes(field.name)} has type {field.dataType.simpleString()}; an id must "
            f"be {_one_of(_ID_TYPES)}"
        )
    return field


def _meanings(schema: StructType, id_field: StructField | None) -> dict[str, str]:
    lowered = {name.lower(): name for name in (*TYPES, *_ALIASES)}
    names: dict[str, str] = {}
    for field in schema.fields:
        spelt = lowered.get(field.name.lower())
        if spelt is None:
            if field is id_field:
                continue
            raise SettingsError(
                "the sink does not know the column "
                f"{in_quotes(field.name)}{nearest(field.name, list(lowered.values()))}; select only columns of the "
                "sink"
            )
        meaning = _ALIASES.get(spelt, spelt)
        if meaning in names:
            raise SettingsError(
                f"columns {in_quotes(names[meaning])} and {in_quotes(field.name)} mean the same; keep one"
            )
        _check_type(field.name, field.dataType, TYPES[meaning])
        names[meaning] = field.name
    return names


def _check_against(names: Mapping[str, str], settings: SinkSettings) -> None:
    """Raise SettingsError unless the columns fit the options and each other."""
    if "brokerName" in names and "queueId" not in names:
        raise SettingsError("column 'brokerName' needs a column 'queueId'")
    if settings.queue_selector != ROUND_ROBIN and "queueId" in names:
        raise SettingsError(
            f"option 'queueSelector' {settings.queue_selector} and a column 'queueId' both choose "
            "the queue; keep one"
        )
    if settings.queue_selector == BY_KEYS and "keys" not in names:
        raise SettingsError("option 'queueSelector' keys needs a column 'keys'")
    if settings.is_transactional and "msgId" in names:
        raise SettingsError(
            "column 'msgId': transactional delivery creates its own message ids; drop the column, or use "
            "delivery idempotent"
        )
    for name in DELAYS:
        if name in names and settings.is_transactional:
            raise SettingsError(
                f"column {in_quotes(name)}: transactional delivery does not support delays; use another delivery"
            )


def _check_topic(topic: str) -> None:
    fault = topic_fault(topic)
    if fault is not None:
        raise SettingsError(f"topic: {fault}")


def _check_type(name: str, kind: DataType, allowed: tuple[type[DataType], ...]) -> None:
    is_right = isinstance(kind, allowed)
    if isinstance(kind, ArrayType):
        is_right = is_right and isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        is_right = (
            is_right
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if not is_right:
        raise SettingsError(
            f"column {in_quotes(name)} has type {kind.simpleString()}; the sink accepts {_one_of(allowed)}"
        )


def _one_of(kinds: Iterable[type[DataType]]) -> str:
    return " or ".join(_spelt(each) for each in kinds)


def _spelt(kind: type[DataType]) -> str:
    if kind is ArrayType:
        return "array<string>"
    if kind is MapType:
        return "map<string,string>"
    name: str = kind.typeName()
    return name
