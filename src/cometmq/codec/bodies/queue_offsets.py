"""Offsets by queue: a broadcasting consumer's offsets.json, and bodies of resets (220, 222) and queries (221, 223).

The file and most resets are `{"offsetTable":{{"brokerName":…,"queueId":…,"topic":…}:offset}}`, with objects as keys. Source:
OffsetSerializeWrapper and ResetOffsetBody of RocketMQ 5.3.3.
"""

from collections.abc import Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.queue_table import QUEUE, queue_table_json
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given


def encode_queue_offsets(
    offsets: Mapping[MessageQueue, int], *, is_pretty: bool = False
) -> bytes:
    """Encode a table of offsets by queue; `is_pretty` for files, as Java writes them."""
    table = queue_table_json(offsets)
    return fastjson.dumps({"offsetTable": table}, pretty=is_pretty)


def decode_queue_offsets(content: bytes | str) -> dict[MessageQueue, int]:
    """Decode a table of offsets by queue, or its form as a list. Raises CodecError if it is malformed."""
    body = load_object(content, "queue offsets")
    listed = body.raw().get("offsetTable")
    if isinstance(listed, list):  # If a non-Java admin tool requested it.
        return {QUEUE.of(part): part.int64("offset") for part in body.objects("offsetTable")}
    table = body.member("offsetTable").raw()
    offsets = {}
    for key, offset in table.items():
        if (
            not isinstance(key, Mapping)
            or isinstance(offset, bool)
            or not isinstance(offset, int)
        ):
            raise CodecError(
                f"queue offsets: {as_given(key, 60)} must be a queue and have an offset"
            )
        offsets[QUEUE.of(JsonObject(dict(key), "queue offsets"))] = offset
    return offsets


def encode_queue_offset_list(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Encode a table of offsets as a list, which C++ clients read in a reset (ResetOffsetBodyForC)."""
    listed = [{**QUEUE.to_json(queue), "offset": offset} for queue, offset in offsets.items()]
    return fastjson.dumps({"offsetTable": listed}, sort_keys=True)


def encode_client_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Encode the body of the answer to GET_CONSUMER_STATUS_FROM_CLIENT 221 in fastjson's form, with objects as keys."""
    return fastjson.dumps({"consumerTable": {}, "messageQueueTable": queue_table_json(offsets)})


def decode_client_offsets(content: bytes | str) -> dict[MessageQueue, int]:
    """Decode the body of the answer to GET_CONSUMER_STATUS_FROM_CLIENT 221. Raises CodecError if it is malformed."""
    table = load_object(content, "consumer status").member("messageQueueTable").raw()
    return decode_queue_offsets(fastjson.dumps({"offsetTable": table}))


def encode_all_client_offsets(clients: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """Encode the answer to INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223, by client id, in fastjson's form."""
    tables = {client_id: queue_table_json(offsets) for client_id, offsets in clients.items()}
    return fastjson.dumps({"consumerTable": tables, "messageQueueTable": {}})
