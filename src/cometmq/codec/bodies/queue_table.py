"""Tables by queue: JSON objects whose keys are objects, `{{"brokerName":…,"queueId":…,"topic":…}:…}`.

fastjson writes a `Map<MessageQueue, …>` so; statistics, offsets and running infos have them.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cometmq.codec.bodies.json_object import JsonObject
from cometmq.codec.fastjson import FrozenObject
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue

Value = TypeVar("Value")


def queue_json(queue: MessageQueue) -> dict[str, Any]:
    """A queue as JSON values."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_of(part: JsonObject) -> MessageQueue:
    """The queue in a JSON object.

    Raises:
        CodecError: a field is missing or wrong.
    """
    return MessageQueue(part.text("topic"), part.text("brokerName"), part.int32("queueId"))


def queue_table_json(table: Mapping[MessageQueue, Any]) -> dict[FrozenObject, Any]:
    """A table by queue as JSON values."""
    return {FrozenObject(queue_json(queue)): value for queue, value in table.items()}


def queue_table_of(
    part: JsonObject, read: Callable[[JsonObject], Value]
) -> dict[MessageQueue, Value]:
    """The table in a JSON object whose values are objects, too; `read` takes one of them.

    Raises:
        CodecError: a key is no queue, or a value no object.
    """
    table = {}
    for key, value in part.raw().items():
        if not isinstance(key, Mapping):
            raise CodecError(f"{part}: the key {key!r:.60} must be a queue")
        queue = queue_of(JsonObject(dict(key), "a queue", part))
        table[queue] = read(JsonObject(value, str(queue), part))
    return table
