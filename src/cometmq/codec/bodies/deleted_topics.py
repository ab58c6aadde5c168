"""The deleted topics and consumer groups, stored in deletedTopics.json (docs/format/deleted-topics.md)."""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object

_MEMBER = "deletedTopics"


class DeletedTopic(NamedTuple):
    """The deletion of a topic, or of a consumer group, which is stored under the name `@group`.

    Attributes:
        end: Physical offset after the last record that may belong to the deleted topic or group.
        deleted_ms: Time of the deletion, ms since 1970.
    """

    end: int
    deleted_ms: int


def encode_deleted_topics(topics: Mapping[str, DeletedTopic]) -> str:
    """Encode deletions, by name, as the text of deletedTopics.json."""
    members = {
        name: {"end": each.end, "timeStamp": each.deleted_ms} for name, each in topics.items()
    }
    return fastjson.dumps({_MEMBER: members}).decode()


def decode_deleted_topics(text: str) -> dict[str, DeletedTopic]:
    """Decode deletedTopics.json to deletions by name. Raises CodecError if the text is malformed."""
    part = load_object(text, _MEMBER).member(_MEMBER)
    return {
        str(name): DeletedTopic(of.int64("end", 0), of.int64("timeStamp", 0))
        for name in part.names()
        for of in [part.member(name)]
    }
