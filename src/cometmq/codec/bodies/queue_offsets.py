"""Offsets by queue: a broadcasting consumer's offsets.json, and the body of RESET_CONSUMER_CLIENT_OFFSET 220.

Both are `{"offsetTable":{{"brokerName":…,"queueId":…,"topic":…}:offset}}`, with objects as keys. Source:
OffsetSerializeWrapper and ResetOffsetBody of RocketMQ 5.3.3.
"""

from collections.abc import Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.fastjson import FrozenObject
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue


def encode_queue_offsets(
    offsets: Mapping[MessageQueue, int], *, is_pretty: bool = False
) -> bytes:
    """The text of such a table; `is_pretty` as Java writes files."""
    table = {
        FrozenObject(
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
        ): offset
        for queue, offset in offsets.items()
    }
    return fastjson.dumps({"offsetTable": table}, pretty=is_pretty)


def decode_queue_offsets(content: bytes | str) -> dict[MessageQueue, int]:
    """The table in such a text.

    Raises:
        CodecError: it is none; the message says what is wrong.
    """
    body = load_object(content, "queue offsets")
    listed = body.raw().get("offsetTable")
    if isinstance(listed, list):  # Where an admin of another language than Java asked for it.
        return {_queue(part): part.int64("offset") for part in body.objects("offsetTable")}
    table = body.member("offsetTable").raw()
    offsets = {}
    for key, offset in table.items():
        if (
            not isinstance(key, Mapping)
            or isinstance(offset, bool)
            or not isinstance(offset, int)
        ):
            raise CodecError(f"queue offsets: {key!r:.60} must be a queue and have an offset")
        offsets[_queue(JsonObject(dict(key), "queue offsets"))] = offset
    return offsets


def _queue(part: JsonObject) -> MessageQueue:
    return MessageQueue(part.text("topic"), part.text("brokerName"), part.int32("queueId"))
