"""Topics of a broker: what it registers, answers to GET_ALL_TOPIC_CONFIG 21, keeps in topics.json.

Source: TopicConfig, TopicConfigSerializeWrapper and TopicConfigManager of RocketMQ 5.3.3. 4.9 has
neither `attributes` nor `stateVersion`; each form is read.
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

# TopicConfig.defaultReadQueueNums of RocketMQ: what a topic without the field has.
_QUEUES_DEFAULT = 16


@dataclass(frozen=True, slots=True)
class TopicTable:
    """All topics of a broker, and the version of the table (TopicConfigSerializeWrapper)."""

    version: DataVersion
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)


def encode_topic_table(table: TopicTable) -> bytes:
    """A body that holds the table."""
    return fastjson.dumps(topic_table_json(table))


def encode_topics_file(table: TopicTable) -> str:
    """Return the text of topics.json."""
    return fastjson.dumps(topic_table_json(table), pretty=True).decode()


def decode_topics_file(content: str) -> tuple[TopicTable, bool]:
    """Return the table in topics.json, and whether it says that it is a slave's copy: older versions wrote that.

    Raises:
        CodecError: The text is no table of topics; the message names the field.
    """
    body = load_object(content, "topic table")
    return topic_table(body), body.flag("isCopy", default=False)


def decode_topic_table(content: bytes | str) -> TopicTable:
    """A body or the text of topics.json.

    Raises:
        CodecError: it is no table of topics; the message names the field.
    """
    return topic_table(load_object(content, "topic table"))


def encode_topic_config(config: TopicConfig) -> bytes:
    """A body that holds one topic, as GET_TOPIC_CONFIG 351 answers it."""
    return fastjson.dumps(topic_json(config))


def decode_topic_config(content: bytes | str) -> TopicConfig:
    """A body that holds one topic.

    Raises:
        CodecError: it is no topic; the message names the field.
    """
    return topic(load_object(content, "topic"))


def decode_topic_configs(content: bytes | str) -> tuple[TopicConfig, ...]:
    """The topics in the body of UPDATE_AND_CREATE_TOPIC_LIST 18.

    Raises:
        CodecError: it is no list of topics; the message names the field.
    """
    body = load_request(content, "topic list")
    return tuple(topic(part) for part in body.objects("topicConfigList"))


def topic_table_json(table: TopicTable) -> dict[str, Any]:
    """The table as JSON values, for bodies that contain one."""
    return {
        "dataVersion": table.version.to_json(),
        "topicConfigTable": {name: topic_json(each) for name, each in table.topics.items()},
    }


def topic_table(body: JsonObject) -> TopicTable:
    """The table in a JSON object, for bodies that contain one."""
    topics = body.table("topicConfigTable", lambda part, name: topic(part.member(name), name))
    return TopicTable(body.version("dataVersion"), topics)


def topic_json(config: TopicConfig) -> dict[str, Any]:
    """One topic as JSON values."""
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
    """The topic in a JSON object; `name` is what it is called where the object does not say."""
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
    """The body of QUERY_DATA_VERSION 322 and of its answer."""
    return fastjson.dumps(version.to_json())


def decode_data_version(content: bytes | str) -> DataVersion:
    """The version in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    return load_object(content, "data version").as_version()
