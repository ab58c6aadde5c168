"""Topics of a broker, for example in registrations, answers to GET_ALL_TOPIC_CONFIG 21, and topics.json.

Source: TopicConfig, TopicConfigSerializeWrapper and TopicConfigManager of RocketMQ 5.3.3. 4.9 has neither `attributes`
nor `stateVersion`; both forms can be decoded.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object, load_request
from cometmq.model.data_version import DataVersion
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.frozen import dataclass
from cometmq.model.topic import TopicConfig

# TopicConfig.defaultReadQueueNums of RocketMQ, used if the field is missing.
_QUEUES_DEFAULT = 16


@dataclass(frozen=True, slots=True)
class TopicTable:
    """Topics of a broker, and the version of the table (TopicConfigSerializeWrapper)."""

    version: DataVersion
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)


def encode_topic_table(table: TopicTable) -> bytes:
    """Encode a table of topics as a body, such as the answer to GET_ALL_TOPIC_CONFIG 21."""
    return fastjson.dumps(topic_table_json(table))


class TopicsFileEncoder:
    """An encoder of topics.json that keeps the text of each topic until it changes, because saves mostly add one topic."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicConfig, str]] = {}

    def encode(self, table: TopicTable) -> str:
        """Encode a table; the result is the indented text of `topic_table_json`."""
        before, known = self._known, {}
        for name, config in table.topics.items():
            kept = before.get(name)
            if kept is None or kept[0] is not config:
                kept = config, _member_text(name, config)
            known[name] = kept
        self._known = known
        text = fastjson.dumps(topic_table_json(TopicTable(table.version)), pretty=True).decode()
        if not known:
            return text
        head = text.removesuffix("}\n}")  # Ends with the table's opening bracket.
        return f"{head}{','.join([member for _, member in known.values()])}\n\t}}\n}}"


def _member_text(name: str, config: TopicConfig) -> str:
    """Return a topic as a member of the table, with a line break before each line and its indentation."""
    text = fastjson.dumps({name: topic_json(config)}, pretty=True).decode()
    return text[1:].removesuffix("\n}").replace("\n", "\n\t")


def decode_topics_file(content: str) -> tuple[TopicTable, bool]:
    """Decode topics.json; also return whether an older version of CometMQ marked it as a slave's copy.

    Raises CodecError if the text is malformed.
    """
    body = load_object(content, "topic table")
    return topic_table(body), body.flag("isCopy", default=False)


def decode_topic_table(content: bytes | str) -> TopicTable:
    """Decode a table of topics from a body or topics.json. Raises CodecError if it is malformed."""
    return topic_table(load_object(content, "topic table"))


def encode_topic_config(config: TopicConfig) -> bytes:
    """Encode a body with one topic, as in the answer to GET_TOPIC_CONFIG 351."""
    return fastjson.dumps(topic_json(config))


def decode_topic_config(content: bytes | str) -> TopicConfig:
    """Decode a body with one topic. Raises CodecError if it is malformed."""
    return topic(load_object(content, "topic"))


def decode_topic_configs(content: bytes | str) -> tuple[TopicConfig, ...]:
    """Decode the body of UPDATE_AND_CREATE_TOPIC_LIST 18. Raises CodecError if it is malformed or too large."""
    body = load_request(content, "topic list")
    return tuple(topic(part) for part in body.objects("topicConfigList"))


def topic_table_json(table: TopicTable) -> dict[str, Any]:
    """Convert a table of topics to a dict of JSON values, for bodies that contain one."""
    return {
        "dataVersion": table.version.to_json(),
        "topicConfigTable": {name: topic_json(each) for name, each in table.topics.items()},
    }


def topic_table(body: JsonObject) -> TopicTable:
    """Decode a table of topics from a body's JSON object; raises CodecError if it is malformed."""
    topics = body.table("topicConfigTable", lambda part, name: topic(part.member(name), name))
    return TopicTable(body.version("dataVersion"), topics)


def topic_json(config: TopicConfig) -> dict[str, Any]:
    """Convert a topic to a dict of JSON values."""
    return {
        "attributes": dict(config.attributes),
        "order": config.ordered,
        "perm": config.perm,
        "readQueueNums": config.read_queues,
        "topicFilterType": config.filter_type,
        "topicName": config.name,
        "topicSysFlag": config.sys_flag,
        "writeQueueNums": config.write_queues,
    }


def topic(part: JsonObject, name: str | None = None) -> TopicConfig:
    """Decode a topic from its JSON object; `name` is its name if the object has none. CodecError if malformed."""
    return TopicConfig(
        name=part.text("topicName", name),
        read_queues=part.int32("readQueueNums", _QUEUES_DEFAULT),
        write_queues=part.int32("writeQueueNums", _QUEUES_DEFAULT),
        perm=part.int32("perm", PERM_READ_WRITE),
        filter_type=part.text("topicFilterType", "SINGLE_TAG"),
        sys_flag=part.int32("topicSysFlag", 0),
        ordered=part.flag("order", default=False),
        attributes=part.text_table("attributes"),
    )


def encode_data_version(version: DataVersion) -> bytes:
    """Encode the JSON body of QUERY_DATA_VERSION 322 and of its answer."""
    return fastjson.dumps(version.to_json())


def decode_data_version(content: bytes | str) -> DataVersion:
    """Decode the body of QUERY_DATA_VERSION 322 or of its answer. Raises CodecError if malformed."""
    return load_object(content, "data version").as_version()
