"""The deleted topics and consumer groups, stored in deletedTopics.json (docs/format/deleted-topics.md)."""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object

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
    members = {name: deletion_json(each) for name, each in topics.items()}
    return fastjson.dumps({_MEMBER: members}).decode()


def decode_deleted_topics(text: str) -> dict[str, DeletedTopic]:
    """Decode deletedTopics.json to deletions by name. Raises CodecError if the text is malformed."""
    part = load_object(text, _MEMBER).member(_MEMBER)
    return {str(name): deletion(part.member(name)) for name in part.names()}


def deletion_json(deleted: DeletedTopic) -> dict[str, int]:
    """Convert a deletion to a dict of JSON values."""
    return {"end": deleted.end, "timeStamp": deleted.deleted_ms}


def deletion(part: JsonObject) -> DeletedTopic:
    """Decode a deletion from its JSON object. Raises CodecError if it is malformed."""
    return DeletedTopic(part.int64("end", 0), part.int64("timeStamp", 0))
