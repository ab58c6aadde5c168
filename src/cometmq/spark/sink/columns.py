"""The columns that the sink takes, and where its rows go.

Next: cometmq.spark.sink.encode
"""

from collections.abc import Mapping
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

from cometmq.model.errors import MessageError, SettingsError
from cometmq.model.names import topic_fault
from cometmq.spark.columns.schema import nearest

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

    def targets(self, batch: pa.RecordBatch) -> list[Target] | None:
        """Where each row goes; None: all of them to any queue of `topic`.

        Raises:
            MessageError: a row has no topic.
        """
        places = [
            name for name in ("brokerName", "queueId", "shardingKey") if name in self.names
        ]
        if self.topic is not None and not places:
            return None
        nothing = [None] * batch.num_rows

        def column(meaning: str) -> list[Any]:
            name = self.names.get(meaning)
            if name is None:
                return nothing
            values: list[Any] = batch.column(batch.schema.get_field_index(name)).to_pylist()
            return values

        topics = [self.topic] * batch.num_rows if self.topic else column("topic")
        if None in topics:
            raise MessageError("a row has no topic: its column 'topic' is null")
        wanted = zip(
            topics, column("brokerName"), column("queueId"), column("shardingKey"), strict=True
        )
        return [Target(*each) for each in wanted]


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
