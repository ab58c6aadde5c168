"""Consumer offsets of a broker: the answer to GET_ALL_CONSUMER_OFFSET 43, and consumerOffset.json.

Source: ConsumerOffsetManager and ConsumerOffsetSerializeWrapper of RocketMQ 5.3.3. An offset is the next one to
consume. 4.9 writes the offset table only. Newer brokers add `groupTopicMap` to the file; decoding ignores it.
With light queues (`enableLmq`) a broker uses lmqConsumerOffset.json instead (LmqConsumerOffsetManager), which has an
additional table of light groups, with their offsets in queue 0.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.data_version import DataVersion
from cometmq.model.frozen import dataclass
from cometmq.model.names import LMQ_PREFIX

TOPIC_GROUP_SEPARATOR = "@"
_LIGHT_QUEUE = 0  # Queue id of a light topic.


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """Consumer offsets of a broker: the next queue offset to consume, by "topic@group" and queue id."""

    version: DataVersion
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def encode_offset_table(table: OffsetTable) -> bytes:
    """Encode the body of the answer to GET_ALL_CONSUMER_OFFSET 43 in fastjson's form, with numbers as keys."""
    return fastjson.dumps(
        {"dataVersion": table.version.to_json(), "offsetTable": _offsets_json(table)}
    )


def encode_offsets_file(table: OffsetTable) -> str:
    """Encode consumer offsets as the text of consumerOffset.json."""
    return fastjson.dumps(_file_json(table), pretty=True).decode()


def encode_light_offsets_file(table: OffsetTable) -> str:
    """Encode offsets as the text of lmqConsumerOffset.json; those of light groups in queue 0 have their own table."""
    plain: dict[str, Mapping[int, int]] = {}
    light: dict[str, int] = {}
    for key, queues in table.offsets.items():
        if not is_light(key):
            plain[key] = queues
            continue
        if _LIGHT_QUEUE in queues:
            light[key] = queues[_LIGHT_QUEUE]
        others = {number: at for number, at in queues.items() if number != _LIGHT_QUEUE}
        if others:  # A light group of an ordinary topic.
            plain[key] = others
    file = _file_json(OffsetTable(table.version, plain))
    offsets = file.pop("offsetTable")
    return fastjson.dumps(
        {**file, "lmqOffsetTable": light, "offsetTable": offsets}, pretty=True
    ).decode()


def is_light(key: str) -> bool:
    """Return whether the group of a "topic@group" is a light one (MixAll.isLmq)."""
    return key.partition(TOPIC_GROUP_SEPARATOR)[2].startswith(LMQ_PREFIX)


def _file_json(table: OffsetTable) -> dict[str, Any]:
    topics: dict[str, list[str]] = {}
    for key in table.offsets:
        topic, separator, group = key.partition(TOPIC_GROUP_SEPARATOR)
        if separator:
            topics.setdefault(group, []).append(topic)
    return {
        "dataVersion": table.version.to_json(),
        "groupTopicMap": topics,
        "offsetTable": _offsets_json(table),
    }


def decode_offset_table(content: bytes | str) -> OffsetTable:
    """Decode a table of offsets from a body, consumerOffset.json or lmqConsumerOffset.json.

    Raises CodecError if it is malformed.
    """
    body = load_object(content, "consumer offsets")
    offsets = body.table("offsetTable", lambda part, key: part.numbered(key, JsonObject.int64))
    if "lmqOffsetTable" in body:
        for key, offset in body.table("lmqOffsetTable", JsonObject.int64).items():
            offsets.setdefault(key, {})[_LIGHT_QUEUE] = offset
    return OffsetTable(body.version("dataVersion"), offsets)


def _offsets_json(table: OffsetTable) -> dict[str, Any]:
    return {key: dict(queues) for key, queues in table.offsets.items()}
