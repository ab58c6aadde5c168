"""Tables by queue in fastjson's form, with objects as keys (no JSON).

Example: `{{"brokerName":…,"queueId":…,"topic":…}:…}`.

fastjson writes a `Map<MessageQueue, …>` in this way; statistics, offsets and running infos contain them. The progress
of all groups has thousands of keys, many of them alike, so short ones of tables from `load_queue_tables` are cached.
"""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.codec.fastjson import FrozenObject
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given

Value = TypeVar("Value")

# A queue as a key, as RocketMQ and CometMQ write it. Inside a JSON string, quotes are escaped; a match that begins
# inside a string therefore yields invalid JSON, and the body is then parsed in its original form.
_QUEUE_KEY = re.compile(
    rb'(?<=[{,])\{"brokerName":"([^"\\]*+)","queueId":(-?\d++),"topic":"([^"\\]*+)"\}(?=:)'
)
_QUEUE_TEXT = rb'"{\\"brokerName\\":\\"\1\\",\\"queueId\\":\2,\\"topic\\":\\"\3\\"}"'
_QUEUES_KEPT = 16_384  # 1,000 topics have 8,000 queues.


QUEUE = JsonMembers(
    MessageQueue,
    JsonMember("brokerName", "broker_name", JsonObject.text),
    JsonMember("queueId", "queue_id", JsonObject.int32),
    JsonMember("topic", "topic", JsonObject.text),
)


def queue_table_json(table: Mapping[MessageQueue, Any]) -> dict[FrozenObject, Any]:
    """Convert a table by queue to a dict with `FrozenObject` keys, for `fastjson.dumps`."""
    return {FrozenObject(QUEUE.to_json(queue)): value for queue, value in table.items()}


def queue_table_text(table: Mapping[MessageQueue, Value], text: Callable[[Value], str]) -> str:
    """Encode a table by queue as text in fastjson's form, with objects as keys (no JSON); `text` encodes a value."""
    lines = []
    broker = topic = head = tail = ""
    for queue, value in table.items():
        # Mostly the queues of one topic follow each other; the progress of all groups has 72,000 keys.
        if queue.topic != topic or queue.broker_name != broker or not head:
            topic, broker = queue.topic, queue.broker_name
            head = f'{{"brokerName":{orjson.dumps(broker).decode()},"queueId":'
            tail = f',"topic":{orjson.dumps(topic).decode()}}}:'
        lines.append(f"{head}{queue.queue_id}{tail}{text(value)}")
    return f"{{{','.join(lines)}}}"


def load_queue_tables(content: bytes | str, what: str) -> JsonObject:
    """Parse a body with tables for `queue_table_of`, usually faster than `load_object`, with the same errors."""
    raw = content.encode() if isinstance(content, str) else content
    if b'"$ref"' not in raw:
        with contextlib.suppress(CodecError):
            strict = _QUEUE_KEY.sub(_QUEUE_TEXT, raw)
            return JsonObject(fastjson.loads(strict, lenient_size_max=0), what)
    return load_object(raw, what)


def queue_table_of(
    part: JsonObject, read: Callable[[JsonObject], Value]
) -> dict[MessageQueue, Value]:
    """Decode a table by queue; `read` decodes a value. Raises CodecError if a key is no queue, or a value no object."""
    table = {}
    values: Mapping[Any, Any] = part.raw()
    for key, value in values.items():
        queue = _queue_of_text(key) if isinstance(key, str) else _queue_of_key(key)
        if queue is None:
            raise CodecError(f"{part}: the key {as_given(key, 60)} must be a queue")
        table[queue] = read(JsonObject(value, queue, part))
    return table


@keep_short(_QUEUES_KEPT, length_max=512)  # Names of a topic and a broker.
def _queue_of_text(key: str) -> MessageQueue | None:
    """Decode a queue from JSON text; None if that is no JSON object. Short texts are cached, because many repeat."""
    try:
        return _queue_of_key(orjson.loads(key))
    except orjson.JSONDecodeError:
        return None


def _queue_of_key(key: object) -> MessageQueue | None:
    if not isinstance(key, Mapping):
        return None
    return QUEUE.of(JsonObject(dict(key), "the key of a table by queue"))
