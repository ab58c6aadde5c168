"""The columns that the sink takes, and rows as batch items for a queue.

Next: cometmq.spark.sink
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from cometmq.codec.batch import encode_item
from cometmq.codec.properties import encode_properties
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError, MessageError, SettingsError
from cometmq.model.names import topic_fault
from cometmq.spark.schema import nearest

_TEXT = (StringType,)
_WHOLE = (IntegerType, LongType, ShortType)

# What a column may be, and the names it goes by.
TYPES: dict[str, tuple[type[DataType], ...]] = {
    "body": (BinaryType, StringType),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": (StringType, ArrayType),
    "properties": (MapType,),
    "flag": _WHOLE,
    "brokerName": _TEXT,
    "queueId": _WHOLE,
    "shardingKey": _TEXT,
}
_ALIASES = {"value": "body", "messageGroup": "shardingKey"}


class Target(NamedTuple):
    """Where a row wants to go.

    Attributes:
        topic: its topic.
        broker_name: None: any.
        queue_id: None: any.
        sharding_key: rows of one key go to one queue; None: any.
    """

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None


@dataclass(frozen=True)
class SinkColumns:
    """Which column of the rows is what.

    Attributes:
        names: meaning -> column name.
        topic: where all rows go; None: where their column `topic` says.
    """

    names: Mapping[str, str]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, *, topic: str | None) -> "SinkColumns":
        """Check the columns of a write before anything is sent.

        Raises:
            SettingsError: a column that the sink does not know, of the wrong type, given twice
                under two names, or missing.
        """
        lowered = {name.lower(): name for name in (*TYPES, *_ALIASES)}
        names: dict[str, str] = {}
        for field in schema.fields:
            spelt = lowered.get(field.name.lower())
            if spelt is None:
                known = list(lowered.values())
                raise SettingsError(
                    f"the sink has no column {field.name!r}{nearest(field.name, known)}; "
                    "select only what is to be sent"
                )
            meaning = _ALIASES.get(spelt, spelt)
            if meaning in names:
                raise SettingsError(
                    f"{names[meaning]!r} and {field.name!r} mean the same; keep one"
                )
            _check_type(field.name, field.dataType, TYPES[meaning])
            names[meaning] = field.name
        if "body" not in names:
            raise SettingsError("the sink needs a column 'body' (or 'value'), BINARY or STRING")
        if topic is None and "topic" not in names:
            raise SettingsError("where to? Give the option 'topic' or a column 'topic'")
        if topic is not None:
            _check_topic(topic)
        return cls(names, topic)

    def rows(
        self, batch: pa.RecordBatch, *, new_id: Callable[[], str]
    ) -> Iterator[tuple[Target, bytes]]:
        """Each row as a batch item, and where it goes.

        Args:
            batch: rows of Spark.
            new_id: makes the message ids.

        Raises:
            MessageError: a row that cannot be a message; it names the row's fault.
        """
        columns = {meaning: _values(batch, name) for meaning, name in self.names.items()}
        nothing = [None] * batch.num_rows

        def column(meaning: str) -> list[Any]:
            return columns.get(meaning, nothing)

        topics = [self.topic] * batch.num_rows if self.topic else column("topic")
        places = zip(
            topics, column("brokerName"), column("queueId"), column("shardingKey"), strict=True
        )
        contents = zip(
            column("body"),
            column("tags"),
            column("keys"),
            column("properties"),
            column("flag"),
            strict=True,
        )
        for place, (body, tag, keys, properties, flag) in zip(places, contents, strict=True):
            target = Target(*place)
            block = _block(new_id(), tag, keys, properties, target.sharding_key)
            yield target, _item(target, body, flag, block)


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    values: list[Any] = batch.column(batch.schema.get_field_index(name)).to_pylist()
    return values


def _item(target: Target, body: bytes | str | None, flag: int | None, block: bytes) -> bytes:
    if target.topic is None:
        raise MessageError("a row has no topic: its column 'topic' is null")
    if body is None:
        raise MessageError(
            f"a row for {target.topic} has no body: it is null; send empty bytes"
        )
    content = body.encode() if isinstance(body, str) else body
    try:
        return encode_item(flag or 0, content, block)
    except CodecError as error:
        raise MessageError(f"a row for {target.topic} is no message: {error}") from error


def _block(
    unique_id: str, tag: str | None, keys: str | list[str] | None, pairs: Any, shard: str | None
) -> bytes:
    """The stored properties. What the system owns is made anew, so a read can be written back."""
    stored = {name: text for name, text in pairs or () if name not in keys_of.RESERVED and text}
    stored[keys_of.UNIQ_KEY] = unique_id
    if tag:
        stored[keys_of.TAGS] = tag
    if keys:
        stored[keys_of.KEYS] = keys if isinstance(keys, str) else " ".join(keys)
    if shard:
        stored[keys_of.SHARDING_KEY] = shard
    try:
        return encode_properties(stored)
    except CodecError as error:
        raise MessageError(f"a row's properties cannot be stored: {error}") from error


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
        wanted = " or ".join(_spelt(each) for each in allowed)
        raise SettingsError(
            f"column {name!r} is {kind.simpleString()}; the sink takes {wanted}"
        )


def _spelt(kind: type[DataType]) -> str:
    if kind is ArrayType:
        return "array<string>"
    if kind is MapType:
        return "map<string,string>"
    name: str = kind.typeName()
    return name
