"""The fields of requests that many tests write by hand, as official clients fill them; others are given by their names."""

import time
from collections.abc import Mapping

from cometmq.codec.properties import encode_properties

LETTERS = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip


def send_fields(
    topic: str, queue_id: int | str = 0, properties: str = "", **more: object
) -> dict[str, str]:
    """A send in letters (SendMessageRequestHeaderV2)."""
    return in_letters(word_send_fields(topic, queue_id, properties)) | _texts(more)


def word_send_fields(
    topic: str, queue_id: int | str = 0, properties: str = "", **more: object
) -> dict[str, str]:
    """A send in words (SendMessageRequestHeader)."""
    fields = {
        "producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
        "queueId": queue_id, "sysFlag": 0, "bornTimestamp": _now_ms(), "flag": 0,
        "properties": properties, "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return _texts(fields | more)


def long_fields(
    topic: str = "Orders",
    queue_id: int | str = 0,
    properties: Mapping[str, str] | None = None,
    **more: object,
) -> dict[str, str]:
    """A send in words with these properties, born at a time that is always the same."""
    text = encode_properties(properties or {}).decode()
    return word_send_fields(
        topic, queue_id, text, **{"bornTimestamp": 1_700_000_000_000} | more
    )


def in_letters(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields of a send in words under their letters."""
    return {LETTERS[name]: value for name, value in fields.items()}


def short_fields(
    topic: str = "Orders",
    queue_id: int | str = 0,
    properties: Mapping[str, str] | None = None,
    **more: object,
) -> dict[str, str]:
    """`long_fields` in letters; others are given by their words."""
    return in_letters(long_fields(topic, queue_id, properties, **more))


def pull_fields(
    topic: str, queue_id: int | str = 0, offset: int | str = 0, **more: object
) -> dict[str, str]:
    """A pull of 32 messages that brings its subscription to all of them and does not wait."""
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        "expressionType": "TAG",
    }  # fmt: skip
    return _texts(fields | more)


def pop_fields(topic: str, queue_id: int | str = -1, **more: object) -> dict[str, str]:
    """A pop of 32 messages that does not wait."""
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": queue_id, "maxMsgNums": 32, "invisibleTime": 60_000,
        "pollTime": 0, "bornTime": _now_ms(), "initMode": 0, "expType": "TAG", "exp": "*",
        "order": "false",
    }  # fmt: skip
    return _texts(fields | more)


def topic_fields(topic: str, queues: int = 1, **more: object) -> dict[str, str]:
    """A topic with so many queues that may be read and written."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    return _texts(fields | more)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items()}
