"""Tables by queue: JSON objects whose keys are objects, `{{"brokerName":…,"queueId":…,"topic":…}:…}`.

fastjson writes a `Map<MessageQueue, …>` so; statistics, offsets and running infos have them. The progress of all
groups of a broker is thousands of them, so such bodies are written and read without an object for each key.
"""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.fastjson import FrozenObject
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue

Value = TypeVar("Value")

# A queue that is a key, as RocketMQ and we write it. No text has these quotes without a backslash before each:
# where the pattern begins within one, what is made of it is no JSON, and the body is read as it came.
_QUEUE_KEY = re.compile(
    rb'(?<=[{,])\{"brokerName":"([^"\\]*+)","queueId":(-?\d++),"topic":"([^"\\]*+)"\}(?=:)'
)
_QUEUE_TEXT = rb'"{\\"brokerName\\":\\"\1\\",\\"queueId\\":\2,\\"topic\\":\\"\3\\"}"'
_QUEUES_KEPT = 4096


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


def queue_table_text(table: Mapping[MessageQueue, Value], text: Callable[[Value], str]) -> str:
    """A table by queue as the text of its JSON; `text` writes a value."""
    lines = [
        f"{orjson.dumps(queue_json(queue)).decode()}:{text(value)}"
        for queue, value in table.items()
    ]
    return f"{{{','.join(lines)}}}"


def load_queue_tables(content: bytes | str, what: str) -> JsonObject:
    """`load_object` of a body with such tables; where strict JSON can be made of it, in a tenth of the time.

    Raises:
        CodecError: it is no JSON, or no object.
    """
    raw = content.encode() if isinstance(content, str) else content
    if b'"$ref"' not in raw:
        with contextlib.suppress(CodecError):
            strict = _QUEUE_KEY.sub(_QUEUE_TEXT, raw)
            return JsonObject(fastjson.loads(strict, lenient_size_max=0), what)
    return load_object(raw, what)


def queue_table_of(
    part: JsonObject, read: Callable[[JsonObject], Value]
) -> dict[MessageQueue, Value]:
    """The table in a JSON object whose values are objects, too; `read` takes one of them.

    Raises:
        CodecError: a key is no queue, or a value no object.
    """
    table = {}
    values: Mapping[Any, Any] = part.raw()
    for key, value in values.items():
        queue = _queue_of_text(key) if isinstance(key, str) else _queue_of_key(key)
        if queue is None:
            raise CodecError(f"{part}: the key {key!r:.60} must be a queue")
        table[queue] = read(JsonObject(value, str(queue), part))
    return table


@keep_short(_QUEUES_KEPT, length_max=512)  # Of the names of a topic and a broker.
def _queue_of_text(key: str) -> MessageQueue | None:
    """The queue whose JSON a key is; groups of a broker name the same ones again and again."""
    try:
        return _queue_of_key(orjson.loads(key))
    except orjson.JSONDecodeError:
        return None


def _queue_of_key(key: object) -> MessageQueue | None:
    if not isinstance(key, Mapping):
        return None
    return queue_of(JsonObject(dict(key), "the key of a table by queue"))
