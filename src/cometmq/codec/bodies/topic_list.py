"""A list of topic names: answers to 206, 224, 304, 305, 311, 312, 313 and 343. Source: TopicList of RocketMQ 5.3.3."""

from collections.abc import Iterable
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class TopicList:
    """Names of topics, and for 304 the address of a broker that knows further ones."""

    topics: tuple[str, ...] = ()
    broker_address: str | None = None


def encode_topic_list(topics: Iterable[str], *, broker_address: str | None = None) -> bytes:
    """Encode a list of topic names as a JSON body."""
    body: dict[str, Any] = {}
    if broker_address is not None:
        body["brokerAddr"] = broker_address
    body["topicList"] = list(topics)
    return fastjson.dumps(body)


def decode_topic_list(content: bytes | str) -> TopicList:
    """Decode a list of topics. Raises CodecError if the body is malformed."""
    body = load_object(content, "topic list")
    return TopicList(body.texts("topicList"), body.maybe_text("brokerAddr"))
