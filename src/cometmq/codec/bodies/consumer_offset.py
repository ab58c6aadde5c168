"""Consumer offsets of a broker: the answer to GET_ALL_CONSUMER_OFFSET 43, and consumerOffset.json.

Source: ConsumerOffsetManager and ConsumerOffsetSerializeWrapper of RocketMQ 5.3.3. An offset is the
next one to consume. 4.9 writes the offset table alone; `groupTopicMap`, which newer brokers write
beside it into the file, says nothing that the table does not, and is made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.data_version import DataVersion

TOPIC_GROUP_SEPARATOR = "@"


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """All consumer offsets of a broker.

    Attributes:
        version: of the table.
        offsets: next queue offset to consume, by "topic@group" and queue id.
    """

    version: DataVersion
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def encode_offset_table(table: OffsetTable) -> bytes:
    """The body of the answer."""
    return fastjson.dumps(
        {"dataVersion": table.version.to_json(), "offsetTable": _offsets_json(table)}
    )


def encode_offsets_file(table: OffsetTable) -> str:
    """The text of consumerOffset.json."""
    topics: dict[str, list[str]] = {}
    for key in table.offsets:
        topic, separator, group = key.partition(TOPIC_GROUP_SEPARATOR)
        if separator:
            topics.setdefault(group, []).append(topic)
    return fastjson.dumps(
        {
            "dataVersion": table.version.to_json(),
            "groupTopicMap": topics,
            "offsetTable": _offsets_json(table),
        },
        pretty=True,
    ).decode()


def decode_offset_table(content: bytes | str) -> OffsetTable:
    """Such a body, or the text of consumerOffset.json.

    Raises:
        CodecError: it is no table of offsets; the message names the field.
    """
    body = load_object(content, "consumer offsets")
    offsets = body.table("offsetTable", lambda part, key: part.numbered(key, JsonObject.int64))
    return OffsetTable(body.version("dataVersion"), offsets)


def _offsets_json(table: OffsetTable) -> dict[str, Any]:
    return {key: dict(queues) for key, queues in table.offsets.items()}
